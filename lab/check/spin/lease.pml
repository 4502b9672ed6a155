/*
 * Leases: promises, residuals and drifting clocks (R1, R6, R7, R9 and the
 * lease inequality). Two or three voters (-DN=2), terms 1 to T, one crash.
 *
 * Time is made of ticks. In each tick every node's clock moves on by one unit or
 * by two, as it likes: that is the drift alphabet, 1.5 units a tick within 1/3.
 * A promise lasts DV units of the voter's clock from the receipt, a claim DL
 * units of the leader's clock from the send, and DL <= DV (1 - 1/3)/(1 + 1/3),
 * which is DV/2. All timers count down on the clock of the node that has them.
 *
 * Between two ticks anything may happen, in any order: the votes, saves and
 * messages of a whole election take no time if the world likes it so.
 *
 * Votes are saved when given (election.pml has the saves in flight) and known to
 * the candidate at once: a residual counts from its arrival, so a later answer
 * only makes the candidate wait longer. Heartbeats and acks take as long as they
 * like. README.md has the rest; -DX breaks rule X.
 */

#ifndef N
#define N 3
#endif
#ifndef T
#define T 2
#endif
#ifndef DV
#define DV 4
#endif
#ifdef IGNORE_DRIFT
#define DL DV
#else
#define DL (DV/2)
#endif

#define NEVER 15	/* in nb: no answer yet */
#define OLD N		/* as a holder: node 0 in its life before the crash */

byte top;		/* the greatest term in which a node has stood */
byte term[N];
bool up[N];		/* it stands in its term, or leads it once a quorum has answered */
bool work[N];		/* its tenure: work may run, fencing included */
byte claim[N];		/* what is left of the lease, on the leader's clock */
byte nb[N*N];		/* nb[i,j]: how long i still waits for what j owes to others */

/* The one message of leader i that is on its way: what it claims, and where it is. */
byte fresh[N];
byte with[N];		/* j+1: a heartbeat to j; N+j+1: the ack of j */

byte prom[N*(N+1)];	/* prom[v,h]: what is left of the promise of v to h, on v's clock */
byte pterm[N*(N+1)];	/* and the term in which it was given */
byte rel[N+1];		/* the last term that the holder has released; 0 = none */
byte boot;		/* the boot residual of node 0 */
bool given;		/* node 0 has promised, or claimed: its maxPromise is DV, durably */
bool crashed;
byte ghost;		/* claim of work that outlived the crashed process */

/* -DSOMETIMES=n makes an error of what must be able to happen, to see that it does. */
#ifndef SOMETIMES
#define SOMETIMES 0
#endif
#define sometimes(n, what)	assert(SOMETIMES != n || !(what))

#define bits(i)		(1 << (i))
#define in(set, i)	(((set) >> (i)) & 1)
#define at(i, j)	((i)*N+(j))
#define to(v, h)	((v)*(N+1)+(h))
#define max(a, b)	((a) > (b) -> (a) : (b))
#define min(a, b)	((a) < (b) -> (a) : (b))
#define less(a, d)	((a) > (d) -> (a)-(d) : 0)

#if N == 3
#define ALL(OP)		OP(0) OP(1) OP(2)
#define PAIRS(OP)	OP(0, 1) OP(0, 2) OP(1, 0) OP(1, 2) OP(2, 0) OP(2, 1)
#define HOLDERS(OP)	OP(0, 1) OP(0, 2) OP(0, 3) OP(1, 0) OP(1, 2) OP(1, 3) OP(2, 0) OP(2, 1) OP(2, 3)
#define TICKS		TICK(1, 1, 1) TICK(1, 1, 2) TICK(1, 2, 1) TICK(1, 2, 2) TICK(2, 1, 1) TICK(2, 1, 2) TICK(2, 2, 1) TICK(2, 2, 2)
#define owes(v, h, i)	((h) == (i) -> 0 : prom[to(v, h)])
#define owed(v, i)	max(max(owes(v, 0, i), owes(v, 1, i)), max(owes(v, 2, i), owes(v, 3, i)))
#define running		(work[0] + work[1] + work[2] + (ghost != 0))
#define answers(i)	((nb[at(i, 0)] != NEVER) + (nb[at(i, 1)] != NEVER) + (nb[at(i, 2)] != NEVER))
#define clear(i)	((nb[at(i, 0)] == 0) + (nb[at(i, 1)] == 0) + (nb[at(i, 2)] == 0))
#else
#define ALL(OP)		OP(0) OP(1)
#define PAIRS(OP)	OP(0, 1) OP(1, 0)
#define HOLDERS(OP)	OP(0, 1) OP(0, 2) OP(1, 0) OP(1, 2)
#define TICKS		TICK(1, 1, 0) TICK(1, 2, 0) TICK(2, 1, 0) TICK(2, 2, 0)
#define owes(v, h, i)	((h) == (i) -> 0 : prom[to(v, h)])
#define owed(v, i)	max(max(owes(v, 0, i), owes(v, 1, i)), owes(v, 2, i))
#define running		(work[0] + work[1] + (ghost != 0))
#define answers(i)	((nb[at(i, 0)] != NEVER) + (nb[at(i, 1)] != NEVER))
#define clear(i)	((nb[at(i, 0)] == 0) + (nb[at(i, 1)] == 0))
#endif

/* What v reports to i: its promises to any other incarnation, the boot residual. */
#define residual(v, i)	((v) == 0 -> max(owed(v, i), boot) : owed(v, i))

#ifdef VOTE_WHILE_WORKING
#define free(i)		true
#else
#define free(i)		(!work[i])	/* R6 */
#endif

#define leads(i)	(up[i] && (work[i] || answers(i) >= 2))

inline deaf(i) {
	nb[at(i, 0)] = NEVER; nb[at(i, 1)] = NEVER;
	if :: N == 3 -> nb[at(i, N-1)] = NEVER :: else fi
}

inline leave(i) {
	up[i] = false; fresh[i] = 0; with[i] = 0; deaf(i);
	if :: !work[i] -> claim[i] = 0 :: else fi
}

/* Each term has one candidate: that it has one winner is election.pml's to show.
 * Nodes 1 and 2 are alike, so of these two node 1 stands first. */
#define STAND(i) :: d_step { \
	top < T && !work[i] && (i != 2 || (term[0] | term[1]) != 0) -> \
	leave(i); top++; up[i] = true; term[i] = top; nb[at(i, i)] = residual(i, i); \
	printf("node %d stands in term %d\n", i, top) }

#define VOTE(v, c) :: d_step { \
	up[c] && term[v] < term[c] && free(v) -> \
	leave(v); term[v] = term[c]; \
	if :: !work[c] -> nb[at(c, v)] = residual(v, c) :: else fi; \
	printf("node %d votes for %d in term %d, residual %d\n", v, c, term[v], residual(v, c)) }

/* A new message of a leader takes the place of one that is lost. */
#define SEND(i, j) :: d_step { \
	leads(i) && (claim[i] < DL || !work[i]) && !(fresh[i] == DL && with[i] == j+1) -> \
	fresh[i] = DL; with[i] = j+1; \
	printf("node %d sends node %d a heartbeat\n", i, j) }

#ifdef FORGET_EARLIER_PROMISE
#define ONLY(v)	prom[to(v, 0)] = 0; prom[to(v, 1)] = 0; prom[to(v, N-1)] = 0; prom[to(v, N)] = 0;
#else
#define ONLY(v)
#endif

/* The promise counts from the receipt; the ack reports the residual too. */
#define RECEIVE(i, v) :: d_step { \
	with[i] == v+1 && term[v] <= term[i] && free(v) -> \
	leave(v); term[v] = term[i]; \
	ONLY(v) \
	prom[to(v, i)] = DV; pterm[to(v, i)] = term[i]; \
	if :: v == 0 -> given = true :: else fi; \
	if :: !work[i] -> nb[at(i, v)] = min(nb[at(i, v)], residual(v, i)) :: else fi; \
	with[i] = N+v+1; \
	printf("node %d promises to node %d, residual %d\n", v, i, residual(v, i)) }

/* The claim counts from the send. Of three voters the node itself and one other
 * are a quorum, of two both: so the lease ends with the best claim. */
#ifdef LEASE_FROM_ACK
#define worth(i)	DL
#else
#define worth(i)	fresh[i]
#endif
#ifdef CLAIM_NOT_KEPT
#define KEEP(i)
#else
#define KEEP(i)		if :: i == 0 -> given = true :: else fi;
#endif
#define ACKED(i) :: d_step { \
	with[i] > N -> \
	claim[i] = max(claim[i], worth(i)); fresh[i] = 0; with[i] = 0; KEEP(i) \
	printf("node %d has the ack: its claim lasts %d\n", i, claim[i]) }

#ifdef IGNORE_RESIDUAL
#define waited(i)	true
#else
#define waited(i)	(clear(i) >= 2)
#endif

/* notBefore has passed and the lease has not: the tenure starts. */
#define START(i) :: d_step { \
	!work[i] && leads(i) && claim[i] != 0 && waited(i) -> \
	assert(running == 0); \
	sometimes(1, crashed && given && boot == 0 && i != 0); sometimes(2, rel[0] != 0 && i != 0); \
	work[i] = true; deaf(i); \
	printf("node %d: the tenure of term %d starts\n", i, term[i]) }

/* The work has returned, and the term is over. The Release stays on the way for ever. */
#define END(i) :: d_step { \
	work[i] -> work[i] = false; rel[i] = term[i]; leave(i); \
	printf("node %d: the work has returned; Release of term %d\n", i, term[i]) }

#ifdef RELEASE_BEFORE_JOIN
#define EARLIER(i) :: d_step { \
	work[i] && rel[i] != term[i] -> rel[i] = term[i]; \
	printf("node %d: Release of term %d, and the work still runs\n", i, term[i]) }
#else
#define EARLIER(i)
#endif

/* R9: promises to that incarnation in that term or an earlier one, no others;
 * never the boot residual. */
#ifdef RELEASE_BY_NODE
#define covers(v, h)	(rel[h] != 0 || (h == 0 && rel[OLD] != 0))
#else
#define covers(v, h)	(rel[h] >= pterm[to(v, h)])
#endif
#ifdef RELEASE_WAIVES_BOOT
#define WAIVE(v)	if :: v == 0 -> boot = 0 :: else fi;
#define covered(v)	(v == 0 && boot != 0)
#else
#define WAIVE(v)
#define covered(v)	false
#endif
#define RELEASE(v, h) :: d_step { \
	((prom[to(v, h)] != 0 && covers(v, h)) || (covered(v) && rel[h] != 0)) -> \
	prom[to(v, h)] = 0; pterm[to(v, h)] = 0; WAIVE(v) \
	printf("node %d hears the Release of holder %d\n", v, h) }

/* The witness: that life of node 0 and all its work are dead. */
#ifdef WITNESS_EARLY
#define dead		crashed
#else
#define dead		(crashed && ghost == 0)
#endif
#ifdef WITNESS_BY_NODE
#define AND_NEW(v)	prom[to(v, 0)] = 0;
#define newer(v)	prom[to(v, 0)] != 0
#else
#define AND_NEW(v)
#define newer(v)	false
#endif
#define WITNESS(v) :: d_step { \
	dead && (prom[to(v, OLD)] != 0 || newer(v)) -> prom[to(v, OLD)] = 0; pterm[to(v, OLD)] = 0; AND_NEW(v) \
	printf("node %d hears the witness\n", v) }

/* R1. The memory is lost, and the promises with it: the boot residual stands
 * for them. The work may outlive the process, as long as its claim lasts. */
#ifdef NO_BOOT_RESIDUAL
#define BOOT	0
#else
#define BOOT	(given -> DV : 0)
#endif
#define OLDER(v) prom[to(v, OLD)] = prom[to(v, 0)]; pterm[to(v, OLD)] = pterm[to(v, 0)]; prom[to(v, 0)] = 0; pterm[to(v, 0)] = 0;
#define LOSE(h)	prom[h] = 0; pterm[h] = 0;
#define CRASH :: d_step { \
	!crashed && term[0] != 0 -> crashed = true; \
	if :: work[0] -> ghost = claim[0]; work[0] = false :: else fi; \
	leave(0); ALL(OLDER) rel[OLD] = rel[0]; rel[0] = 0; \
	LOSE(0) LOSE(1) LOSE(2) LOSE(N) boot = BOOT; \
	printf("node 0 crashes and restarts with boot residual %d\n", boot) }

#define DIES :: d_step { ghost != 0 -> ghost = 0; printf("the work of the crashed process is over\n") }

#ifdef LEASE_FROM_ACK
#define LOST(i)	with[i]
#else
#define LOST(i)	0	/* too late to claim anything */
#endif

/* One tick. The clock of node i moves on by a, b or c. */
inline wait(i, j, d) { if :: nb[at(i, j)] != NEVER -> nb[at(i, j)] = less(nb[at(i, j)], d) :: else fi }
inline fade(k, d) {
	prom[k] = less(prom[k], d);
	if :: prom[k] == 0 -> pterm[k] = 0 :: else fi
}
inline clock(i, d) {
	wait(i, 0, d); wait(i, 1, d);
	fade(to(i, 0), d); fade(to(i, 1), d); fade(to(i, 2), d);
	if :: N == 3 -> wait(i, N-1, d); fade(to(i, N), d) :: else fi;
	claim[i] = less(claim[i], d); fresh[i] = less(fresh[i], d);
	if :: fresh[i] == 0 -> with[i] = LOST(i) :: else fi;
	if :: i == 0 -> boot = less(boot, d); ghost = less(ghost, d) :: else fi;
	if :: work[i] && claim[i] == 0 -> work[i] = false; leave(i) :: else fi
}
#define TICK(a, b, c) :: d_step { \
	clock(0, a); clock(1, b); \
	if :: N == 3 -> clock(N-1, c) :: else fi; \
	printf("-- the clocks move by %d %d %d\n", a, b, c) }

active proctype world() {
	d_step { deaf(0); deaf(1); if :: N == 3 -> deaf(N-1) :: else fi }
	do
	ALL(STAND)
	PAIRS(VOTE)
	PAIRS(SEND)
	PAIRS(RECEIVE)
	ALL(ACKED)
	ALL(START)
	ALL(END)
	ALL(EARLIER)
	HOLDERS(RELEASE)
	ALL(WITNESS)
	CRASH
	DIES
	TICKS
	od
}
