/*
 * Transfer (R10), and the Release that it goes with (R9). Three voters, terms 1
 * to T, S heartbeats a term, one crash with restart.
 *
 * The leader is fenced and renews until its work has returned. Then it sends
 * Release to all and TransferNow to its successor, with the term and the last
 * sequence number. The successor shows that token in its vote requests, and a
 * voter honours it exactly like the Release itself. So one step covers both:
 * a voter that may have heard of the token waives the promise (HONOUR).
 *
 * Time is one rule: a promise does not end while a claim needs it (EXPIRE). But
 * HONOUR does not ask whether a claim needs it: that no claim does is what is to
 * be shown. Votes are as in lease.pml: one candidate a term, saved when given.
 * Only node 0 crashes. README.md has the rest; -DX breaks rule X.
 */

#define N 3
#ifndef T
#define T 3
#endif
#ifndef S
#define S 2
#endif

#define OLD 3		/* as a holder: node 0 in its life before the crash */

byte top;		/* the greatest term in which a node has stood */
byte term[N];
bool up[N];		/* it stands in its term, or leads it once a quorum has answered */
bool work[N];		/* its tenure: work may run, fencing included */
byte heard[N];		/* voters that have answered it in its term */
byte seq[N];		/* its last heartbeat in this term */
byte spent[N];		/* acks up to this one are void (only with ABORT_IN_TERM) */

byte seen[N*4];		/* seen[v,h]: mark of the last heartbeat of h that v has acked */
byte live[N];		/* holders to which the voter's promise has not ended */
byte boot;		/* holders that the boot residual of node 0 stands for */
byte token[4];		/* mark of the last token, and Release, of the holder; 0 = none */

bool crashed;
byte ghost;		/* the term of work that outlived the crashed process; 0 = none */
byte gspent;		/* and what was void in it */

/* -DSOMETIMES=n makes an error of what must be able to happen, to see that it does. */
#ifndef SOMETIMES
#define SOMETIMES 0
#endif
#define sometimes(n, what)	assert(SOMETIMES != n || !(what))

#define bits(i)		(1 << (i))
#define in(set, i)	(((set) >> (i)) & 1)
#define quorum(set)	((set) == 3 || (set) == 5 || (set) == 6 || (set) == 7)
#define at(v, h)	((v)*4+(h))
#define mark(t, s)	((t)*4+(s))	/* in the order of (term, seq) */
#define termOf(m)	((m) >> 2)

#define leads(i)	(up[i] && quorum(heard[i]))

/* v is promised to h; a restarted voter knows for how long, not to which holder. */
#define bound(v, h)	(in(live[v], h) || ((v) == 0 && in(boot, h)))
#define backs(v, i)	((v) != (i) && in(live[v], i) && termOf(seen[at(v, i)]) == term[i] && seen[at(v, i)] > mark(term[i], spent[i]))
#define backsBoot(v, i)	((v) == 0 && (i) != 0 && in(boot, i) && termOf(seen[at(v, i)]) == term[i] && seen[at(v, i)] > mark(term[i], spent[i]))
#define counts(v, i)	((backs(v, i) || backsBoot(v, i)) -> 1 : 0)
#define backed(i)	(counts(0, i) + counts(1, i) + counts(2, i))
#define haunts(v)	((in(live[v], OLD) && termOf(seen[at(v, OLD)]) == ghost && seen[at(v, OLD)] > mark(ghost, gspent)) -> 1 : 0)

/* R6 */
#define free(i)		(!work[i])

#define drop(v, h)	if :: !bound(v, h) -> seen[at(v, h)] = 0 :: else fi	/* no step reads it again */

inline leave(i) {
	if :: up[i] -> drop(0, i); drop(1, i); drop(2, i) :: else fi;
	up[i] = false; heard[i] = 0; seq[i] = 0; spent[i] = 0
}

/* Nodes 1 and 2 are alike, so of these two node 1 stands first. */
#define STAND(i) :: d_step { \
	top < T && !work[i] && (i != 2 || (term[0] | term[1]) != 0) -> \
	leave(i); top++; up[i] = true; term[i] = top; heard[i] = bits(i); \
	printf("node %d stands in term %d\n", i, top) }

#define VOTE(v, c) :: d_step { \
	up[c] && term[v] < term[c] && free(v) -> \
	leave(v); term[v] = term[c]; heard[c] = heard[c] | bits(v); \
	printf("node %d votes for %d in term %d\n", v, c, term[v]) }

#define SEND(i) :: d_step { \
	leads(i) && seq[i] < S -> seq[i]++; \
	printf("node %d sends heartbeat %d of term %d\n", i, seq[i], term[i]) }

/* A new heartbeat is a promise. One that is not above the last seen is acked
 * again and extends nothing, so it is no step. */
#define RECEIVE(i, v, s) :: d_step { \
	up[i] && s <= seq[i] && term[v] <= term[i] && free(v) && seen[at(v, i)] < mark(term[i], s) -> \
	leave(v); term[v] = term[i]; seen[at(v, i)] = mark(term[i], s); \
	live[v] = live[v] | bits(i); heard[i] = heard[i] | bits(v); \
	printf("node %d promises to node %d, heartbeat %d of term %d\n", v, i, s, term[i]) }

/* notBefore: promises made in this term or later are not in what was reported. */
#define owes(v, h, i)	((h) != (i) && bound(v, h) && termOf(seen[at(v, h)]) < term[i])
#define clear(v, i)	((in(heard[i], v) && !owes(v, 0, i) && !owes(v, 1, i) && !owes(v, 2, i) && !owes(v, 3, i)) -> bits(v) : 0)
#define waited(i)	quorum(clear(0, i) | clear(1, i) | clear(2, i))

#define START(i) :: d_step { \
	!work[i] && leads(i) && waited(i) && backed(i) > 0 -> \
	assert(!work[0] && !work[1] && !work[2] && ghost == 0); \
	sometimes(1, token[0] != 0 && i != 0); sometimes(2, token[0] != 0 && i == 0); sometimes(3, token[OLD] != 0 && i == 0); \
	work[i] = true; \
	printf("node %d: the tenure of term %d starts\n", i, term[i]) }

/* The claim ran out. */
#define LAPSE(i) :: d_step { \
	work[i] -> work[i] = false; leave(i); \
	printf("node %d: the lease has lapsed\n", i) }

/* R10, R9. The work has returned; the token and the Release leave. The term is over. */
#ifdef ABORT_IN_TERM
#define AFTER(i) spent[i] = seq[i];
#else
#define AFTER(i) leave(i);
#endif
#define GIVE(i) :: d_step { \
	work[i] -> work[i] = false; token[i] = mark(term[i], seq[i]); AFTER(i) \
	printf("node %d: the work has returned; token of term %d, seq %d\n", i, termOf(token[i]), token[i] & 3) }

#ifdef TOKEN_BEFORE_JOIN
#define HURRY(i) :: d_step { \
	work[i] && token[i] != mark(term[i], seq[i]) -> token[i] = mark(term[i], seq[i]); \
	printf("node %d: token of term %d, seq %d, and the work still runs\n", i, termOf(token[i]), token[i] & 3) }
#else
#define HURRY(i)
#endif

/* The token waives the promise to that leader, incarnation and term, if the last
 * heartbeat seen is not above its own; never a boot residual. */
#if defined(TOKEN_ANY_SEQ)
#define covered(v, h)	(token[h] != 0 && termOf(seen[at(v, h)]) <= termOf(token[h]))
#elif defined(TOKEN_ANY_TERM)
#define covered(v, h)	(token[h] != 0)
#elif defined(TOKEN_ANY_LIFE)
#define covered(v, h)	(seen[at(v, h)] <= token[h] || (h == 0 && token[OLD] != 0))
#else
#define covered(v, h)	(seen[at(v, h)] <= token[h])
#endif
#ifdef TOKEN_WAIVES_ALL
#define waive(v, h)	live[v] = 0
#else
#define waive(v, h)	live[v] = live[v] & ~bits(h)
#endif
#define HONOUR(v, h) :: d_step { \
	v != h && in(live[v], h) && covered(v, h) -> waive(v, h); \
	if :: h == OLD || !up[h] -> drop(v, h) :: else fi; \
	printf("node %d honours the token of holder %d\n", v, h) }

#ifdef TOKEN_WAIVES_BOOT
#define HONOUR_BOOT(h) :: d_step { \
	boot != 0 && token[h] != 0 -> boot = 0; \
	printf("node 0 honours the token of holder %d with its boot residual\n", h) }
#else
#define HONOUR_BOOT(h)
#endif

/* A promise ends only when no running work's claim needs it. */
#define needs(v, h)	((h) != OLD && work[h] && counts(v, h) == 1 && backed(h) == 1)
#define ghostNeeds(v, h) ((h) == OLD && ghost != 0 && haunts(v) == 1 && haunts(1) + haunts(2) == 1)
#define EXPIRE(v, h) :: d_step { \
	v != h && in(live[v], h) && !needs(v, h) && !ghostNeeds(v, h) -> live[v] = live[v] & ~bits(h); \
	if :: h == OLD || !up[h] -> drop(v, h) :: else fi; \
	printf("node %d: the promise to holder %d has ended\n", v, h) }
#define EXPIRE_BOOT :: d_step { \
	boot != 0 && !(in(boot, 1) && needs(0, 1)) && !(in(boot, 2) && needs(0, 2)) && ghost == 0 -> boot = 0; \
	if :: !up[1] -> drop(0, 1) :: else fi; if :: !up[2] -> drop(0, 2) :: else fi; drop(0, OLD); \
	printf("node 0: the boot residual is over\n") }

/* Promises are lost, and the boot residual stands for them and for the node's
 * own claim. The work may outlive the process, as long as its claim lasts. */
#define OLDER(v) \
	seen[at(v, OLD)] = seen[at(v, 0)]; seen[at(v, 0)] = 0; \
	live[v] = (live[v] & 6) | (in(live[v], 0) -> 8 : 0);
#define CRASH :: d_step { \
	!crashed && term[0] != 0 -> crashed = true; \
	if :: work[0] -> ghost = term[0]; gspent = spent[0]; work[0] = false; seen[at(0, 0)] = mark(term[0], seq[0]) :: else fi; \
	OLDER(0) OLDER(1) OLDER(2) \
	token[OLD] = token[0]; token[0] = 0; \
	boot = live[0] | (ghost != 0 -> 8 : 0); live[0] = 0; leave(0); \
	printf("node 0 crashes and restarts in term %d\n", term[0]) }

#define DIES :: d_step { ghost != 0 -> ghost = 0; gspent = 0; printf("the work of the crashed process is over\n") }

#define ALL(OP)		OP(0) OP(1) OP(2)
#define PAIRS(OP)	OP(0, 1) OP(0, 2) OP(1, 0) OP(1, 2) OP(2, 0) OP(2, 1)
#define HOLDERS(OP)	PAIRS(OP) OP(0, 3) OP(1, 3) OP(2, 3)
#define FIRST(i, v)	RECEIVE(i, v, 1)
#define SECOND(i, v)	RECEIVE(i, v, 2)

active proctype world() {
	do
	ALL(STAND)
	PAIRS(VOTE)
	ALL(SEND)
	PAIRS(FIRST)
	PAIRS(SECOND)
	ALL(START)
	ALL(LAPSE)
	ALL(GIVE)
	ALL(HURRY)
	HOLDERS(HONOUR)
	ALL(HONOUR_BOOT)
	HONOUR_BOOT(3)
	HOLDERS(EXPIRE)
	EXPIRE_BOOT
	CRASH
	DIES
	od
}
