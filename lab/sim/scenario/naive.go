package scenario

import (
	"slices"
	"time"

	"github.com/electd/elect/lab/sim"
)

// The naive locks of package lab/sim/naive, by what breaks them.
var (
	expiringLocks = []string{"naive-redis", "naive-update"}
	redlocks      = []string{"naive-redlock"}
	rows          = []string{"naive-update"}
	advisories    = []string{"naive-advisory"}
)

// naives are the scenarios that break locks in common use, and none of our protocols.
func naives() []*Scenario {
	late := []part{
		{on: slices.Concat(expiringLocks, redlocks), expected: "another has the lock when the time to live is over; the late write is accepted, after one of the other: nothing tells them apart", judge: takesLateWrite},
		{on: slices.Concat(quorumOnly, storeOnes), expected: "another leads when the lease is over; the late write has the smaller token, and is refused", judge: refusesLateWrite},
	}
	return []*Scenario{
		{
			Name:   "lock-pause",
			Says:   "The holder of a lock stops between its look at the lock and its write, until another has the lock.",
			Source: "Kleppmann, How to do distributed locking (2016)",
			Steps: []string{
				"n1 has the lock, looks at its clock, and finds that it still has it.",
				"n1 stops before it writes: for a garbage collection, or while its virtual machine is moved.",
				"The time to live is over. Another gets the lock, and writes.",
				"n1 goes on where it stopped, and its write leaves.",
			},
			build: func(st *stage) {
				if st.store() {
					st.cast(2)
				}
				st.appoint()
				st.op(sim.Op{At: st.fault, Kind: sim.OpPauseWork, Node: st.ids[0], For: st.span(2.5)})
			},
			parts: late,
		},
		{
			Name: "lock-late-answer",
			Says: "The answer by which n1 gets the lock is late, and n1 counts from there.",
			Steps: []string{
				"n1 asks for the lock, and its request takes 0.6 of the time to live.",
				"The store grants it, and begins to count. The answer takes as long, and so does all that n1 asks from now on.",
				"n1 gets the answer, and takes its arrival for the beginning.",
				"The store has counted to the end, and n2 gets the lock. n1 believes that it has it for 0.6 of the time to live more.",
			},
			build: lateAnswer,
			parts: []part{
				{on: expiringLocks, expected: "two have the lock at once, and write", judge: twoHave},
				{on: storeOnes, expected: "it counts from before it asked, so that too little is left to lead; no two leases overlap", judge: countsFromBefore},
			},
		},
		{
			Name:   "redlock-clock",
			Says:   "n1 has the lock at three of five servers, and the clock of one of them is set.",
			Source: "Kleppmann, How to do distributed locking (2016)",
			Steps: []string{
				"n1 does not reach the servers n4 and n5, and has the lock at n1, n2 and n3: a majority.",
				"Somebody sets the clock of n3 forward, by the time to live. The key there is over.",
				"One of the others asks, and gets the lock at n3, n4 and n5: a majority.",
				"n1 believes that it has it until the time to live of its last extension is over, and writes.",
			},
			build: atThreeOfFive(func(st *stage) sim.Op { return sim.Op{Kind: sim.OpStep, By: st.span(1)} }),
			parts: []part{
				{on: redlocks, expected: "two have the lock at once, and write", judge: twoHave},
				{on: quorumOnly, expected: "leads on without a gap: a voter counts a promise by a clock of which it notices that it was set", judge: (*verdict).undisturbed},
				{on: []string{"lease"}, expected: "leads on without a gap: the five servers are one store, and nothing in it ends by a clock of theirs", judge: (*verdict).undisturbed},
			},
		},
		{
			Name:   "redlock-restart",
			Says:   "n1 has the lock at three of five servers, and one of them restarts without what it had in memory.",
			Source: "the documentation of Redis, Distributed Locks with Redis, which asks for delayed restarts",
			Steps: []string{
				"n1 does not reach the servers n4 and n5, and has the lock at n1, n2 and n3: a majority.",
				"n3 crashes, and starts again. Its disk does not have the key.",
				"One of the others asks, and gets the lock at n3, n4 and n5: a majority.",
				"n1 believes that it has it until the time to live of its last extension is over, and writes.",
			},
			build: atThreeOfFive(func(*stage) sim.Op { return sim.Op{Kind: sim.OpKill, For: 10 * time.Millisecond} }),
			parts: []part{
				{on: redlocks, expected: "two have the lock at once, and write", judge: twoHave},
				{on: quorumOnly, expected: "leads on without a gap: a voter that restarts supports no other before its promise is over", judge: (*verdict).undisturbed},
				{on: storeOnes, expected: "leads on without a gap: the five servers are one store, of which a majority has the record", judge: (*verdict).undisturbed},
			},
		},
		{
			Name: "row-skew",
			Says: "The clock of a client is an hour fast, and the row is compared with the client's time.",
			Steps: []string{
				"n1 has written into the row that it leads until ten seconds from now, by its own clock.",
				"The clock of n2 is set an hour forward.",
				"n2 updates the row WHERE expires_at is before its time. One row is updated: n2 has the lock.",
				"n1 believes that it has the lock until its next renewal updates no row, and writes.",
			},
			build: func(st *stage) {
				st.cast(2)
				st.appoint()
				if slices.Contains(rows, st.name) {
					st.configure(struct {
						ClientClock bool `json:"client_clock"`
					}{true})
				}
				st.op(sim.Op{At: st.fault, Kind: sim.OpStep, Node: st.ids[1], By: time.Hour})
			},
			parts: []part{
				{on: rows, expected: "two have the lock at once, and write", judge: twoHave},
				{on: storeOnes, expected: "leads on without a gap: nobody compares a time that another has written", judge: (*verdict).undisturbed},
			},
		},
		{
			Name: "advisory-pool",
			Says: "The session that has an advisory lock ends, and the pool hands out another connection.",
			Steps: []string{
				"n1 has asked for the lock by a connection of its pool: the lock belongs to that session.",
				"The session ends: the pool finds the connection too old, the server has an idle timeout, or a firewall forgets it. The server releases the lock.",
				"n2 asks, and has the lock.",
				"n1 asks the database from time to time whether all is well. The pool opens a connection for that, and the answer is yes.",
			},
			build: func(st *stage) {
				st.cast(2)
				st.appoint()
				st.op(sim.Op{At: st.fault, Kind: sim.OpExpireEarly, Node: st.ids[0]})
			},
			parts: []part{
				{on: advisories, expected: "two have the lock at once for as long as they live, and write", judge: twoHave},
				{on: queues, expected: "the next one holds off until the leader's claim is over; no two leases overlap", judge: waitsForHold},
			},
		},
	}
}

// lateAnswer has n1 stand first, on a slow path, and the others when its time to live has begun.
func lateAnswer(st *stage) {
	st.cast(2)
	st.schedule.Store.Timeout = st.span(2)
	st.op(sim.Op{Kind: sim.OpWithdraw, Node: st.ids[0], For: time.Duration(st.fault) + st.beat/100})
	for _, id := range st.ids[1:] {
		st.op(sim.Op{Kind: sim.OpWithdraw, Node: id, For: time.Duration(st.fault) + st.span(1.3)})
	}
	st.during(sim.Op{Kind: sim.OpStoreSlow, Node: st.ids[0], By: st.span(0.6)})
}

// atThreeOfFive has n1 lead without n4 and n5, and then something befall n3. A store has a server beside each.
func atThreeOfFive(befalls func(*stage) sim.Op) func(*stage) {
	return func(st *stage) {
		st.schedule.Store.Replicated = st.store()
		st.appoint()
		for _, id := range st.ids[3:] {
			st.op(apart(st.ids[0], id)...)
		}
		op := befalls(st)
		op.At, op.Node = st.fault, st.ids[2]
		st.op(op)
	}
}

// takesLateWrite requires the write of the paused holder to be accepted after one of its successor.
func takesLateWrite(c *verdict) {
	st, who := lateWrite(c)
	c.want(st.StaleAccepted > 0 && st.StaleRefused == 0, "%d stale writes accepted, %d refused; want one accepted", st.StaleAccepted, st.StaleRefused)
	c.want(c.first.result.Failure(sim.NoStale) != nil, "no-stale-write was not found failing")
	c.sound(c.first)
	c.say("%s; %s", who, refused(st))
}

// refusesLateWrite requires it to be refused.
func refusesLateWrite(c *verdict) {
	st, who := lateWrite(c)
	c.want(st.StaleAccepted == 0 && st.StaleRefused > 0, "%d stale writes accepted, %d refused; want one refused", st.StaleAccepted, st.StaleRefused)
	c.safe(c.first)
	c.say("%s; %s", who, refused(st))
}

func lateWrite(c *verdict) (st *sim.Stats, who string) {
	r := c.first
	st = &r.result.Stats
	old, next := r.leader(c.fault), r.next(c.fault)
	if old == nil || next == nil {
		c.want(false, "the leader that stops: %v, and the next one: %v; want both", old, next)
		return st, ""
	}
	c.want(old.Who == c.ids[0] && next.Who != old.Who && next.From < c.fault+c.times(2.5), "%s stops, and %s leads at %s; want another one than %s, before it goes on", old.Who, next.Who, next.From, c.ids[0])
	return st, string(old.Who) + " stops; " + string(next.Who) + " leads after " + shown(c.since(next.From))
}

// twoHave requires n1 and another to believe at once that they have the lock, and both to write.
func twoHave(c *verdict) {
	r := c.first
	both, st := r.both(between(0, r.end)), &r.result.Stats
	c.want(r.result.Failure(sim.Exclusive) != nil && both > 0, "two have the lock for %s; want longer", shown(both))
	c.want(st.StaleAccepted > 0, "no write of n1 was accepted after one of the other; want one at least")
	c.sound(r)
	c.say("two have the lock at once for %s; %s", shown(both), refused(st))
}

// countsFromBefore requires n1, whose answers are late, to lead at no time.
func countsFromBefore(c *verdict) {
	r := c.first
	next := r.next(c.fault, c.ids[1:]...)
	if next == nil {
		c.want(false, "the other does not lead")
		return
	}
	for i := range r.tenures {
		g := &r.tenures[i]
		_, leads := r.counts(g)
		c.want(g.Who != c.ids[0] || !leads || g.From > c.heal, "%s leads at %s", g.Who, g.From)
	}
	c.safe(r)
	c.say("%s, whose answers are late, does not lead; %s does after %s", c.ids[0], next.Who, shown(c.since(next.From)))
}

// waitsForHold requires another to lead, after the lease of n1 is over.
func waitsForHold(c *verdict) {
	r := c.first
	old, next := r.leader(c.fault), r.next(c.fault)
	if old == nil || next == nil {
		c.want(false, "the leader whose session ends: %v, and the next one: %v; want both", old, next)
		return
	}
	span, ok := r.counts(next)
	was, _ := r.counts(old)
	c.want(old.Who == c.ids[0] && ok && next.Who != old.Who, "%s leads, and then %s, which proves a lease: %t; want n1 and another", old.Who, next.Who, ok)
	c.safe(r)
	c.say("the lease of %s is over %s after its session ends; %s leads after %s", old.Who, shown(c.since(was.Until)), next.Who, shown(c.since(span.From)))
}
