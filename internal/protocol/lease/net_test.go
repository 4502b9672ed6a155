package lease

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// The net is a quick random test of the protocol: a few machines, a register, and faults. It is
// small on purpose; package sim is the thorough one.

var netRuns = flag.Int("net.runs", 150, "random runs of the net")

// settings is the set of faults of one run, drawn from the seed.
type settings struct {
	deletes, wipes, failovers bool // the record is changed by hand, the store forgets
	silent                    bool // it does not report that, and gives versions again: two may lead
	global                    bool // GlobalVersions
	twins                     bool // two processes have one name
	jumps                     bool // clocks
	stale                     bool // reads that lag
	blind                     bool // watches report nothing
	calm                      bool // nothing fails, except that libraries repeat requests
	rho                       int64
	length                    time.Duration
}

type net struct {
	classictest.Agenda
	rng     *rand.Rand
	w       settings
	seq     uint64
	nodes   []*netNode
	version uint64
	past    []content // what the record was, newest last
	store   string
	faults  bool
	err     error
	log     []string
	logs    bool

	fixed   time.Duration // if it is set: each way to the store
	returns time.Duration // in a story: how long work takes to return
	bad     map[*netNode]luck
	// check is called around each step, if it is set.
	check func(n *net, d *netNode, in *protocol.Input, before stage)

	wins int
	last uint64          // the greatest token so far
	used map[uint64]bool // every token so far
}

// luck is what a story specifies for the next request of a node.
type luck struct {
	lost, unanswered, again, refused bool
	late                             time.Duration
}

type content struct {
	version uint64
	record  protocol.Record
}

type netNode struct {
	index   int
	cfg     Config
	m       *Machine
	view    protocol.View
	life    int
	up      bool
	frozen  bool
	inbox   []protocol.Input
	rate    int64 // ppm
	zero    int64 // boot clock at true time 0
	slept   int64
	fire    uint64 // the scheduled Fire that counts
	fx      protocol.Effects
	watches []uint64
	mute    int64 // in a story: until when no answer reaches it

	term    uint64        // between Elected and Stop
	running bool          // between Elected and Joined
	last    protocol.View // when it was active last
	drain   bool
	over    map[uint64]bool // tokens seen to have lapsed in this incarnation

	shown uint64 // the greatest count of another participant shown to this incarnation
	acked uint64 // the last acknowledged attempt of the tenure
}

// now is true time, in nanoseconds.
func (n *net) now() int64 { return int64(n.Now) }

func (n *net) chance(p float64) bool { return n.rng.Float64() < p }

func (n *net) upTo(d time.Duration) time.Duration { return time.Duration(n.rng.Int64N(int64(d) + 1)) }

func (n *net) fail(format string, args ...any) {
	if n.err == nil {
		n.err = fmt.Errorf("at %v: %s", n.Now, fmt.Sprintf(format, args...))
	}
}

func (n *net) say(format string, args ...any) {
	if n.logs {
		n.log = append(n.log, fmt.Sprintf("%12v  %s", n.Now, fmt.Sprintf(format, args...)))
	}
}

func (n *net) reading(d *netNode) protocol.Reading {
	boot := d.zero + n.now()/1_000_000*(1_000_000+d.rate) + n.now()%1_000_000*(1_000_000+d.rate)/1_000_000
	return protocol.Reading{Boot: protocol.Instant(boot), Mono: protocol.Instant(boot - d.slept)}
}

// until is the true time from now until a node's boot clock shows i.
func (n *net) until(d *netNode, i protocol.Instant) time.Duration {
	left := int64(i - n.reading(d).Boot)
	if left <= 0 {
		return 0
	}
	return time.Duration(left/(1_000_000+d.rate)*1_000_000 + left%(1_000_000+d.rate)*1_000_000/(1_000_000+d.rate) + 1)
}

// give hands an input to a node, or keeps it while the node is paused.
func (n *net) give(d *netNode, life int, in protocol.Input) {
	switch {
	case !d.up || life != d.life:
	case d.frozen:
		d.inbox = append(d.inbox, in)
	default:
		n.step(d, in)
	}
}

func (n *net) step(d *netNode, in protocol.Input) {
	in.Now, in.Rand = n.reading(d), n.rng.Uint64()
	n.lapsed(d, in.Now)
	d.fx.Reset()
	before := d.m.stage
	back := n.shows(d, &in)
	d.m.Step(&in, &d.fx)
	if n.check != nil {
		n.check(n, d, &in, before)
	}
	d.view = d.m.View()
	if n.logs {
		n.say("%s/%d %v %v -> %v", d.cfg.Self, d.index, in.Kind, in.Answer, d.m.stage)
	}
	for _, o := range d.fx.Orders {
		n.ordered(d, o)
	}
	n.judge(d, in.Now)
	if back && d.view.Active {
		n.fail("%s leads with %d, and was shown an older renewal of it than was acknowledged", d.cfg.Self, d.term)
	}
	for _, a := range d.fx.Asks {
		n.asked(d, a)
	}
	n.arm(d)
}

// shows notes what an input shows, and reports whether the store has gone back.
func (n *net) shows(d *netNode, in *protocol.Input) (back bool) {
	a, f := &in.Answer, &d.m.flight
	r := &a.Record
	switch {
	case in.Kind != protocol.Replied || a.Version == 0:
		return false
	case a.Number == f.number && f.kind != look:
		r = &f.record
	}
	switch {
	case d.m.stage == watching || !d.m.mine(r):
		d.shown = max(d.shown, r.Count)
	case a.Number != f.number || a.Status != protocol.StatusDone:
	case f.kind == look:
		return n.w.silent && d.m.own.landed && r.Attempt < d.acked
	default:
		d.acked = r.Attempt
	}
	return false
}

func (n *net) arm(d *netNode) {
	at := d.m.NextFire()
	if d.view.Proven(n.reading(d)) && at > d.view.LeaseEnd {
		n.fail("%s holds until %v and wants to be woken at %v", d.cfg.Self, d.view.LeaseEnd, at)
	}
	if at == protocol.Never {
		d.fire = 0
		return
	}
	n.seq++
	id, life := n.seq, d.life
	d.fire = id
	wait := n.until(d, at)
	if n.faults && n.chance(0.02) {
		wait += n.upTo(d.cfg.Duration / 8)
	}
	n.In(wait, func() {
		if d.fire == id && !d.frozen {
			n.give(d, life, protocol.Input{Kind: protocol.Fire})
		}
	})
}

func (n *net) ordered(d *netNode, o protocol.Order) {
	n.say("%s/%d ORDER %v %d %s", d.cfg.Self, d.index, o.Kind, o.Token, o.Reason)
	switch o.Kind {
	case protocol.Elected:
		if d.running {
			n.fail("%s is elected (%d) before the work of its last term has returned", d.cfg.Self, o.Token)
		}
		d.term, d.running, d.drain = o.Token, true, false
		n.wins++
		if o.Token <= d.shown {
			n.fail("%s leads with the token %d, and was shown %d", d.cfg.Self, o.Token, d.shown)
		}
		switch forgets := n.w.failovers || n.w.silent || n.w.deletes && !n.w.global; {
		case forgets: // then the operator has to raise the era
		case n.used[o.Token]:
			n.fail("%s leads with the token %d, which was used before", d.cfg.Self, o.Token)
		case o.Token <= n.last:
			n.fail("%s leads with the token %d after %d", d.cfg.Self, o.Token, n.last)
		}
		n.used[o.Token] = true
		n.last = max(n.last, o.Token)
	case protocol.Lead:
		if d.term != o.Token {
			n.fail("%s is told to lead with %d while its term is %d", d.cfg.Self, o.Token, d.term)
		}
	case protocol.Stop:
		if d.term != o.Token || o.Token == 0 {
			n.fail("%s is told to stop %d while its term is %d", d.cfg.Self, o.Token, d.term)
		}
		d.term = 0
		if o.Reason != Resigned && o.Reason != Withdrawn && o.Reason != Unhealthy && n.w.calm && n.fixed == 0 {
			n.fail("%s loses its term %d in a calm run: %s", d.cfg.Self, o.Token, o.Reason)
		}
		if o.Reason == Resigned || o.Reason == Withdrawn || o.Reason == Unhealthy {
			d.drain = true
		}
		life := d.life
		join := func() {
			if d.life == life {
				d.running, d.drain = false, false
			}
			n.give(d, life, protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Joined, Token: o.Token}})
		}
		switch r := n.rng.IntN(10); {
		case n.fixed != 0:
			n.In(n.returns, join)
		case r < 5:
			n.In(0, join)
		case r < 9:
			n.In(n.upTo(d.cfg.Duration/2), join)
		default:
			n.In(n.upTo(3*d.cfg.Duration), join)
		}
	}
}

// lapsed notes which tokens are no longer proven.
func (n *net) lapsed(d *netNode, now protocol.Reading) {
	if d.view.Active && !d.view.Proven(now) {
		d.over[d.view.Token] = true
	}
}

// judge checks all machines at this instant.
func (n *net) judge(stepped *netNode, now protocol.Reading) {
	v := &stepped.view
	if v.Active {
		stepped.last = *v
	}
	if !v.Proven(now) {
		return
	}
	if stepped.over[v.Token] {
		n.fail("%s leads with %d again, which had lapsed", stepped.cfg.Self, v.Token)
	}
	for _, d := range n.nodes {
		if d == stepped || !d.up {
			continue
		}
		r := n.reading(d)
		if d.view.Proven(r) && !n.w.silent {
			n.fail("%s/%d leads with %d and %s/%d with %d", stepped.cfg.Self, stepped.index, v.Token, d.cfg.Self, d.index, d.view.Token)
		}
		if d.running && d.drain && !n.w.silent && (n.w.calm && n.fixed == 0 || d.last.Proven(r)) {
			n.fail("%s/%d leads with %d while the work of %s/%d returns, whose lease had not lapsed", stepped.cfg.Self, stepped.index, v.Token, d.cfg.Self, d.index)
		}
	}
}

// The register.

func (n *net) current() content {
	if len(n.past) == 0 {
		return content{}
	}
	return n.past[len(n.past)-1]
}

func (n *net) set(r protocol.Record) uint64 {
	n.version++
	n.change(content{n.version, r})
	return n.version
}

func (n *net) change(c content) {
	n.past = append(n.past, c)
	if len(n.past) > 64 {
		n.past = append(n.past[:0], n.past[32:]...)
	}
	n.say("STORE %d %+v", c.version, c.record)
	for _, d := range n.nodes {
		for _, w := range d.watches {
			times := 1
			if n.fixed == 0 {
				times += n.rng.IntN(2) // doubled
			}
			for range times {
				if n.faults && n.chance(0.1) {
					continue
				}
				life := d.life
				n.In(n.delay(), func() {
					n.give(d, life, protocol.Input{Kind: protocol.Replied, Answer: protocol.Answer{
						Number: w, Status: protocol.StatusEvent, Version: c.version, Record: c.record, Store: n.store,
					}})
				})
			}
		}
	}
}

func (n *net) delay() time.Duration {
	if n.fixed != 0 {
		return n.fixed
	}
	d := 200*time.Microsecond + n.upTo(2*time.Millisecond)
	if n.faults && n.chance(0.03) {
		d += n.upTo(3 * time.Second)
	}
	return d
}

func (n *net) apply(a protocol.Ask) protocol.Answer {
	cur := n.current()
	ans := protocol.Answer{Number: a.Number, Status: protocol.StatusDone, Store: n.store}
	switch a.Op {
	case protocol.Read:
		if n.w.stale && n.faults && n.chance(0.05) && len(n.past) > 1 {
			cur = n.past[len(n.past)-1-n.rng.IntN(min(4, len(n.past)))]
		}
		ans.Version, ans.Record = cur.version, cur.record
	case protocol.Write:
		switch {
		case cur.version != a.Version:
			ans.Status = protocol.StatusConflict
		case cur.version != 0 && cur.record == a.Record:
			ans.Version = cur.version // dropped, as Kubernetes does
		default:
			ans.Version = n.set(a.Record)
		}
	case protocol.Delete:
		if cur.version != a.Version {
			ans.Status = protocol.StatusConflict
		} else {
			n.change(content{})
		}
	}
	return ans
}

func (n *net) asked(d *netNode, a protocol.Ask) {
	life := d.life
	n.say("%s/%d ASK %d %v v%d %+v", d.cfg.Self, d.index, a.Number, a.Op, a.Version, a.Record)
	if a.Op == protocol.Watch {
		if n.w.blind {
			return
		}
		d.watches = append(d.watches, a.Number)
		if n.faults {
			n.In(n.upTo(20*time.Second), func() {
				if d.life != life {
					return
				}
				d.watches = nil
				n.give(d, life, protocol.Input{Kind: protocol.Replied, Answer: protocol.Answer{Number: a.Number, Status: protocol.StatusClosed}})
			})
		}
		return
	}
	answered := false
	answer := func(ans protocol.Answer) {
		if !answered {
			answered = true
			n.give(d, life, protocol.Input{Kind: protocol.Replied, Answer: ans})
		}
	}
	timeout := time.Duration(int64(d.cfg.RequestTimeout()))
	if n.w.stale && n.chance(0.01) {
		timeout = 2 * d.cfg.Duration // a back end that is too patient
	}
	n.In(timeout, func() { answer(protocol.Answer{Number: a.Number, Status: protocol.StatusUnknown}) })
	l := n.bad[d]
	delete(n.bad, d)
	if n.faults {
		l.refused, l.lost, l.unanswered = n.chance(0.01), n.chance(0.04), n.chance(0.04)
	}
	if n.faults || n.w.calm && n.fixed == 0 {
		l.again = n.chance(0.03) // a library repeats it
	}
	l.unanswered = l.unanswered || n.now() < d.mute
	switch {
	case l.refused:
		n.In(n.delay(), func() { answer(protocol.Answer{Number: a.Number, Status: protocol.StatusRefused}) })
		return
	case l.lost:
		return
	}
	n.In(n.delay()+l.late, func() {
		ans := n.apply(a)
		switch {
		case l.again:
			n.In(n.delay(), func() {
				ans := n.apply(a)
				n.In(n.delay(), func() { answer(ans) })
			})
		case !l.unanswered:
			n.In(n.delay(), func() { answer(ans) })
		}
	})
}

// Incarnations.

func (n *net) start(d *netNode) {
	m, err := New(d.cfg)
	if err != nil {
		n.fail("%v", err)
		return
	}
	d.m, d.up, d.frozen, d.inbox, d.watches = m, true, false, nil, nil
	d.life++
	d.term, d.running, d.drain, d.view, d.over = 0, false, false, protocol.View{}, make(map[uint64]bool)
	d.shown, d.acked = 0, 0
	n.step(d, protocol.Input{Kind: protocol.Boot})
	n.do(d, protocol.Campaign)
}

func (n *net) do(d *netNode, v protocol.Verb) {
	n.give(d, d.life, protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: v}})
}

func (n *net) freeze(d *netNode, t time.Duration) {
	if !d.up || d.frozen {
		return
	}
	n.say("%s/%d frozen for %v", d.cfg.Self, d.index, t)
	d.frozen = true
	life := d.life
	n.In(t, func() {
		if d.life != life || !d.frozen {
			return
		}
		d.frozen = false
		box := d.inbox
		d.inbox = nil
		for _, in := range box {
			n.give(d, life, in)
		}
		n.give(d, life, protocol.Input{Kind: protocol.Fire})
	})
}

// trouble is one fault.
func (n *net) trouble() {
	d := n.nodes[n.rng.IntN(len(n.nodes))]
	long := 3 * n.nodes[0].cfg.MaxDuration
	kind := n.rng.IntN(14)
	if n.w.calm {
		kind = 5 + n.rng.IntN(4)
	}
	switch kind {
	case 0, 1:
		if d.up {
			n.say("%s/%d killed", d.cfg.Self, d.index)
			d.up, d.view = false, protocol.View{}
			d.life++
			n.In(n.upTo(long/4), func() {
				if !d.up {
					n.start(d)
				}
			})
		}
	case 2, 3, 4:
		n.freeze(d, n.upTo(long))
	case 5:
		n.do(d, protocol.Resign)
	case 6:
		n.do(d, protocol.Withdraw)
		n.In(n.upTo(long/4), func() { n.do(d, protocol.Campaign) })
	case 7:
		n.do(d, protocol.Sicken)
		n.In(n.upTo(long/4), func() { n.do(d, protocol.Recover) })
	case 8:
		n.do(d, protocol.Confirm)
	case 9:
		if n.w.jumps { // a suspend: the process is paused meanwhile
			t := n.upTo(long / 2)
			n.freeze(d, t)
			d.slept += int64(t)
		}
	case 10:
		if n.w.jumps { // a clock is set
			by := int64(n.upTo(2*long)) - int64(long)
			d.zero += by
			d.slept += by
			n.say("%s/%d clock set by %v", d.cfg.Self, d.index, time.Duration(by))
			if d.up {
				n.arm(d)
			}
		}
	case 11:
		if n.w.deletes {
			n.say("STORE record deleted")
			n.change(content{})
		}
	case 12:
		if c := n.current(); n.w.wipes && c.version != 0 {
			c.record.Holder, c.record.Nonce, c.record.Duration = "", protocol.Nonce{}, time.Second
			for _, old := range n.past {
				if old.record.Free.Count < c.record.Count && n.chance(0.5) {
					c.record.Free = old.record.Free // an annotation that stayed
				}
			}
			n.set(c.record) // client-go's release of any participant's record
		}
	case 13:
		if (n.w.failovers || n.w.silent) && len(n.past) > 1 {
			if !n.w.silent {
				n.seq++
				n.store = fmt.Sprintf("s%d", n.seq)
			}
			n.past = n.past[:len(n.past)-1-n.rng.IntN(min(3, len(n.past)-1))]
			c := n.current()
			n.say("STORE failover to %s, version %d", n.store, c.version)
			n.past = n.past[:len(n.past)-1]
			n.change(c)
			if n.w.silent {
				n.version = c.version
			}
		}
	}
}

// drawSettings draws the faults of a run.
func drawSettings(rng *rand.Rand) settings {
	w := settings{
		deletes: rng.IntN(3) == 0, wipes: rng.IntN(4) == 0, failovers: rng.IntN(4) == 0, global: rng.IntN(2) == 0,
		twins: rng.IntN(3) == 0, jumps: rng.IntN(3) == 0, stale: rng.IntN(3) == 0,
		rho: 50_000, length: 4 * time.Minute,
	}
	if rng.IntN(4) == 0 {
		w.rho = 200_000
	}
	w.silent = rng.IntN(8) == 0
	if rng.IntN(8) == 0 {
		w = settings{calm: true, rho: w.rho, length: w.length}
	}
	return w
}

// newNet makes one run. mutate may change each configuration.
func newNet(seed uint64, mutate func(*Config)) *net {
	rng := rand.New(rand.NewPCG(seed, 1))
	n := &net{rng: rng, w: drawSettings(rng), store: "s0", used: make(map[uint64]bool)}
	n.faults = !n.w.calm
	k := 2 + rng.IntN(4)
	durations := []time.Duration{400 * time.Millisecond, time.Second, 2 * time.Second}
	for i := range k {
		name := fmt.Sprintf("n%d", i+1)
		if n.w.twins && i == 1 {
			name = "n1"
		}
		c := Config{
			Self: protocol.NodeID(name), Duration: durations[rng.IntN(3)], MaxDuration: 2 * time.Second,
			Drift: protocol.Drift{PPM: n.w.rho, Guard: 2 * time.Millisecond}, RTT: time.Millisecond, GlobalVersions: n.w.global,
		}
		if mutate != nil {
			mutate(&c)
		}
		d := &netNode{index: i, cfg: c, rate: rng.Int64N(2*n.w.rho+1) - n.w.rho, zero: rng.Int64N(1e12)}
		switch rng.IntN(3) {
		case 0:
			d.rate = n.w.rho
		case 1:
			d.rate = -n.w.rho
		}
		n.nodes = append(n.nodes, d)
	}
	return n
}

// begin starts all nodes.
func (n *net) begin() {
	for _, d := range n.nodes {
		n.In(n.upTo(time.Second), func() { n.start(d) })
	}
}

// one runs the next event, and reports whether there was one.
func (n *net) one() bool {
	return n.err == nil && n.Next(math.MaxInt64)
}

// run runs until an invariant is violated or the time is over.
func (n *net) run() error {
	n.begin()
	var next func()
	next = func() {
		if n.now() < int64(n.w.length) {
			n.trouble()
			n.In(n.upTo(2*time.Second), next)
		}
	}
	n.In(time.Second, next)
	n.In(n.w.length, func() { n.faults = false })
	// All faults have ended by then, and a node must lead.
	settle := int64(n.w.length + 60*time.Second)
	for n.now() <= settle && n.one() {
	}
	if n.err != nil {
		return n.err
	}
	leaders := 0
	for _, d := range n.nodes {
		r := n.reading(d)
		if d.up && d.view.Proven(r) {
			leaders++
		}
	}
	if leaders != 1 {
		return fmt.Errorf("a minute after the last fault there are %d leaders", leaders)
	}
	return nil
}

func TestNet(t *testing.T) {
	wins := 0
	for seed := range uint64(*netRuns) / long.Or[uint64](1, 4) {
		n := newNet(seed, nil)
		if err := n.run(); err != nil {
			n = newNet(seed, nil)
			n.logs = true
			err = errors.Join(err, n.run())
			t.Fatalf("seed %d, %+v: %v\n%s", seed, n.w, err, strings.Join(n.log[max(0, len(n.log)-150):], "\n"))
		}
		wins += n.wins
	}
	t.Logf("%d runs, %d wins", *netRuns, wins)
}
