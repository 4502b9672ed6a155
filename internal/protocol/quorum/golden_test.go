package quorum

import (
	"cmp"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/golden"
	"github.com/electd/elect/internal/protocol"
)

var rewrite = flag.Bool("rewrite", false, "write the actual output into the transcripts")

// TestGolden plays the transcripts of testdata. Messages take 0.5 ms, saves 2 ms, works 5 ms to
// return. The profile is lan.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txt", *rewrite, func(t *testing.T) func(golden.Command) string {
		s := &script{fail: t.Fatalf}
		t.Cleanup(func() {
			if s.w != nil && len(s.w.violations) > 0 {
				t.Errorf("violated: %v", s.w.violations)
			}
		})
		return s.do
	})
}

// script is a world and the record of its events.
type script struct {
	w      *world
	out    strings.Builder
	fail   func(format string, args ...any)
	change func(*Config)
}

func (s *script) do(c golden.Command) string {
	s.out.Reset()
	if c.Name == "cluster" {
		s.cluster(c)
		return ""
	}
	w := s.w
	switch c.Name {
	case "run":
		w.run(w.Now + s.duration(c.Args[0]))
	case "until-leader":
		for end := w.Now + s.duration(c.Get("within", "10s")); w.Now < end && w.leader() == nil; {
			w.run(w.Now + time.Millisecond)
		}
	case "start":
		s.each(c, (*node).start)
	case "crash":
		w.close = time.Millisecond
		if c.Has("silently") {
			w.close = -1
		}
		s.each(c, func(n *node) { n.crash(!c.Has("work-lives")) })
	case "witness":
		s.each(c, (*node).witness)
	case "pause":
		s.each(c, func(n *node) { n.pause(s.duration(c.Get("for", "")), c.Has("asleep")) })
	case "jump":
		s.each(c, func(n *node) {
			d := s.duration(c.Get("by", ""))
			n.zero += d
			n.asleep += d
			n.log("its clock is set %v ahead", d)
			n.arm()
		})
	case "cut", "mend":
		for _, a := range c.Args {
			from, to, one := strings.Cut(a, ">")
			if !one {
				from, to, _ = strings.Cut(a, "-")
			}
			f, t := s.node(from), s.node(to)
			w.cut[f.i][t.i] = c.Name == "cut"
			if !one {
				w.cut[t.i][f.i] = c.Name == "cut"
			}
		}
	case "slow": // messages from and to the named nodes take longer
		s.each(c, func(n *node) { w.slow[n.i] = s.duration(c.Get("by", "")) })
	case "closed": // of=n1: the named nodes see n1's last connection close
		dead := s.node(c.Get("of", ""))
		s.each(c, func(n *node) {
			n.give(protocol.Input{Kind: protocol.PeerClosed, From: dead.cfg.Self.ID, Incarnation: dead.m.ballot.Incarnation})
		})
	case "do":
		var v protocol.Verb
		if err := v.UnmarshalText([]byte(c.Get("verb", ""))); err != nil {
			s.fail("%d: %v", c.Line, err)
		}
		s.each(c, func(n *node) {
			n.log("is told to %v", v)
			if v == protocol.Pause || v == protocol.Resume {
				n.idle = v == protocol.Pause
			}
			n.do(protocol.Command{Verb: v})
		})
	case "transfer":
		s.each(c, func(n *node) {
			to := c.Get("to", "")
			n.log("is told to transfer to %s", cmp.Or(to, "whoever is best"))
			n.do(protocol.Command{Verb: protocol.Transfer, Target: protocol.NodeID(to)})
		})
	case "locate": // the node's position becomes this
		s.each(c, func(n *node) {
			n.log("is at position %s", c.Get("at", ""))
			n.locate(c.Get("at", ""))
		})
	case "reconfigure":
		next := &protocol.Membership{}
		for id := range strings.SplitSeq(c.Get("voters", ""), ",") {
			next.Voters = append(next.Voters, s.node(id).cfg.Self)
		}
		for id := range strings.FieldsFuncSeq(c.Get("observers", ""), func(r rune) bool { return r == ',' }) {
			next.Observers = append(next.Observers, protocol.NodeID(id))
		}
		s.each(c, func(n *node) {
			n.log("is asked for %s", show(next))
			if err := n.m.Objection(next); err != nil {
				n.log("refuses: %v", err)
			}
			n.do(protocol.Command{Verb: protocol.Reconfigure, Membership: next})
		})
	case "join": // starts with the membership of another node
		s.each(c, func(n *node) {
			n.cfg.Membership = s.node(c.Get("like", "")).ms
			n.start()
		})
	case "wipe": // the disk is lost
		s.each(c, (*node).wipe)
	case "members":
		for _, n := range w.nodes {
			if !n.up {
				continue
			}
			s.print("%v has %v %s, on disk %v", n.cfg.Self.ID, n.ms.ID(), show(n.ms), n.durable().ID())
			if n.view.Role == protocol.Leader {
				s.print(", settled: %v", n.m.settled())
			}
			s.print("\n")
		}
	case "disk":
		s.each(c, func(n *node) { n.badDisk = c.Has("fails") })
	case "fsync": // of all nodes, or of the named ones
		d := s.duration(c.Args[0])
		if len(c.Args) == 1 {
			w.fsync = func() time.Duration { return d }
		}
		s.each(c, func(n *node) { n.fsync = d })
	case "work": // takes this long to return
		d := s.duration(c.Args[0])
		w.join = func() time.Duration { return d }
	case "promise": // of the next start
		s.each(c, func(n *node) { n.cfg.Promise = s.duration(c.Get("of", "")) })
	case "vote": // a vote request of from, without an election
		from := s.node(c.Get("from", ""))
		term, err := strconv.ParseUint(c.Get("term", ""), 10, 64)
		if err != nil {
			s.fail("%d: %v", c.Line, err)
		}
		msg := from.m.message(Vote, term)
		s.each(c, func(n *node) { w.carry(from.i, n.i, msg) })
	case "record": // from now on, messages are kept for a replay
		w.keep = 10_000
	case "replay": // all kept messages of a type, to their receivers
		for _, p := range w.kept {
			if string(p.msg.Type) == c.Get("type", string(p.msg.Type)) && (c.Get("to", "") == "" || s.node(c.Get("to", "")).i == p.to) && (!c.Has("handover") || p.msg.Handover != nil) {
				if c.Has("handover") {
					w.log(w.nodes[p.to], "gets the %s of %s in term %d once more", p.msg.Type, voter(p.from).ID, p.msg.Term)
				}
				w.nodes[p.to].give(protocol.Input{Kind: protocol.Receive, From: voter(p.from).ID, Message: p.msg})
			}
		}
	case "view":
		for _, n := range w.nodes {
			if !n.up {
				s.print("%v is down\n", n.cfg.Self.ID)
				continue
			}
			v := &n.view
			s.print("%v %v term=%d leader=%s", n.cfg.Self.ID, v.Role, v.Term, v.Leader.ID)
			if v.Elected {
				s.print(" token=%d active=%v", v.Token, v.Active)
			}
			if d := n.m.residual(protocol.Voter{}, 0); d > 0 {
				s.print(" promised-for=%v", d)
			}
			s.print("\n")
		}
	default:
		s.fail("%d: no command %q", c.Line, c.Name)
	}
	return s.out.String()
}

func (s *script) print(format string, args ...any) { fmt.Fprintf(&s.out, format, args...) }

func (s *script) cluster(c golden.Command) {
	n, err := strconv.Atoi(c.Get("voters", "3"))
	if err != nil {
		s.fail("%d: %v", c.Line, err)
	}
	s.w = newWorld(1)
	w := s.w
	w.delay = func() time.Duration { return 500 * time.Microsecond }
	w.log = func(n *node, format string, args ...any) {
		name := string(n.cfg.Self.ID)
		if n.life > 1 {
			name = n.name()
		}
		s.print("%-12v %-5s %s\n", w.Now.Round(10*time.Microsecond), name, fmt.Sprintf(format, args...))
	}
	ms := members(n)
	observers, err := strconv.Atoi(c.Get("observers", "0"))
	if err != nil {
		s.fail("%d: %v", c.Line, err)
	}
	for i := range observers {
		ms.Observers = append(ms.Observers, voter(n+i).ID)
	}
	spare, err := strconv.Atoi(c.Get("spare", "0")) // they are not started, and take no part
	if err != nil {
		s.fail("%d: %v", c.Line, err)
	}
	priorities := strings.Split(c.Get("priority", ""), ",")
	for i := range n + observers + spare {
		cfg := Config{Self: voter(i), Membership: ms, Position: PositionPolicy(c.Get("position", ""))}
		if i < len(priorities) && priorities[i] != "" {
			if cfg.Priority, err = strconv.Atoi(strings.ReplaceAll(priorities[i], "never", "-1")); err != nil {
				s.fail("%d: %v", c.Line, err)
			}
		}
		if s.change != nil {
			s.change(&cfg)
		}
		w.add(cfg)
	}
	if !c.Has("stopped") {
		for _, n := range w.nodes[:n+observers] {
			w.at(0, n.start)
		}
	}
}

func (s *script) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.fail("%v", err)
	}
	return d
}

func (s *script) node(id string) *node {
	for _, n := range s.w.nodes {
		if string(n.cfg.Self.ID) == id {
			return n
		}
	}
	s.fail("no node %q", id)
	return nil
}

// each calls do for every named node.
func (s *script) each(c golden.Command, do func(*node)) {
	for _, a := range c.Args {
		if strings.HasPrefix(a, "n") && !strings.Contains(a, "=") {
			do(s.node(a))
		}
	}
}
