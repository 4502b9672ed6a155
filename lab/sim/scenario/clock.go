package scenario

import (
	"slices"
	"time"

	"github.com/electd/elect/lab/sim"
)

// clocks are the scenarios in which a leader is stopped, or its clock is wrong.
func clocks() []*Scenario {
	proving := slices.Concat(quorumOnly, storeOnes)
	return []*Scenario{
		{
			Name:   "gc-pause",
			Says:   "A leader with token 5 and a lease of 30 s stops for 45 s between its check and its write.",
			Source: "Kleppmann, How to do distributed locking (2016)",
			build:  gcPause,
			parts: []part{
				{on: []string{"quorum", "lease"}, expected: "another leads when the 30 s are over, with token 6; the write with token 5 is refused", judge: fiveAndSix},
				{on: queues, expected: "another leads when the 30 s are over; tokens count entries in the store, so they are others; the write with the smaller one is refused", judge: pastFive},
			},
		},
		{
			Name:  "suspend",
			Says:  "The leader's machine sleeps for more than twice its lease: its boot clock runs, its monotonic one stands still.",
			build: func(st *stage) { st.sleep(sim.Op{Kind: sim.OpSuspend}) },
			parts: []part{
				{on: proving, expected: "another leads, and the lease of the sleeper is over when it wakes", judge: judgeSleep},
			},
		},
		{
			Name: "vm-stop",
			Says: "The leader's virtual machine stops for more than twice its lease, and its clocks all but stop with it.",
			build: func(st *stage) {
				st.schedule.Beyond = true
				st.sleep(sim.Op{Kind: sim.OpPauseWork}, sim.Op{Kind: sim.OpRate, Value: -900_000})
				st.op(sim.Op{At: st.fault + st.times(2.5), Kind: sim.OpRate, Node: st.ids[0]})
			},
			parts: []part{
				{on: proving, expected: "nothing tells the stopped leader that time has passed: two leases overlap, and the fence refuses its writes", judge: judgeOverlap},
			},
		},
		{
			Name: "drift-beyond-bound",
			Says: "The clock of a leader that is cut off goes at a fifth of its speed, which is more than any bound allows.",
			build: func(st *stage) {
				st.schedule.Beyond = true
				st.cast(3)
				st.appoint()
				if st.name == "queue" { // a hold on top of the TTL would hide such a clock
					st.configure(mended{true})
				}
				st.op(sim.Op{At: st.fault, Kind: sim.OpRate, Node: st.ids[0], Value: -800_000})
				st.alone(st.ids[0])
			},
			parts: []part{
				{on: []string{"quorum", "lease", "queue"}, expected: "two leases overlap, and the simulator sees it; the fence refuses the late writes", judge: judgeOverlap},
			},
		},
		{
			Name:   "clocks-apart",
			Says:   "The clock of a leader begins to run at half its speed, which is less than any bound allows. Nothing else fails.",
			Source: "rule R17 of quorum",
			build: func(st *stage) {
				st.schedule.Beyond = true
				st.cast(3)
				st.appoint()
				st.op(sim.Op{At: st.fault, Kind: sim.OpRate, Node: st.ids[0], Value: -500_000})
			},
			parts: []part{
				{on: quorumOnly, expected: "the answers to its heartbeats show it: it gives up within a promise, and does not lead again; no two leases overlap", judge: judgeApart},
			},
		},
	}
}

// sleep has three participants, and a fault at the leader for two and a half timeouts in the middle
// of its work.
func (st *stage) sleep(ops ...sim.Op) {
	st.cast(3)
	st.appoint()
	for _, op := range ops {
		op.At, op.Node = st.fault, st.ids[0]
		if op.Kind != sim.OpRate {
			op.For = st.span(2.5)
		}
		st.op(op)
	}
}

// mended says of etcd's servers that no hold is needed.
type mended struct {
	ServersFixed bool `json:"servers_mended"`
}

// gcPause raises tokens to 5 first: each of the first four leaders resigns.
func gcPause(st *stage) {
	const lease, pause = 30 * time.Second, 45 * time.Second
	st.beat, st.detect = 3*time.Second, lease
	st.blank()
	st.cast(3)
	st.appoint()
	switch st.name {
	case "lease":
		st.configure(struct {
			Duration time.Duration `json:"duration"`
			Max      time.Duration `json:"max_duration"`
			Poll     time.Duration `json:"poll"`
			Versions bool          `json:"global_versions"`
		}{lease, lease, 2 * time.Second, false})
	case "quorum":
		st.configure(struct {
			Heartbeat time.Duration `json:"heartbeat"`
			Promise   time.Duration `json:"promise"`
		}{st.beat, lease})
	case "queue-zookeeper":
		// After a session has expired, the next leader still waits for the hold.
		st.configure(struct {
			TTL  time.Duration `json:"ttl"`
			Hold time.Duration `json:"hold"`
			Max  time.Duration `json:"max_hold"`
		}{lease - lease/3, lease / 3, lease / 3})
	default:
		st.configure(struct {
			TTL time.Duration `json:"ttl"`
			mended
		}{lease, mended{true}})
	}
	s := st.schedule
	s.Work = sim.Work{Every: time.Second, Think: 10 * time.Millisecond, Flight: time.Millisecond, Drain: time.Second}
	st.fault = 0
	for range 4 {
		st.fault += sim.Time(4 * lease)
		st.op(sim.Op{At: st.fault, Kind: sim.OpResign, Node: sim.Leader})
	}
	st.fault += sim.Time(4 * lease)
	s.Faults = time.Duration(st.fault) + 8*lease
	st.heal = st.fault + sim.Time(pause)
	st.op(sim.Op{At: st.fault, Kind: sim.OpPauseWork, Node: sim.Leader, For: pause})
}

// fiveAndSix requires these two tokens.
func fiveAndSix(c *verdict) {
	old, next := judgePause(c)
	c.want(old == 5 && next == 6, "tokens %d and %d; want 5 and 6", old, next)
}

// pastFive requires greater ones.
func pastFive(c *verdict) {
	old, next := judgePause(c)
	c.want(old > 5 && next > old, "tokens %d and %d; want two above 5, the second one greater", old, next)
}

// judgePause requires the next one to lead once the lease is over, and the old one's write to be
// refused.
func judgePause(c *verdict) (was, is uint64) {
	r := c.first
	old := r.leader(c.fault)
	if old == nil {
		c.want(false, "no node leads when the pause begins")
		return 0, 0
	}
	next := r.next(c.fault)
	if next == nil {
		c.want(false, "no node is elected after the pause began")
		return 0, 0
	}
	span, ok := r.counts(next)
	after := c.since(span.From)
	patience, _ := c.protocol.Patience(c.schedule.Config)
	c.want(ok && next.Who != old.Who, "the next one is %s, which proves a lease: %t", next.Who, ok)
	c.want(after > c.detect-c.beat && after <= patience, "it leads %s after the pause began; want %s to %s", shown(after), shown(c.detect-c.beat), shown(patience))
	st := &r.result.Stats
	c.want(st.StaleRefused > 0, "no stale write was refused; want at least one, that of the paused leader")
	c.want(st.StaleAccepted == 0, "%d stale writes were accepted; want none", st.StaleAccepted)
	c.safe(r)
	c.say("%s stops with token %d; %s leads %s later with token %d; %s", old.Who, old.Token, next.Who, shown(after), next.Token, refused(st))
	return old.Token, next.Token
}

// judgeSleep requires leases that do not overlap, and one that is over when the sleeper wakes.
func judgeSleep(c *verdict) {
	r := c.first
	old, next := r.leader(c.fault), r.next(c.fault)
	if old == nil || next == nil {
		c.want(false, "the leader that sleeps: %v, and the next one: %v; want two", old, next)
		return
	}
	span, _ := r.counts(next)
	was, _ := r.counts(old)
	wakes := c.fault + c.times(2.5)
	c.want(next.Who != old.Who && span.From < wakes, "%s leads at %s; want another one than %s before that wakes at %s", next.Who, span.From, old.Who, wakes)
	c.want(was.Until <= span.From, "the lease of %s is proven until %s; want it over before that of %s is, at %s", old.Who, was.Until, next.Who, span.From)
	st := &r.result.Stats
	c.want(st.StaleAccepted == 0, "%d stale writes were accepted; want none", st.StaleAccepted)
	c.safe(r)
	c.say("the lease of %s ends %s after it falls asleep, when its two clocks differ; %s leads after %s; %s wakes after %s",
		old.Who, shown(c.since(was.Until)), next.Who, shown(c.since(span.From)), old.Who, shown(c.since(wakes)))
}

// judgeApart requires the leader whose clock is slow to hand over, and not to lead again.
func judgeApart(c *verdict) {
	r := c.first
	old, next := r.leader(c.fault), r.next(c.fault)
	if old == nil || next == nil {
		c.want(false, "the leader whose clock is slow: %v, and the next one: %v; want two", old, next)
		return
	}
	span, _ := r.counts(next)
	after := c.since(span.From)
	c.want(next.Who != old.Who && after <= c.detect, "%s leads %s after the clock of %s slowed down; want another one, within %s", next.Who, shown(after), old.Who, shown(c.detect))
	c.want(r.leader(r.end-1) != nil && r.leader(r.end-1).Who != old.Who, "%s leads in the end; want another one", old.Who)
	both := r.both(between(0, r.end))
	c.want(both == 0, "two lead for %s; want none", shown(both))
	c.safe(r)
	c.say("%s leads %s after the clock of %s slowed down; no two leases are proven at once", next.Who, shown(after), old.Who)
}

// judgeOverlap requires the oracle to see two leases at one time, and the fence to hold
// nevertheless.
func judgeOverlap(c *verdict) {
	r := c.first
	v := r.result.Failure(sim.Exclusive)
	c.want(v != nil, "no overlap was seen; want one: an assumption is broken")
	both := r.both(between(0, r.end))
	c.want(both > 0, "two lead for %s; want longer", shown(both))
	st := &r.result.Stats
	c.want(st.StaleRefused > 0, "no stale write was refused; want at least one")
	c.want(st.StaleAccepted == 0, "%d stale writes were accepted; want none", st.StaleAccepted)
	c.sound(r)
	c.say("two leases are proven at once for %s; %s", shown(both), refused(st))
}

// refused describes what the fence did.
func refused(st *sim.Stats) string {
	switch {
	case st.StaleAccepted > 0:
		return plural(st.StaleAccepted, "stale write") + " accepted"
	}
	return plural(st.StaleRefused, "stale write") + " refused"
}
