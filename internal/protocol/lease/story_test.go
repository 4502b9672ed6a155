package lease

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// story is a small world that runs a script and describes what happens.
type story struct {
	n     *net
	lines []string
	quiet map[string]int // renewals that were not described one by one
}

func newStory() *story {
	s := &story{quiet: make(map[string]int)}
	s.n = &net{
		rng: rand.New(rand.NewPCG(1, 1)), w: settings{calm: true}, store: "s0", used: make(map[uint64]bool),
		fixed: 2 * time.Millisecond, bad: make(map[*netNode]luck),
	}
	s.n.check = s.tell
	return s
}

func (s *story) say(who, format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf("%9.3fs  %-5s  %s", float64(s.n.now())/1e9, who, fmt.Sprintf(format, args...)))
}

// tell describes a step.
func (s *story) tell(_ *net, d *netNode, in *protocol.Input, before stage) {
	who := string(d.cfg.Self)
	if in.Kind == protocol.Replied {
		switch a := &in.Answer; a.Status {
		case protocol.StatusUnknown, protocol.StatusConflict, protocol.StatusRefused:
			s.say(who, "is answered: %v", a.Status)
		}
	}
	for _, o := range d.fx.Orders {
		if o.Kind != protocol.Lead {
			s.say(who, "%v, token %d: %s", strings.ToUpper(o.Kind.String()), o.Token, o.Reason)
		}
	}
	for _, a := range d.fx.Asks {
		r := &a.Record
		switch {
		case a.Op == protocol.Read && (d.m.doubt || d.m.stage != watching):
			s.say(who, "reads, to be sure")
		case a.Op != protocol.Write:
		case r.Holder == "" && a.Version == 0:
			s.say(who, "makes the record, free but without a mark")
		case r.Holder == "":
			s.say(who, "sets version %d free: the mark is of %s, count %d", a.Version, r.Free.Holder, r.Free.Count)
		case before == watching || !d.m.own.landed:
			s.say(who, "asks for version %d with count %d, attempt %d", a.Version, r.Count, r.Attempt)
		default:
			s.quiet[who]++
		}
	}
	switch {
	case before == acquiring && d.m.stage == acquiring && d.m.own.landed && in.Answer.Status == protocol.StatusDone:
		s.say(who, "has the record, but its claim has passed: it renews first")
	case before != watching && d.m.stage == watching:
		s.say(who, "waits")
	}
}

// do carries out one line of a script and returns what happened.
func (s *story) do(line string) (string, error) {
	f := strings.Fields(line)
	if len(f) == 0 {
		return "", fmt.Errorf("an empty line")
	}
	s.lines = nil
	var d *netNode
	var span time.Duration
	var numbers int
	for _, arg := range f[1:] {
		if i := slices.IndexFunc(s.n.nodes, func(d *netNode) bool {
			return string(d.cfg.Self) == arg || arg == "leader" && d.view.Active
		}); i >= 0 {
			d = s.n.nodes[i]
		}
		if t, err := time.ParseDuration(arg); err == nil {
			span = t
		}
		_, _ = fmt.Sscanf(arg, "%d", &numbers)
	}
	if d == nil && slices.Contains([]string{"kill", "restart", "freeze", "clock", "command", "luck", "mute"}, f[0]) {
		return "", fmt.Errorf("%q names no node", line)
	}
	n := s.n
	switch f[0] {
	case "nodes": // nodes n1=1s n2=2s: names and durations
		for _, arg := range f[1:] {
			name, text, _ := strings.Cut(arg, "=")
			t, err := time.ParseDuration(text)
			if err != nil {
				return "", err
			}
			c := Config{Self: protocol.NodeID(name), Duration: t, MaxDuration: 4 * time.Second, Drift: protocol.Drift{PPM: 50_000, Guard: 5 * time.Millisecond}}
			d := &netNode{index: len(n.nodes), cfg: c}
			n.nodes = append(n.nodes, d)
			n.start(d)
		}
	case "run": // run 3s
		s.run(span)
	case "kill":
		s.say(string(d.cfg.Self), "is killed")
		d.up, d.view = false, protocol.View{}
		d.life++
	case "restart":
		n.start(d)
	case "freeze": // freeze n1 3s
		s.say(string(d.cfg.Self), "is frozen")
		n.freeze(d, span)
	case "clock": // clock n1 -3s: it is set
		d.zero += int64(span)
		d.slept += int64(span)
		n.give(d, d.life, protocol.Input{Kind: protocol.Fire})
	case "command": // command n1 resign
		var v protocol.Verb
		if err := v.UnmarshalText([]byte(f[len(f)-1])); err != nil {
			return "", err
		}
		n.do(d, v)
	case "work": // work 3s: how long work takes to return, from now on
		n.returns = span
	case "luck": // luck n1 lost|unanswered|again|refused, or luck n1 late 3s: of its next request
		l := luck{late: span}
		switch f[2] {
		case "lost":
			l.lost = true
		case "unanswered":
			l.unanswered = true
		case "again":
			l.again = true
		case "refused":
			l.refused = true
		case "late":
		default:
			return "", fmt.Errorf("luck of kind %q", f[2])
		}
		n.bad[d] = l
	case "mute": // mute n1 3s: no answer reaches it for that time
		d.mute = n.now() + int64(span)
	case "delete":
		n.change(content{})
	case "wipe": // as client-go's release does
		c := n.current()
		c.record.Holder, c.record.Nonce, c.record.Duration = "", protocol.Nonce{}, time.Second
		n.set(c.record)
	case "failover": // failover 2: that many changes are lost
		n.store, n.w.failovers = n.store+"'", true
		n.past = n.past[:len(n.past)-numbers]
		c := n.current()
		n.past = n.past[:len(n.past)-1]
		n.change(c)
	default:
		return "", fmt.Errorf("unknown word %q", f[0])
	}
	if n.err != nil {
		return "", n.err
	}
	for _, d := range n.nodes {
		if who := string(d.cfg.Self); s.quiet[who] > 0 {
			s.say(who, "has renewed %d times", s.quiet[who])
			s.quiet[who] = 0
		}
	}
	if len(s.lines) == 0 {
		return "", nil
	}
	return strings.Join(s.lines, "\n") + "\n", nil
}

// run lets the time pass.
func (s *story) run(d time.Duration) {
	end := s.n.Now + d
	for s.n.err == nil && s.n.Next(end) {
	}
	s.n.Now = end
}
