package queue

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/golden"
	"github.com/electd/elect/internal/protocol"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts in testdata anew")

// story is a world without chance, described line by line. Messages take 5 ms, and clocks are true.
type story struct {
	w     *world
	out   strings.Builder
	join  time.Duration // how long work goes on after Stop
	lose  map[string]bool
	ops   map[protocol.NodeID]map[uint64]protocol.Op
	quiet int // steps of renewing and looking that were not told
}

// TestStories replays the transcripts.
func TestStories(t *testing.T) {
	golden.Run(t, "testdata/*.txt", *rewrite, func(t *testing.T) func(golden.Command) string {
		s := &story{lose: make(map[string]bool), ops: make(map[protocol.NodeID]map[uint64]protocol.Op)}
		return func(c golden.Command) string {
			s.out.Reset()
			if err := s.command(&c); err != nil {
				t.Fatalf("line %d: %v", c.Line, err)
			}
			s.hush()
			if s.w.failure != "" {
				s.line("judge", "%s", s.w.failure)
			}
			return s.out.String()
		}
	})
}

func (s *story) line(who, format string, args ...any) {
	fmt.Fprintf(&s.out, "%8.3f  %-5s  %s\n", float64(s.w.now())/1e9, who, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

func (s *story) hush() {
	if s.quiet > 0 {
		fmt.Fprintf(&s.out, "          and %d more of renewing and looking\n", s.quiet)
		s.quiet = 0
	}
}

// command does one command of a transcript.
func (s *story) command(c *golden.Command) error {
	length := func(key string) (time.Duration, error) { return time.ParseDuration(c.Get(key, "0s")) }
	if c.Name == "world" {
		d, err := ParseDialect(c.Get("dialect", ""))
		if err != nil {
			return err
		}
		hold, err := length("hold")
		if err != nil {
			return err
		}
		s.world(Config{Self: "n0", Dialect: d, Hold: hold, ServersFixed: hold == 0 && d == Etcd})
		return nil
	}
	if c.Name == "run" {
		d, err := length("for")
		s.w.run(time.Duration(s.w.now()) + d)
		return err
	}
	var n *node
	for _, x := range s.w.nodes {
		if len(c.Args) > 0 && string(x.name) == c.Args[0] {
			n = x
		}
	}
	if c.Name == "start" {
		n = &node{w: s.w, name: protocol.NodeID(c.Args[0])}
		s.w.nodes = append(s.w.nodes, n)
		n.boot()
		return nil
	}
	if n == nil {
		return fmt.Errorf("%s: want a node that was started", c.Name)
	}
	d, err := length("for")
	if err != nil {
		return err
	}
	switch c.Name {
	case "campaign", "withdraw", "resign", "sicken", "recover", "confirm":
		var v protocol.Verb
		if err := v.UnmarshalText([]byte(c.Name)); err != nil {
			return err
		}
		n.do(v)
	case "disconnect":
		n.step(protocol.Input{Kind: protocol.PeerClosed})
		s.line(string(n.name), "is suspected; still proven: %v", n.proven())
	case "join": // from now on, work takes that long to return
		s.join = d
	case "lose": // the next answer of that kind
		s.lose[string(n.name)+c.Get("op", "")] = true
	case "pause":
		n.paused = true
		s.w.later(n, int64(d), func() {
			s.line(string(n.name), "runs again; still proven: %v", n.proven())
			n.resume()
		})
	case "crash":
		n.life++
		n.paused = true
		n.m.phase, n.m.active, n.working = down, false, 0
	case "delete":
		s.w.store.remove(n.m.own.Order)
	case "jump": // its Boot clock
		by, err := length("by")
		if err != nil {
			return err
		}
		n.base, n.from = n.local().Add(by), s.w.now()
		n.off += by
		s.line(string(n.name), "clock set by %v; still proven: %v", by, n.proven())
		n.arm()
	default:
		return fmt.Errorf("no such command: %s", c.Name)
	}
	return nil
}

func (n *node) proven() bool {
	v := n.m.View()
	return v.Proven(n.reading())
}

func (s *story) world(cfg Config) {
	rng := rand.New(rand.NewPCG(1, 5))
	w := &world{
		rng: rng, cfg: cfg.withDefaults(), timeout: int64(time.Second), story: s,
		electeds: make(map[uint64]bool), lapsed: make(map[uint64]bool), seen: make(map[string]int),
	}
	w.store = newStore(cfg.Dialect, rng, 0)
	w.store.calm = true
	s.w = w
	w.expiry()
}

// loses reports whether the answer to a is to be lost.
func (s *story) loses(n *node, a *protocol.Ask) bool {
	key := string(n.name) + a.Op.String()
	if !s.lose[key] {
		return false
	}
	delete(s.lose, key)
	s.line("store", "has done the %s of %s; the answer is lost", a.Op, n.name)
	return true
}

// stepped tells a step, unless it is only one more renewal or look.
func (s *story) stepped(n *node, in *protocol.Input, before phase) {
	if s.ops[n.name] == nil {
		s.ops[n.name] = make(map[uint64]protocol.Op)
	}
	var what, does []string
	dull := before == n.m.phase && len(n.fx.Orders) == 0
	switch in.Kind {
	case protocol.Boot:
		what = append(what, "boots")
	case protocol.Fire:
		what = append(what, "its time has come")
	case protocol.Do:
		what, dull = append(what, in.Command.Verb.String()), false
	case protocol.Replied:
		a := &in.Answer
		op := s.ops[n.name][a.Number]
		text := fmt.Sprintf("%s: %s", op, a.Status)
		switch {
		case a.Status != protocol.StatusDone:
		case op == protocol.Enter:
			text += fmt.Sprintf(", entry %d", a.Entry.Order)
		case op == protocol.Verify, op == protocol.Touch && s.w.cfg.Dialect == Etcd:
			text += fmt.Sprintf(", entry %d is first", a.Entry.Order)
		case op == protocol.List:
			var all []string
			for _, e := range a.Entries {
				all = append(all, fmt.Sprint(e.Order))
			}
			text += ", entries " + strings.Join(all, " ")
			if s.w.cfg.Hold > 0 {
				text += ", mark " + markName(a.Mark)
			}
		}
		what = append(what, text)
		dull = dull && (a.Status == protocol.StatusDone || op == protocol.WatchTouch)
	}
	for _, o := range n.fx.Orders {
		does = append(does, strings.ToUpper(strings.TrimSpace(fmt.Sprintf("%s %d", o.Kind, o.Token)))+strings.TrimRight(" "+string(o.Reason), " "))
	}
	for _, a := range n.fx.Asks {
		s.ops[n.name][a.Number] = a.Op
		text := a.Op.String()
		switch {
		case a.Op == protocol.WatchEntry:
			text = fmt.Sprintf("watch %d", a.Entry.Order)
		case a.Op == protocol.WatchTouch:
			text = fmt.Sprintf("watch touches of %d", a.Entry.Order)
		case a.SetMark:
			text += " (" + markName(a.Mark) + ")"
		}
		dull = dull && (a.Op == protocol.KeepAlive || a.Op == protocol.Touch || a.Op == protocol.Verify)
		does = append(does, text)
	}
	if dull {
		s.quiet++
		return
	}
	state := ""
	if before != n.m.phase {
		state = phaseName(n.m.phase)
	}
	s.line(string(n.name), "%-52s %-10s %s", strings.Join(what, " "), state, strings.Join(does, " · "))
}

func markName(m protocol.QueueMark) string {
	switch {
	case m == (protocol.QueueMark{}):
		return "never written"
	case m.Held:
		text := fmt.Sprintf("held by %d for %v", m.Order, m.Hold)
		if m.Touched > 0 {
			text += fmt.Sprintf(", touched at %d", m.Touched)
		}
		return text
	}
	return fmt.Sprintf("free after %d", m.Order)
}
