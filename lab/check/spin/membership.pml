/*
 * Membership without a log (R15, R14, and R2's test of the config). Four nodes,
 * of which 0, 1 and 2 are the first voters; terms 1 to T, versions 0 to V. The
 * leader of a term may add or remove any voter but itself, one at a time, while
 * at least MIN voters remain. Crashes at will.
 *
 * A config is known by k = (configTerm, version), and its members are stored
 * once, in voters[k]. A config that was sent stays on the way for ever: a node
 * with an older one installs it at any time, or never.
 *
 * A save is one step with what depends on it: nothing has left the node of a
 * save that a crash has lost, so it might as well not have begun. Saves are in
 * flight in election.pml.
 *
 * With -DLEASES there are promises, claims and tenures as in election.pml. In the
 * plain model a leader need not be in its tenure to reconfigure: more may happen.
 * README.md has the rest; -DX breaks rule X.
 */

#define N 4
#ifndef T
#define T 3
#endif
#ifndef V
#define V 2
#endif
#ifndef MIN
#define MIN 2
#endif

#define K	((T+1)*(V+1))
#define key(t, v)	((t)*(V+1)+(v))		/* in the order of (configTerm, version) */
#define versionOf(k)	((k)%(V+1))
#define termOf(k)	((k)/(V+1))

byte term[N];
bool voted[N];		/* in its term, for whomever */
byte config[N];		/* the node's config, as a key */
byte voters[K];		/* the members of each config; 0 = there is none */
bool up[N];		/* it stands in its term */
bool leads[N];		/* it leads it */
byte granted[N];	/* voters that have granted its term; of a leader: that have acked its config */
byte before[N];		/* of a leader: 1 + the config that it had at the win, until the stamp is saved; else 0 */
bool won[T+1];		/* a node has won it */

/* -DSOMETIMES=n makes an error of what must be able to happen, to see that it does. */
#ifndef SOMETIMES
#define SOMETIMES 0
#endif
#define sometimes(n, what)	assert(SOMETIMES != n || !(what))

#define bits(i)		(1 << (i))
#define in(set, i)	(((set) >> (i)) & 1)
#define count(set)	(((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1) + (((set) >> 3) & 1))
#define quorum(set, c)	(2 * count((set) & (c)) > count(c))
#define members(i)	voters[config[i]]

#ifdef LEASES
bool work[N];		/* its tenure: work may run, and a claim of it may count */
byte heard[N];		/* voters that have answered the pending leader in its term */
byte atWin[N];		/* the config at the win */
byte prom[T+1];		/* voters whose promise to the leader of the term has not ended */
byte older[N];		/* the config of the largest claim made before the present config; 0 = over */
byte gterm, gconfig, golder;	/* work that outlived its crashed process */
#define free(i)		(!work[i])	/* R6 */
#else
#define free(i)		true
#endif

inline leave(i) {
#ifdef LEASES
	if
	:: !work[i] ->
		heard[i] = 0; older[i] = 0; atWin[i] = 0;
		if :: leads[i] && gterm != term[i] -> prom[term[i]] = 0 :: else fi	/* it backs nothing any more */
	:: else
	fi;
#endif
	up[i] = false; leads[i] = false; granted[i] = 0; before[i] = 0
}

/* Of two leaders, the one of the lower term has no quorum of its config left that
 * is not in a higher term: so the quorums that could both act overlap. */
#define below(i)	((term[0] <= term[i] -> 1 : 0) | (term[1] <= term[i] -> 2 : 0) | (term[2] <= term[i] -> 4 : 0) | (term[3] <= term[i] -> 8 : 0))
#define higher(i)	((term[i] < 2 && won[2]) || (T > 2 && term[i] < T && won[T]))
#define stale(i)	(leads[i] && higher(i) && quorum(below(i), members(i)))
inline apart() { assert(!stale(0) && !stale(1) && !stale(2) && !stale(3)) }

/* A config of term t exists only if t has been won: so a candidate stands above
 * the term of its config. Nodes 1 and 2 are alike, so node 1 stands before 2. */
#ifdef STAND_AT_CONFIG_TERM
#define next(i)		(term[i]+1)
#else
#define next(i)		((term[i] > termOf(config[i]) -> term[i] : termOf(config[i])) + 1)
#endif
#define STAND(i) :: d_step { \
	next(i) <= T && in(members(i), i) && free(i) && (i != 2 || (term[0] | term[1] | term[3]) != 0) -> \
	leave(i); term[i] = next(i); voted[i] = true; up[i] = true; granted[i] = bits(i); \
	printf("node %d stands in term %d\n", i, term[i]) }

/* R2, R3: the candidate's config is not older than the voter's. */
#ifdef ANY_CONFIG
#define current(c, v)	true
#else
#define current(c, v)	(config[c] >= config[v])
#endif
#define VOTE(v, c) :: d_step { \
	up[c] && (term[v] < term[c] || (term[v] == term[c] && !voted[v])) && current(c, v) && free(v) && in(members(c), v) -> \
	leave(v); term[v] = term[c]; voted[v] = true; granted[c] = granted[c] | bits(v); \
	printf("node %d votes for %d in term %d\n", v, c, term[v]) }

/* R4. The config's term is the leader's now. It is sent at once, and a crash may
 * lose it (UNSTAMP) until it is saved: it has the same members. */
#ifdef NOT_STAMPED
#define stamped(i)	config[i]
#else
#define stamped(i)	key(term[i], versionOf(config[i]))
#endif
#define WIN(i) :: d_step { \
	up[i] && quorum(granted[i], members(i)) && in(members(i), i) -> \
	sometimes(1, i == 3 && term[i] == T); sometimes(2, versionOf(config[i]) == V && count(members(i)) == 4); \
	assert(!won[term[i]]); won[term[i]] = true; \
	WINNING(i) \
	voters[stamped(i)] = members(i); before[i] = config[i]+1; config[i] = stamped(i); \
	up[i] = false; leads[i] = true; granted[i] = 0; KEEP(i) \
	apart(); \
	printf("node %d wins term %d with members %d of version %d\n", i, term[i], members(i), versionOf(config[i])) }

#define STAMP(i) :: d_step { \
	leads[i] && before[i] != 0 -> before[i] = 0; granted[i] = granted[i] | bits(i); \
	printf("node %d has saved version %d of term %d\n", i, versionOf(config[i]), term[i]) }

#define UNSTAMP(i) :: d_step { \
	leads[i] && before[i] != 0 && free(i) -> config[i] = before[i]-1; leave(i); \
	printf("node %d crashes and restarts with version %d of term %d\n", i, versionOf(config[i]), termOf(config[i])) }

/* A newer config is installed from any message, but not by a leader. A candidate
 * gives its round up: a round is of one config. */
#ifdef ROUND_OUTLIVES_CONFIG
#define GIVEUP(v)
#else
#define GIVEUP(v)	if :: up[v] -> leave(v) :: else fi;
#endif
#define INSTALL(v, k) :: d_step { \
	voters[k] != 0 && config[v] < k && !leads[v] -> config[v] = k; GIVEUP(v) KEEP(v) \
	printf("node %d installs version %d of term %d: members %d\n", v, versionOf(k), termOf(k), voters[k]) }

/* R7. A heartbeat: its term and its config are adopted, and acked. A voter that
 * has a newer config keeps that, and its ack counts all the same. A node that
 * is no voter gets no heartbeat (R8, R14) and learns by INSTALL. */
#define HEARTBEAT(i, v) :: d_step { \
	leads[i] && term[v] <= term[i] && free(v) && !in(granted[i], v) && in(members(i), v) -> \
	if :: term[v] < term[i] || up[v] || leads[v] -> leave(v) :: else fi; \
	if :: term[v] < term[i] -> term[v] = term[i]; voted[v] = false :: else fi; \
	if :: config[v] < config[i] -> config[v] = config[i] :: else fi; KEEP(v) granted[i] = granted[i] | bits(v); PROMISE(i, v) \
	printf("node %d acks the config of node %d in term %d\n", v, i, term[i]) }

#ifdef INSTALL_BEFORE_SAVE
byte disk[N];		/* the config that a restart finds */
#define KEEP(i)		disk[i] = config[i];
#define SAVE(i) :: d_step { disk[i] != config[i] -> disk[i] = config[i]; printf("node %d has saved its config\n", i) }
#define LOSE(i) :: d_step { \
	disk[i] != config[i] -> leave(i); config[i] = disk[i]; \
	printf("node %d crashes and restarts with version %d of term %d\n", i, versionOf(disk[i]), termOf(disk[i])) }
#else
#define KEEP(i)
#endif

/* R15. A quorum of the config has acked it in this term; then one voter more or
 * less, durable before it is installed or sent. No two configs have one name. */
#ifdef RECONFIGURE_WITHOUT_QUORUM
#define committed(i)	true
#else
#define committed(i)	quorum(granted[i], members(i))
#endif
#define RECONFIGURE(i, change) :: d_step { \
	leads[i] && committed(i) && !in(change, i) && versionOf(config[i]) < V && \
	count(members(i) ^ (change)) >= MIN && TENURE(i) -> \
	CLAIMED(i) \
	assert(voters[config[i]+1] == 0); \
	voters[config[i]+1] = members(i) ^ (change); config[i] = config[i]+1; granted[i] = bits(i); before[i] = 0; \
	apart(); \
	printf("node %d makes version %d of term %d: members %d\n", i, versionOf(config[i]), term[i], members(i)) }

#ifdef LEASES
#define WINNING(i)	heard[i] = granted[i]; atWin[i] = config[i];
#define PROMISE(i, v)	prom[term[i]] = prom[term[i]] | bits(v); if :: !work[i] -> heard[i] = heard[i] | bits(v) :: else fi;

/* An ack waits for the save of the term and not for that of the config (R16). */
#define ACK(i, v) :: d_step { \
	leads[i] && term[v] <= term[i] && free(v) && !in(prom[term[i]], v) && in(members(i), v) -> \
	if :: term[v] < term[i] || up[v] || leads[v] -> leave(v) :: else fi; \
	if :: term[v] < term[i] -> term[v] = term[i]; voted[v] = false :: else fi; \
	PROMISE(i, v) \
	printf("node %d promises to node %d in term %d\n", v, i, term[i]) }
#define TENURE(i)	(work[i] && quorum(prom[term[i]], members(i)))

/* The largest claim ever made ends before the lease under the present config
 * does: so from here on that config's promises stand for all claims so far. */
#ifdef CLAIM_FORGOTTEN
#define CLAIMED(i)	if :: older[i] == 0 -> older[i] = config[i] :: else fi;
#else
#define CLAIMED(i)	older[i] = config[i];
#endif

/* notBefore: a quorum of the config at the win has answered in the term and is
 * promised to no earlier holder. */
#define owed(i, b)	((b) < term[i] -> prom[b] : 0)
#define waited(i)	quorum(heard[i] & ~(owed(i, 1) | owed(i, T-1)), voters[atWin[i]])
#define START(i) :: d_step { \
	leads[i] && !work[i] && waited(i) && quorum(prom[term[i]] | bits(i), members(i)) -> \
	assert(!work[0] && !work[1] && !work[2] && !work[3] && gterm == 0); \
	sometimes(3, i == 3 && term[i] == T); \
	work[i] = true; heard[i] = 0; atWin[i] = 0; prom[term[i]] = prom[term[i]] | bits(i); \
	printf("node %d: the tenure of term %d starts\n", i, term[i]) }

#define END(i) :: d_step { work[i] -> work[i] = false; leave(i); printf("node %d: the tenure is over\n", i) }

/* Once. The promises given by the node stay: its boot residual. */
#define CRASH(i) :: d_step { \
	work[i] && gterm == 0 -> \
	gterm = term[i]; gconfig = config[i]; golder = older[i]; work[i] = false; leave(i); \
	printf("node %d crashes, its work lives on\n", i) }
#define DIES :: d_step { \
	gterm != 0 -> prom[gterm] = 0; gterm = 0; gconfig = 0; golder = 0; \
	printf("the work of the crashed process is over\n") }

/* A promise ends when no claim needs it: work may run as long as a claim under
 * its present config, or the largest one before it, may hold. */
#define holds(t, k, v)	((k) != 0 && quorum(prom[t] & ~bits(v), voters[k]))
#define needs(i, v, t)	(work[i] && term[i] == (t) && !holds(t, config[i], v) && !holds(t, older[i], v))
#define ghostNeeds(v, t) (gterm == (t) && !holds(t, gconfig, v) && !holds(t, golder, v))
#define EXPIRE(v, t) :: d_step { \
	in(prom[t], v) && !needs(0, v, t) && !needs(1, v, t) && !needs(2, v, t) && !needs(3, v, t) && !ghostNeeds(v, t) -> \
	prom[t] = prom[t] & ~bits(v); \
	if :: leads[0] && term[0] == t && !holds(t, older[0], v) -> older[0] = 0 :: else fi; \
	if :: leads[1] && term[1] == t && !holds(t, older[1], v) -> older[1] = 0 :: else fi; \
	if :: leads[2] && term[2] == t && !holds(t, older[2], v) -> older[2] = 0 :: else fi; \
	if :: leads[3] && term[3] == t && !holds(t, older[3], v) -> older[3] = 0 :: else fi; \
	printf("node %d: the promise to term %d has ended\n", v, t) }
#else
#define WINNING(i)
#define PROMISE(i, v)
#define TENURE(i)	true
#define CLAIMED(i)
#endif

#define ALL(OP)		OP(0) OP(1) OP(2) OP(3)
#define PAIRS(OP)	OP(0, 1) OP(0, 2) OP(0, 3) OP(1, 0) OP(1, 2) OP(1, 3) OP(2, 0) OP(2, 1) OP(2, 3) OP(3, 0) OP(3, 1) OP(3, 2)
#define TERMS(OP)	OP(0, 1) OP(0, 2) OP(1, 1) OP(1, 2) OP(2, 1) OP(2, 2) OP(3, 1) OP(3, 2)
#define LAST(OP)	OP(0, T) OP(1, T) OP(2, T) OP(3, T)
#define KEYS(OP, v)	OP(v, key(1, 0)) OP(v, key(1, 1)) OP(v, key(1, V)) OP(v, key(2, 0)) OP(v, key(2, 1)) OP(v, key(2, V)) \
			OP(v, key(T, 0)) OP(v, key(T, 1)) OP(v, key(T, V))
#define ONE(i)		RECONFIGURE(i, 1) RECONFIGURE(i, 2) RECONFIGURE(i, 4) RECONFIGURE(i, 8)
#define TWO(i)		RECONFIGURE(i, 3) RECONFIGURE(i, 5) RECONFIGURE(i, 6) RECONFIGURE(i, 9) RECONFIGURE(i, 10) RECONFIGURE(i, 12)

active proctype world() {
	d_step { voters[0] = 7 }
	do
	ALL(STAND)
	PAIRS(VOTE)
	ALL(WIN)
	ALL(STAMP)
	ALL(UNSTAMP)
	KEYS(INSTALL, 0) KEYS(INSTALL, 1) KEYS(INSTALL, 2) KEYS(INSTALL, 3)
	PAIRS(HEARTBEAT)
	ALL(ONE)
#ifdef TWO_AT_ONCE
	ALL(TWO)
#endif
#ifdef INSTALL_BEFORE_SAVE
	ALL(SAVE)
	ALL(LOSE)
#endif
#ifdef LEASES
	PAIRS(ACK)
	ALL(START)
	ALL(END)
	ALL(CRASH)
	DIES
	TERMS(EXPIRE)
#if T > 2
	LAST(EXPIRE)
#endif
#endif
	od
}
