package group

import (
	"cmp"
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// The net is a random world: hosts whose clocks differ, ordered connections that are slow, stall and break, crashes with
// and without a witness, pauses, resignations, leaves, overruns, moves. Its election is an oracle.

const (
	ms       = int64(time.Millisecond)
	netTau   = 80 * ms // how long the election takes at most
	netChaos = 12_000 * ms
	netCalm  = 9_000 * ms
)

// gust is what a profile has, in thousandths of the hosts' chances.
type gust struct {
	name                                           string
	cuts, stalls, pauses, crashes, resigns, leaves int
	overruns, jumps, wins, isolates                int
	vouchers                                       int
}

var gusts = []gust{
	{name: "calm", cuts: 20, stalls: 20, crashes: 30, resigns: 20, leaves: 30, wins: 20},
	{name: "cuts", cuts: 200, stalls: 100, pauses: 50, crashes: 30, wins: 60, overruns: 200},
	{name: "crashes", cuts: 50, stalls: 50, pauses: 50, crashes: 150, resigns: 30, leaves: 40, wins: 50, overruns: 100},
	{name: "few", cuts: 60, stalls: 80, pauses: 50, crashes: 100, resigns: 30, leaves: 30, wins: 80, vouchers: 2},
	{name: "wild", cuts: 100, stalls: 200, pauses: 150, crashes: 80, resigns: 50, leaves: 50, wins: 100, overruns: 300, jumps: 60, isolates: 20, vouchers: 1},
}

type event struct {
	at int64
	n  uint64
	do func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].n, e[j].n)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	x := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return x
}

// host is a machine, on which one member and at times the coordinator run, with one clock.
type host struct {
	n        *net
	id       protocol.NodeID
	rate     float64
	boot     int64 // what its clock adds
	mono     int64
	paused   int64 // until then
	inbox    []func()
	isolated int64 // the coordinator's connections to others are cut until then
	aside    int64

	m     *Member
	life  int
	up    bool
	nonce uint64
	works map[work]*netWork

	c *Coordinator
}

type netWork struct {
	key     Key
	token   Token
	view    *View // of its epoch
	stopped bool
}

// pipe is a connection.
type pipe struct {
	conn   Conn
	member *host
	life   int
	c      *Coordinator
	of     *host
	open   bool
	last   [2]int64 // when the last message arrives, by direction
}

type net struct {
	t       testing.TB
	rng     *rand.Rand
	set     Settings
	gust    gust
	mutate  func(*MemberConfig, *CoordinatorConfig)
	now     int64
	events  events
	count   uint64
	hosts   []*host
	pipes   []*pipe
	conns   Conn
	leader  *host // the oracle
	tenure  uint64
	keys    []Key
	highest map[Key]Token
	dead    []Session // by witnesses
	chaos   bool
	failed  string
	trace   []string
	traced  bool
	stats   struct{ tenures, terms, accounts, covers, admitted int }
	watch   func(m machine, fx *Effects, in *Input)
}

func newNet(t testing.TB, seed uint64, g gust, mutate func(*MemberConfig, *CoordinatorConfig)) *net {
	n := &net{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), gust: g, mutate: mutate, highest: make(map[Key]Token), chaos: true, now: 1e9,
		set: Settings{
			Promise: 500 * time.Millisecond, Cover: 500 * time.Millisecond, Poll: 50 * time.Millisecond, Drain: 20 * time.Millisecond,
			Drift: protocol.Drift{PPM: 100_000, Guard: 5 * time.Millisecond}, Bits: 16, Vouchers: g.vouchers,
		},
	}
	for i := range 3 + n.rng.IntN(3) {
		h := &host{n: n, id: protocol.NodeID(fmt.Sprintf("n%d", i+1)), rate: 0.9 + 0.2*n.rng.Float64(), boot: n.rng.Int64N(1e12)}
		if n.rng.IntN(3) == 0 {
			h.rate = []float64{0.9, 1.1}[n.rng.IntN(2)]
		}
		h.mono = h.boot / 2
		n.hosts = append(n.hosts, h)
	}
	for i := range 1 + n.rng.IntN(4) {
		n.keys = append(n.keys, Key(fmt.Sprintf("k%d", i)))
	}
	for _, h := range n.hosts {
		h.start()
	}
	n.after(n.rng.Int64N(netTau), n.elect)
	n.after(10*ms, n.blow)
	return n
}

func (n *net) after(d int64, do func()) {
	n.count++
	heap.Push(&n.events, event{n.now + max(d, 0), n.count, do})
}

func (n *net) say(format string, args ...any) {
	if n.traced {
		n.trace = append(n.trace, fmt.Sprintf("%8.3f ", float64(n.now-1e9)/1e6)+fmt.Sprintf(format, args...))
	}
}

func (n *net) fail(format string, args ...any) {
	if n.failed == "" {
		n.failed = fmt.Sprintf("at %.3f ms: ", float64(n.now-1e9)/1e6) + fmt.Sprintf(format, args...)
		n.say("%s", n.failed)
	}
}

// chance is so many thousandths.
func (n *net) chance(thousandths int) bool { return n.rng.IntN(1000) < thousandths }

func (h *host) reading() protocol.Reading {
	elapsed := int64(float64(h.n.now) * h.rate)
	return protocol.Reading{Boot: protocol.Instant(h.boot + elapsed), Mono: protocol.Instant(h.mono + elapsed)}
}

// due is when an instant of the host's clock comes, in true time.
func (h *host) due(at protocol.Instant) int64 {
	return int64(float64(int64(at)-h.boot)/h.rate) + 2 - h.n.now
}

// act does something now, or when the host's pause is over, in order.
func (h *host) act(do func()) {
	if h.n.now >= h.paused {
		do()
		return
	}
	if h.inbox = append(h.inbox, do); len(h.inbox) == 1 {
		h.n.after(h.paused-h.n.now, h.wake)
	}
}

func (h *host) wake() {
	if h.n.now < h.paused {
		h.n.after(h.paused-h.n.now, h.wake)
		return
	}
	all := h.inbox
	h.inbox = nil
	for _, do := range all {
		do()
	}
}

func (h *host) start() {
	cfg := MemberConfig{Settings: h.n.set, ID: h.id}
	if h.n.mutate != nil {
		h.n.mutate(&cfg, &CoordinatorConfig{})
	}
	m, err := NewMember(cfg)
	if err != nil {
		h.n.t.Fatal(err)
	}
	h.nonce++
	h.life++
	h.m, h.up, h.works = m, true, make(map[work]*netWork)
	h.member(Input{Kind: Start, Session: Session{Process: protocol.Nonce{h.nonce, uint64(len(h.id)) + uint64(h.id[1])}}})
	var wants []Want
	for _, k := range h.n.keys {
		wants = append(wants, Want{Key: k})
	}
	h.member(Input{Kind: Choose, Wants: wants})
	h.n.say("%s starts as %v", h.id, m.View().Session)
	h.dial()
}

// dial connects to the coordinator of now.
func (h *host) dial() {
	n := h.n
	l := n.leader
	if !h.up || l == nil || l.c == nil || l != h && n.now < l.isolated {
		return
	}
	for _, p := range n.pipes {
		if p.open && p.member == h && p.c == l.c {
			return
		}
	}
	n.conns++
	p := &pipe{conn: n.conns, member: h, life: h.life, c: l.c, of: l, open: true}
	n.pipes = append(n.pipes, p)
	n.after(n.rng.Int64N(3*ms), func() {
		l.act(func() {
			if p.open && l.c == p.c {
				l.coordinator(Input{Kind: Opened, Conn: p.conn, From: h.id})
			}
		})
	})
}

// carry carries a message. Those of one lane arrive in order.
func (n *net) carry(p *pipe, way int, lane bool, deliver func()) {
	if !p.open {
		return
	}
	at := n.now + n.rng.Int64N(2*ms) + 1
	if n.chaos && n.chance(n.gust.stalls) {
		at += n.rng.Int64N(900 * ms)
	}
	if lane {
		at = max(at, p.last[way]+1)
		p.last[way] = at
	}
	n.after(at-n.now, func() {
		if p.open {
			deliver()
		}
	})
}

// cut breaks a connection: both ends learn of it, at different times.
func (n *net) cut(p *pipe) {
	if !p.open {
		return
	}
	p.open = false
	n.say("cut %s-%s (%d)", p.member.id, p.of.id, p.conn)
	n.after(n.rng.Int64N(20*ms), func() {
		p.of.act(func() {
			if p.of.c == p.c {
				p.of.coordinator(Input{Kind: Closed, Conn: p.conn})
			}
		})
	})
	n.after(n.rng.Int64N(20*ms), func() {
		p.member.act(func() {
			if p.member.life == p.life && p.member.up {
				p.member.member(Input{Kind: Closed, Conn: p.conn})
				p.member.dial()
			}
		})
	})
}

// member is a step of the member's machine.
func (h *host) member(in Input) {
	n := h.n
	in.Now = h.reading()
	var fx Effects
	before := h.m.View()
	h.m.Step(&in, &fx)
	if n.watch != nil {
		n.watch(h.m, &fx, &in)
	}
	for _, s := range fx.Stops {
		w := h.works[work{s.Key, s.Token}]
		if w == nil {
			n.fail("%s: stop of %v, which does not run", h.id, s)
			continue
		}
		if w.stopped { // it gives its key up by itself
			continue
		}
		w.stopped = true
		n.say("%s stops %s %v: %s", h.id, s.Key, s.Token, s.Reason)
		h.finish(w)
	}
	// The works of an older session keep what they have seen last.
	now := h.m.View()
	for _, w := range h.works {
		if w.view.Session == now.Session {
			*w.view = now
		}
	}
	if before.Session != now.Session {
		n.say("%s is %v", h.id, now.Session)
	}
	for _, s := range fx.Sends {
		for _, p := range n.pipes {
			if p.conn != s.Conn || p.life != h.life || p.member != h {
				continue
			}
			msg := s.Message
			n.say("%s > %d: %s", h.id, p.conn, brief(&msg))
			n.carry(p, 0, msg.Type != Poll, func() {
				p.of.act(func() {
					if p.of.c == p.c && p.open {
						p.of.coordinator(Input{Kind: Receive, Conn: p.conn, From: h.id, Message: msg})
					}
				})
			})
		}
	}
	for _, s := range fx.Starts {
		view := h.m.View()
		if s.Token.Compare(n.highest[s.Key]) <= 0 {
			n.fail("ordered: %s begins %s under %v after %v", h.id, s.Key, s.Token, n.highest[s.Key])
		}
		n.highest[s.Key] = s.Token
		n.joined(h, s.Key)
		n.stats.terms++
		n.say("%s begins %s %v", h.id, s.Key, s.Token)
		w := &netWork{key: s.Key, token: s.Token, view: &view}
		h.works[work{s.Key, s.Token}] = w
		if n.chance(10) {
			w2, life := w, h.life
			n.after(n.rng.Int64N(300*ms), func() {
				if h.life == life && h.up && !w2.stopped {
					w2.stopped = true
					h.finish(w2)
				}
			})
		}
	}
	for _, conn := range fx.Closes {
		for _, p := range n.pipes {
			if p.conn == conn {
				n.cut(p)
			}
		}
	}
	n.check()
	h.arm()
}

// arm arranges for the next fire of the member.
func (h *host) arm() {
	if at := h.m.NextFire(); at != protocol.Never {
		m := h.m
		h.n.after(h.due(at), func() {
			h.act(func() {
				if h.m == m && h.up && m.NextFire() <= h.reading().Boot {
					h.member(Input{Kind: Fire})
				}
			})
		})
	}
}

// finish lets stopped work return.
func (h *host) finish(w *netWork) {
	n, life := h.n, h.life
	d := n.rng.Int64N(10 * ms)
	if n.chance(n.gust.overruns) {
		d = n.rng.Int64N(1500 * ms)
	}
	n.after(d, func() {
		h.act(func() {
			if h.life == life && h.up {
				delete(h.works, work{w.key, w.token})
				n.say("%s: %s %v has returned", h.id, w.key, w.token)
				h.member(Input{Kind: Returned, Held: []Held{{Key: w.key, Token: w.token}}})
			}
		})
	})
}

// crash kills the process: member, coordinator and works.
func (h *host) crash(witness bool) {
	n := h.n
	if !h.up {
		return
	}
	session := h.m.View().Session
	n.say("%s dies, witness %v", h.id, witness)
	h.up, h.inbox = false, nil
	h.life++
	h.works = nil
	if h.c != nil {
		h.c = nil
	}
	for _, p := range n.pipes {
		if p.open && (p.member == h || p.of == h) {
			n.cut(p)
		}
	}
	if n.leader == h {
		n.depose()
	}
	if witness {
		n.dead = append(n.dead, session)
		n.after(n.rng.Int64N(10*ms), func() {
			if l := n.leader; l != nil && l.c != nil {
				l.act(func() {
					if l.c != nil {
						l.coordinator(Input{Kind: Dead, Session: session})
					}
				})
			}
		})
	}
	n.after(n.rng.Int64N(1500*ms), func() {
		if !h.up {
			h.start()
		}
	})
}

// depose ends the leader's tenure in the election, which it may not know.
func (n *net) depose() {
	n.leader = nil
	d := n.rng.Int64N(netTau)
	if n.chance(100) {
		d += n.rng.Int64N(1000 * ms)
	}
	n.after(d, n.elect)
}

func (n *net) elect() {
	if n.leader != nil {
		return
	}
	var able []*host
	for _, h := range n.hosts {
		if h.up && n.now >= h.aside && n.now >= h.paused && h.c == nil {
			able = append(able, h)
		}
	}
	if len(able) == 0 {
		n.after(20*ms, n.elect)
		return
	}
	h := able[n.rng.IntN(len(able))]
	cfg := CoordinatorConfig{Settings: n.set}
	if n.mutate != nil {
		n.mutate(&MemberConfig{}, &cfg)
	}
	c, err := NewCoordinator(cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	n.tenure++
	n.stats.tenures++
	n.leader, h.c = h, c
	n.say("%s coordinates, tenure %d", h.id, n.tenure)
	h.coordinator(Input{Kind: Begin, Tenure: n.tenure})
	for _, o := range n.hosts {
		n.after(n.rng.Int64N(5*ms), func() { o.act(o.dial) })
	}
	for _, s := range n.dead {
		n.after(n.rng.Int64N(10*ms), func() {
			h.act(func() {
				if h.c == c {
					h.coordinator(Input{Kind: Dead, Session: s})
				}
			})
		})
	}
	n.place(h, c)
}

// place moves keys at random.
func (n *net) place(h *host, c *Coordinator) {
	n.after(n.rng.Int64N(40*ms), func() {
		h.act(func() {
			if h.c != c {
				return
			}
			if c.Covered() {
				var able []Standing
				for _, s := range c.Sessions(nil) {
					if s.Admitted && s.Conn != 0 {
						able = append(able, s)
					}
				}
				var moves []Move
				for _, k := range n.keys {
					s, ok := c.Key(k)
					if !ok || len(able) == 0 {
						continue
					}
					if s.Session == (Session{}) || n.chaos && n.chance(60) {
						moves = append(moves, Move{k, s.Session, able[n.rng.IntN(len(able))].Session})
					}
				}
				if len(moves) > 0 {
					h.coordinator(Input{Kind: Moves, Moves: moves})
				}
			}
			if h.c == c {
				n.place(h, c)
			}
		})
	})
}

// coordinator is a step of the coordinator's machine.
func (h *host) coordinator(in Input) {
	n, c := h.n, h.c
	in.Now, in.Proven = h.reading(), n.leader == h
	var fx Effects
	covered := c.Covered()
	c.Step(&in, &fx)
	if n.watch != nil {
		n.watch(c, &fx, &in)
	}
	if !covered && c.Covered() {
		if in.Now.Boot >= c.cover {
			n.stats.covers++
		} else {
			n.stats.accounts++
		}
		n.say("%s: cover is over", h.id)
	}
	if err := c.sane(); err != nil {
		n.fail("%s: %v", h.id, err)
	}
	for _, s := range fx.Sends {
		for _, p := range n.pipes {
			if p.conn != s.Conn || p.c != c {
				continue
			}
			msg := s.Message
			n.say("%s < %d: %s", p.member.id, p.conn, brief(&msg))
			n.carry(p, 1, msg.Type != Answer, func() {
				p.member.act(func() {
					if p.member.up && p.member.life == p.life && p.open {
						p.member.member(Input{Kind: Receive, Conn: p.conn, Message: msg})
					}
				})
			})
		}
	}
	for _, conn := range fx.Closes {
		for _, p := range n.pipes {
			if p.conn == conn {
				n.cut(p)
			}
		}
	}
	if fx.Resign {
		n.say("%s resigns: %s", h.id, fx.Reason)
		h.c = nil
		h.aside = n.now + int64(fx.Aside)
		for _, p := range n.pipes {
			if p.c == c {
				n.cut(p)
			}
		}
		if n.leader == h {
			n.depose()
		}
		return
	}
	if at := c.NextFire(); at != protocol.Never {
		n.after(h.due(at), func() {
			h.act(func() {
				if h.c == c && c.NextFire() <= h.reading().Boot {
					h.coordinator(Input{Kind: Fire})
				}
			})
		})
	}
}

// blow is chaos: something happens now and then.
func (n *net) blow() {
	if !n.chaos {
		return
	}
	g := &n.gust
	h := n.hosts[n.rng.IntN(len(n.hosts))]
	switch {
	case n.chance(g.cuts) && len(n.pipes) > 0:
		n.cut(n.pipes[n.rng.IntN(len(n.pipes))])
	case n.chance(g.pauses):
		h.paused = max(h.paused, n.now+n.rng.Int64N(700*ms))
		n.say("%s is paused until %.3f", h.id, float64(h.paused-1e9)/1e6)
	case n.chance(g.crashes):
		if l := n.leader; l != nil && n.chance(400) {
			h = l
		}
		witness := n.chance(500)
		h.crash(witness)
		if n.chance(300) {
			n.hosts[n.rng.IntN(len(n.hosts))].crash(witness)
		}
	case n.chance(g.wins) && n.leader != nil:
		n.say("the election deposes %s", n.leader.id)
		n.depose()
	case n.chance(g.resigns) && n.leader != nil && n.leader.c != nil:
		l := n.leader
		l.act(func() {
			if l.c != nil {
				l.coordinator(Input{Kind: Resign})
			}
		})
	case n.chance(g.leaves) && h.up:
		n.leaves(h)
	case n.chance(g.jumps):
		d := n.rng.Int64N(400*ms) - 200*ms
		h.boot += d
		n.say("the clock of %s jumps by %v", h.id, time.Duration(d))
		if h.up {
			h.arm()
		}
	case n.chance(g.isolates) && n.leader != nil:
		l := n.leader
		l.isolated = n.now + 5000*ms
		for _, p := range n.pipes {
			if p.of == l && p.member != l {
				n.cut(p)
			}
		}
	}
	n.after(n.rng.Int64N(240*ms), n.blow)
}

// leaves lets a member go in good order and come back as another process.
func (n *net) leaves(h *host) {
	life := h.life
	h.act(func() {
		if h.life != life || !h.up {
			return
		}
		n.say("%s leaves", h.id)
		h.member(Input{Kind: Leave})
		if n.leader == h && h.c != nil {
			h.coordinator(Input{Kind: Resign})
		}
	})
	n.after(200*ms+n.rng.Int64N(1000*ms), func() {
		if h.life == life && h.up && h.c == nil && n.leader != h {
			for _, p := range n.pipes {
				if p.member == h {
					n.cut(p)
				}
			}
			h.life++
			h.inbox = nil
			h.start()
		}
	})
}

var from = flag.Uint64("from", 0, "the first seed of TestNet")

// TestNet runs random worlds.
func TestNet(t *testing.T) {
	for _, g := range gusts {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			var tenures, terms, accounts, covers int
			for i := range long.Or(long.FullOr[uint64](400, 150), 40) {
				seed := *from + i
				n := newNet(t, seed, g, nil)
				if err := n.run(); err != nil {
					t.Errorf("seed %d: %v", seed, err)
					n = newNet(t, seed, g, nil)
					n.traced = true
					n.run()
					for _, line := range n.trace[max(0, len(n.trace)-200):] {
						t.Log(line)
					}
					return
				}
				tenures += n.stats.tenures
				terms += n.stats.terms
				accounts += n.stats.accounts
				covers += n.stats.covers
			}
			t.Logf("%d tenures, %d terms, cover ended %d times by account and %d by time", tenures, terms, accounts, covers)
			if tenures < 40 || terms < 400 || accounts < 20 || covers < 20 {
				t.Error("too little has happened")
			}
		})
	}
}
