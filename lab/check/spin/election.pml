/*
 * Elections: one durable vote a term with its save in flight, winning,
 * re-anchoring, following, and tenures over promises without clocks (R1, R3 to
 * R7). Three voters, terms 1 to 3, one crash with restart.
 *
 * README.md says what is abstracted and why nothing is lost by it. In short:
 *
 *  - The network is no channel. A message stays known, and a node that may take
 *    it takes it at any time, again, or never: loss, duplication and any order.
 *    A message that no node can use any more is forgotten.
 *  - Refusing is no step: a voter may refuse for any reason, sticky or not.
 *    Time-outs and pre-votes are none either: a node stands when it likes.
 *  - Time is one rule: a promise does not end while a claim needs it (EXPIRE).
 *    lease.pml has the clocks and shows when this rule holds.
 *  - Node 0 is the one that may crash. So only its saves are seen in flight: on
 *    the others a save in flight is a delay, and all delays are there anyway.
 *
 * -DX breaks rule X; README.md has the table.
 */

#define N 3
#define T 3

#define IDLE 0		/* neither stands nor leads */
#define CAND 1
#define LEAD 2		/* leader; with a term above its ballot it stands as well (R5) */

#define EARLIER 4	/* in won[]: node 0 in its life before the crash */
#define GONE	5	/* in won[]: a leader no more */

byte term[N], vote[N];	/* vote: 0 = none, i+1 = node i */
byte dterm, dvote;	/* what of it is durable on node 0 */
byte prev[N];		/* prevTerm: the voter's term before its votes for this candidate */

byte role[N];
byte ballot[N];		/* the term in which a leader's heartbeats go out */
byte token[N];		/* the term that names its tenure: <= ballot */
bool work[N];		/* its tenure: work may run, fencing included, and its claim counts */
byte next[N];		/* of a leader that is fenced to win anew (R5): the term that it has won; else 0 */
byte granted[N];	/* voters that have granted the term in which the node stands */
byte late[N];		/* those of them whose prevTerm is above the leader's ballot */
bool kept[N];		/* node 0 has granted term 2 to the leader, and was not late: it need not remember after a restart */
byte heard[N];		/* voters that have answered the pending leader in its term */

byte won[T+1];		/* the winner of the term */
byte base3;		/* the token that ballot 3 carries */
byte prom[T+1];		/* voters whose promise to the ballot has not ended */

bool crashed;
byte gtoken, gballot;	/* work that outlived its crashed process; 0 = none */
byte greatest;		/* the greatest token of a tenure so far */

/* -DSOMETIMES=n makes an error of what must be able to happen, to see that it does. */
#ifndef SOMETIMES
#define SOMETIMES 0
#endif
#define sometimes(n, what)	assert(SOMETIMES != n || !(what))

#define bits(i)		(1 << (i))
#define in(set, i)	(((set) >> (i)) & 1)
#define quorum(set)	((set) == 3 || (set) == 5 || (set) == 6 || (set) == 7)
#define saved(i)	((i) != 0 || (term[0] == dterm && vote[0] == dvote))
#define leads(i, b)	(role[i] == LEAD && won[b] == (i)+1 && \
			 (next[i] == 0 -> (token[i] <= (b) && (b) <= ballot[i]) : (b) == next[i]))
#define pending(i)	(!work[i] || next[i] != 0)
#define stands(i)	(vote[i] == (i)+1 && next[i] == 0 && (role[i] == CAND || (role[i] == LEAD && ballot[i] < term[i])))

/* The promises that back a tenure: those to each of its ballots. */
#define part(b, lo, hi)	(((lo) <= (b) && (b) <= (hi)) -> prom[b] : 0)
#define backing(lo, hi)	(part(1, lo, hi) | part(2, lo, hi) | part(3, lo, hi))

/* R6: while its work may still run, a node neither votes for nor acks another. */
#ifdef VOTE_WHILE_WORKING
#define free(i)		true
#else
#define free(i)		(!work[i])
#endif

/* What a save in flight forbids, it forbids at once (R3). */
#ifdef IN_FLIGHT_FORBIDS_NOTHING
#define mayVote(v, t)	((v == 0 && (dterm < (t) || (dterm == (t) && dvote == 0))) || \
			 (v != 0 && (term[v] < (t) || (term[v] == (t) && vote[v] == 0))))
#else
#define mayVote(v, t)	(term[v] < (t) || (term[v] == (t) && vote[v] == 0))
#endif

#define forget(i, b)	if :: won[b] == i+1 -> won[b] = GONE; prom[b] = 0 :: else fi

inline leave(i) {	/* neither stands nor leads any more; running work is untouched */
	role[i] = IDLE; next[i] = 0; granted[i] = 0; late[i] = 0; kept[i] = false; heard[i] = 0;
	if
	:: !work[i] -> ballot[i] = 0; token[i] = 0; forget(i, 1); forget(i, 2); forget(i, 3)
	:: else
	fi
}

inline save(v) {	/* begins the save; where no crash can lose it, it is done */
	if
	:: v == 0 && crashed -> dterm = term[0]; dvote = vote[0]
	:: else
	fi
}

inline answer(v) {	/* the answer of v to the candidate, or winner, that it votes for */
	if
	:: vote[v] != 0 && vote[v] != v+1 && term[vote[v]-1] == term[v] && stands(vote[v]-1) ->
		granted[vote[v]-1] = granted[vote[v]-1] | bits(v);
		if
		:: role[vote[v]-1] == LEAD && prev[v] > ballot[vote[v]-1] && !(v == 0 && kept[vote[v]-1] && prev[0] == 2) ->
			late[vote[v]-1] = late[vote[v]-1] | bits(v)
		:: role[vote[v]-1] == LEAD && prev[v] <= ballot[vote[v]-1] && v == 0 && term[0] == 2 ->
			kept[vote[v]-1] = true
		:: else
		fi
	:: vote[v] != 0 && vote[v] != v+1 && won[term[v]] == vote[v] && pending(vote[v]-1) ->
		heard[vote[v]-1] = heard[vote[v]-1] | bits(v)
	:: else
	fi
}

/* At most one winner a term, and none inside a re-anchored interval (R5). */
inline wins(i) {
	assert(won[term[i]] == 0);
	assert(!(term[i] == 2 && won[3] != 0 && base3 == 1));
	won[term[i]] = i+1
}

/* ---- one step each ---- */

/* A node stands in any term above its own. A leader stands to re-anchor (R5).
 * Nodes 1 and 2 are alike, so of these two node 1 moves first. */
#define STAND(i, t) :: d_step { \
	term[i] < t && next[i] == 0 && (i != 2 || (term[0] | term[1]) != 0) -> \
	if :: vote[i] != i+1 && role[i] == LEAD -> prev[i] = term[i] :: vote[i] != i+1 && role[i] != LEAD -> prev[i] = 0 :: else fi; \
	if :: role[i] == IDLE -> role[i] = CAND :: else fi; \
	term[i] = t; vote[i] = i+1; granted[i] = 0; late[i] = 0; save(i); \
	printf("node %d stands in term %d\n", i, t) }

/* R3. The vote is in memory at once; its answer leaves when it is saved. prev
 * is only kept where it can matter: in votes for a leader that stands. */
#define VOTE(v, c, t) :: d_step { \
	term[c] == t && (stands(c) || (won[t] == c+1 && role[c] == LEAD)) && \
	mayVote(v, t) && !(term[v] == t && vote[v] == c+1) && free(v) -> \
	EARLY(v) \
	if :: vote[v] != c+1 && role[c] == LEAD -> prev[v] = term[v] :: vote[v] != c+1 && role[c] != LEAD -> prev[v] = 0 :: else fi; \
	leave(v); term[v] = t; vote[v] = c+1; save(v); \
	if :: saved(v) -> answer(v) :: else NOW(v) fi; \
	printf("node %d votes for node %d in term %d\n", v, c, t) }

#ifdef ANSWER_BEFORE_SAVE
#define NOW(v)	-> answer(v)
#else
#define NOW(v)
#endif
#ifdef IN_FLIGHT_FORBIDS_NOTHING
#define EARLY(v) answer(v);	/* the save before this one completes first */
#else
#define EARLY(v)
#endif

/* The save in flight completes: now the answer leaves. */
#define SAVE :: d_step { \
	!saved(0) -> dterm = term[0]; dvote = vote[0]; answer(0); \
	printf("node 0 has saved term %d, vote %d\n", dterm, dvote-1) }

/* The same vote, granted again: to a candidate that lost its own in the crash. */
#define AGAIN(v) :: d_step { \
	vote[v] == 1 && term[0] == term[v] && stands(0) && !in(granted[0], v) -> answer(v); \
	printf("node %d grants again\n", v) }

#ifdef WIN_BEFORE_SAVE
#define ownVote(i)	true
#else
#define ownVote(i)	saved(i)
#endif

/* R4. A leader whose re-anchoring has failed wins anew, once its work is over. */
#define WIN(i) :: d_step { \
	stands(i) && ownVote(i) && !work[i] && quorum(granted[i] | bits(i)) -> \
	wins(i); forget(i, 1); forget(i, 2); won[term[i]] = i+1; \
	if :: term[i] == 3 -> base3 = 3 :: else fi; \
	role[i] = LEAD; ballot[i] = term[i]; token[i] = term[i]; \
	heard[i] = granted[i] | bits(i); granted[i] = 0; late[i] = 0; kept[i] = false; \
	printf("node %d wins term %d\n", i, term[i]) }

/* R5. A quorum of grantors was in no term above the old ballot: no node can
 * have won in between, so the tenure and its token go on in a new ballot. */
#ifdef REANCHOR_BLIND
#define unbroken(i)	true
#else
#define unbroken(i)	quorum((granted[i] & ~late[i]) | ((prev[i] <= ballot[i]) -> bits(i) : 0))
#endif
#define REANCHOR(i) :: d_step { \
	role[i] == LEAD && stands(i) && ownVote(i) && quorum(granted[i] | bits(i)) && unbroken(i) -> \
	assert(!(ballot[i] == 1 && term[i] == 3 && won[2] != 0)); \
	wins(i); sometimes(1, work[i]); \
	if :: term[i] == 3 -> base3 = token[i] :: else fi; \
	ballot[i] = term[i]; granted[i] = 0; late[i] = 0; kept[i] = false; \
	if :: work[i] -> prom[term[i]] = bits(i) :: else fi; \
	printf("node %d keeps token %d in ballot %d\n", i, token[i], ballot[i]) }

/* R5, otherwise: another may have won in between. The work is fenced, the claim
 * that it has is not renewed any more, and a new tenure follows when it is over. */
#ifdef RENEW_OVERTAKEN
#define last(i)		(next[i] != 0 -> next[i] : ballot[i])
#else
#define last(i)		ballot[i]
#endif
#define OVERTAKEN(i) :: d_step { \
	role[i] == LEAD && work[i] && stands(i) && ownVote(i) && quorum(granted[i] | bits(i)) -> \
	wins(i); next[i] = term[i]; heard[i] = granted[i] | bits(i); granted[i] = 0; late[i] = 0; kept[i] = false; \
	if :: term[i] == 3 -> base3 = 3 :: else fi; \
	printf("node %d wins term %d, and stops the work of token %d\n", i, term[i], token[i]) }

/* A heartbeat of ballot b, fresh or late: its term is adopted, and saved first. */
#define ADOPT(v, i, b) :: d_step { \
	leads(i, b) && term[v] < b && free(v) -> \
	leave(v); term[v] = b; vote[v] = 0; prev[v] = 0; save(v); \
	printf("node %d adopts term %d\n", v, b) }

/* R7. The ack is a promise to ballot b. */
#define ACK(v, i, b) :: d_step { \
	leads(i, b) && term[v] == b && saved(v) && !in(prom[b], v) && free(v) -> \
	leave(v); prom[b] = prom[b] | bits(v); \
	if :: pending(i) -> heard[i] = heard[i] | bits(v) :: else fi; \
	printf("node %d promises to ballot %d of node %d\n", v, b, i) }

/* notBefore: a quorum has answered in the term, and is promised to no earlier
 * holder any more, the node's own earlier life included. What a living node
 * claims for itself is no promise and not reported: R6 has ended it before. */
#ifdef FORGET_OWN_LIFE
#define other(i, b)	(won[b] != i+1 && !(i == 0 && won[b] == EARLIER))
#else
#define other(i, b)	(won[b] != i+1)
#endif
#define claims(b)	((1 <= won[b] && won[b] <= N) -> bits(won[b]-1) : 0)
#define owed(i, b)	((b < token[i] && other(i, b)) -> (prom[b] & ~claims(b)) : 0)
#ifdef IGNORE_RESIDUAL
#define waited(i)	true
#else
#define waited(i)	quorum(heard[i] & ~(owed(i, 1) | owed(i, 2)))
#endif

/* The tenure starts: no other runs, and tokens of tenures rise. */
#define START(i) :: d_step { \
	role[i] == LEAD && !work[i] && waited(i) && quorum(backing(token[i], ballot[i]) | bits(i)) -> \
	assert(!work[0] && !work[1] && !work[2] && gtoken == 0); \
	assert(token[i] > greatest); \
	sometimes(2, greatest == 1 && token[i] == 3 && won[2] != 0); sometimes(3, greatest == 2 && token[i] == 3 && crashed); \
	greatest = token[i]; work[i] = true; heard[i] = 0; \
	prom[ballot[i]] = prom[ballot[i]] | bits(i); \
	printf("node %d: the tenure of token %d starts\n", i, token[i]) }

/* It ends, for good in this token: the claim ran out, or the node was fenced
 * and its work returned (R6). A vote it has asked for to re-anchor stays. */
#ifdef REVIVE
#define END(i) :: d_step { \
	work[i] -> work[i] = false; heard[i] = 7; \
	printf("node %d: the tenure is over, and may begin again\n", i) }
#else
#define END(i) :: d_step { \
	work[i] -> work[i] = false; \
	if :: next[i] != 0 -> won[next[i]] = 0; forget(i, 1); forget(i, 2); forget(i, 3); won[next[i]] = i+1; \
		token[i] = next[i]; ballot[i] = next[i]; next[i] = 0 \
	:: next[i] == 0 && stands(i) -> role[i] = CAND; ballot[i] = 0; token[i] = 0; late[i] = 0; kept[i] = false; \
		forget(i, 1); forget(i, 2); forget(i, 3) \
	:: next[i] == 0 && !stands(i) -> leave(i) fi; \
	printf("node %d: the tenure is over\n", i) }
#endif

/* A crash loses the save in flight and the memory. The promises of node 0 stay:
 * that is its boot residual (R1). Its work may outlive the process. */
#define lose(b) if :: won[b] == 1 -> won[b] = EARLIER; if :: !work[0] -> prom[b] = 0 :: else fi :: else fi
#ifdef NO_BOOT_RESIDUAL
#define FORGET prom[1] = prom[1] & ~1; prom[2] = prom[2] & ~1; prom[3] = prom[3] & ~1;
#else
#define FORGET
#endif
#define CRASH :: d_step { \
	!crashed -> crashed = true; \
	lose(1); lose(2); lose(3); \
	if :: work[0] -> gtoken = token[0]; gballot = last(0); work[0] = false :: else fi; \
	FORGET leave(0); term[0] = dterm; vote[0] = dvote; prev[0] = dterm; \
	printf("node 0 crashes and restarts in term %d, vote %d\n", dterm, dvote-1) }

#define bury(b)	if :: won[b] == EARLIER -> prom[b] = 0 :: else fi
#define DIES :: d_step { \
	gtoken != 0 -> gtoken = 0; gballot = 0; bury(1); bury(2); bury(3); \
	printf("the work of the crashed process is over\n") }

/* A promise ends only when no running work's claim needs it. */
#define needs(i, v, b)	(work[i] && token[i] <= b && b <= last(i) && !quorum(backing(token[i], last(i)) & ~bits(v)))
#define ghostNeeds(v, b) (gtoken != 0 && gtoken <= b && b <= gballot && !quorum(backing(gtoken, gballot) & ~bits(v)))
#define EXPIRE(v, b) :: d_step { \
	in(prom[b], v) && !needs(0, v, b) && !needs(1, v, b) && !needs(2, v, b) && !ghostNeeds(v, b) -> \
	prom[b] = prom[b] & ~bits(v); \
	printf("node %d: the promise to ballot %d has ended\n", v, b) }

#define NODES(OP)	OP(0) OP(1) OP(2)
#define TERMS(OP)	OP(0, 1) OP(0, 2) OP(0, 3) OP(1, 1) OP(1, 2) OP(1, 3) OP(2, 1) OP(2, 2) OP(2, 3)
#define PAIR(OP, i, j)	OP(i, j, 1) OP(i, j, 2) OP(i, j, 3)
#define PAIRS(OP)	PAIR(OP, 0, 1) PAIR(OP, 0, 2) PAIR(OP, 1, 0) PAIR(OP, 1, 2) PAIR(OP, 2, 0) PAIR(OP, 2, 1)

active proctype world() {
	do
	TERMS(STAND)
	PAIRS(VOTE)
	SAVE
	AGAIN(1)
	AGAIN(2)
	NODES(WIN)
	NODES(REANCHOR)
	NODES(OVERTAKEN)
	PAIRS(ADOPT)
	PAIRS(ACK)
	NODES(START)
	NODES(END)
	CRASH
	DIES
	TERMS(EXPIRE)
	od
}
