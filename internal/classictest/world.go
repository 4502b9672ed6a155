// Package classictest is what the tests of the machines share: a small [World] in which bully, ring, raft and BlazingMQ
// run, with a clock and a disk for each participant and a network that can be cut, lose, double and delay; the stories
// that are told of it; and what holds of any machine and its state. The other protocols have worlds of their own, which
// check more, and take the [Agenda] and the states from here. Time is simulated and chance is seeded, so a world
// repeats.
//
// A world belongs to one test and one goroutine. A violation by any machine (orders out of order, a
// token used twice, an inconsistent view) fails the test.
package classictest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// IDs are n1 to n, in order.
func IDs(n int) (all []protocol.NodeID) {
	for i := range n {
		all = append(all, protocol.NodeID(fmt.Sprintf("n%d", i+1)))
	}
	return all
}

// Node is one participant.
type Node[M protocol.Machine] struct {
	ID      protocol.NodeID
	Machine M // of the present life
	Up      bool
	Bad     bool            // its saves fail
	Ahead   time.Duration   // of its clock
	Token   uint64          // while elected; otherwise 0
	Used    map[uint64]bool // tokens, ever
	Disk    []byte          // what is durable

	make   func() (M, error)
	life   int
	saved  uint64
	held   []protocol.Send
	tasks  map[uint64]bool
	paused time.Duration // until then it takes no step
	inbox  []protocol.Input
}

// World is a small network. It is perfect unless a test changes it: a message takes 1 ms, a save too, and work returns
// within 1 ms.
type World[M protocol.Machine] struct {
	Agenda
	T     testing.TB
	Nodes []*Node[M]
	Cut   func(from, to int) bool               // which links are cut: nothing leaves or arrives; none if it is nil
	Sent  map[protocol.MessageType]int          // counts, until the test clears it
	Check bool                                  // each step is made a second time, by a machine that was loaded
	Steps int                                   // that were made
	Log   func(id protocol.NodeID, says string) // is called with each event, if it is not nil

	Delay  func() time.Duration      // of a message
	Copies func(from, to int) int    // how many copies of a message arrive
	Fsync  func(i int) time.Duration // of a save of node i
	Fails  func() bool               // a save fails
	Join   func() time.Duration      // from Stop to the return of the work
	Draw   func() uint64             // the random word of a step

	// Stepped sees each step before its effects are carried out, and Sending each message that leaves, if not nil.
	Stepped func(i int, in *protocol.Input, fx *protocol.Effects, before protocol.View)
	Sending func(i int, s *protocol.Send)
}

// New returns a world of n1 to nn, none of which is started. Each incarnation of node i has a
// machine of its own, which machine makes.
func New[M protocol.Machine](t testing.TB, n int, machine func(i int, members []protocol.NodeID) (M, error)) *World[M] {
	rand := uint64(0)
	w := &World[M]{T: t, Sent: map[protocol.MessageType]int{}, Draw: func() uint64 {
		rand += 0x9e3779b97f4a7c15
		return rand
	}}
	w.perfect()
	members := IDs(n)
	for i, id := range members {
		w.Nodes = append(w.Nodes, &Node[M]{ID: id, Used: map[uint64]bool{}, make: func() (M, error) { return machine(i, members) }})
	}
	return w
}

// perfect ends all faults of links and disks.
func (w *World[M]) perfect() {
	ms := func() time.Duration { return time.Millisecond }
	w.Delay, w.Join, w.Fsync = ms, ms, func(int) time.Duration { return time.Millisecond }
	w.Copies, w.Fails, w.Cut = func(int, int) int { return 1 }, func() bool { return false }, nil
}

// tell logs a change of a view.
func (w *World[M]) tell(n *Node[M], before, after protocol.View) {
	if before.Role != after.Role {
		w.Log(n.ID, fmt.Sprintf("%v → %v", before.Role, after.Role))
	}
	switch self := n.ID; {
	case before.Leader == after.Leader || after.Leader.ID == self:
	case after.Leader.ID != "":
		w.Log(self, fmt.Sprintf("follows %s, token %d", after.Leader.ID, after.Leader.Term))
	case before.Leader.ID != self:
		w.Log(self, fmt.Sprintf("has lost %s", before.Leader.ID))
	}
}

// Start begins an incarnation of node i, with what its disk holds.
func (w *World[M]) Start(i int) {
	n := w.Nodes[i]
	m, err := n.make()
	if err != nil {
		w.T.Fatal(err)
	}
	n.Machine, n.Up, n.saved, n.held, n.Token, n.tasks = m, true, 0, nil, 0, map[uint64]bool{}
	n.paused, n.inbox = 0, nil
	n.life++
	w.Step(i, protocol.Input{Kind: protocol.Boot, Durable: bytes.Clone(n.Disk)})
}

// Stand begins an incarnation of node i, as a candidate.
func (w *World[M]) Stand(i int) {
	w.Start(i)
	w.Do(i, protocol.Campaign)
}

// StandAll begins an incarnation of each node, as a candidate.
func (w *World[M]) StandAll() {
	for i := range w.Nodes {
		w.Stand(i)
	}
}

// Do gives node i a command.
func (w *World[M]) Do(i int, v protocol.Verb) {
	w.Step(i, protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: v}})
}

// Kill ends the incarnation of node i.
func (w *World[M]) Kill(i int) { w.Nodes[i].Up = false }

// Pause lets node i take no step for d. Then it gets what has arrived before a timer that has come due.
func (w *World[M]) Pause(i int, d time.Duration) {
	n := w.Nodes[i]
	n.paused = w.Now + d
	w.later(i, d, func() {
		inbox := n.inbox
		n.inbox = nil
		for _, in := range inbox {
			w.Step(i, in)
		}
		w.arm(i)
	})
}

// later schedules an event of node i, for this incarnation only.
func (w *World[M]) later(i int, d time.Duration, do func()) {
	n, life := w.Nodes[i], w.Nodes[i].life
	w.In(d, func() {
		if n.Up && n.life == life {
			do()
		}
	})
}

// Reading is what a clock shows.
func (w *World[M]) Reading(n *Node[M]) protocol.Reading {
	at := protocol.Instant(w.Now + n.Ahead + time.Hour)
	return protocol.Reading{Boot: at, Mono: at}
}

// Step hands node i an input, and carries out the effects.
func (w *World[M]) Step(i int, in protocol.Input) {
	n := w.Nodes[i]
	switch {
	case !n.Up:
		return
	case w.Now < n.paused:
		n.inbox = append(n.inbox, in)
		return
	}
	in.Now, in.Rand = w.Reading(n), w.Draw()
	before, view := n.Machine.AppendState(nil), n.Machine.View()
	var fx protocol.Effects
	n.Machine.Step(&in, &fx)
	w.Steps++
	if w.Check {
		other, _ := n.make()
		if err := Reloaded(n.Machine, &fx, other, before, &in); err != nil {
			w.T.Fatalf("%s: %v", n.ID, err)
		}
	}
	if w.Log != nil {
		w.tell(n, view, n.Machine.View())
	}
	if w.Stepped != nil {
		w.Stepped(i, &in, &fx, view)
	}
	for _, o := range fx.Orders {
		if w.Log != nil {
			w.Log(n.ID, strings.TrimRight(fmt.Sprintf("%s, token %d %s", strings.ToUpper(o.Kind.String()), o.Token, o.Reason), " "))
		}
		switch o.Kind {
		case protocol.Elected:
			if n.Token != 0 || len(n.tasks) > 0 || n.Used[o.Token] {
				w.T.Fatalf("%s is elected with %d: it has %d, works %v", n.ID, o.Token, n.Token, n.tasks)
			}
			n.Token, n.Used[o.Token] = o.Token, true
		case protocol.Stop:
			if n.Token != o.Token {
				w.T.Fatalf("%s stops %d and has %d", n.ID, o.Token, n.Token)
			}
			n.Token, n.tasks[o.Token] = 0, true
			w.later(i, w.Join(), func() {
				delete(n.tasks, o.Token)
				w.Step(i, protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Joined, Token: o.Token}})
			})
		default:
			w.T.Fatalf("%s orders %v", n.ID, o.Kind)
		}
	}
	if v := n.Machine.View(); v.Elected != (n.Token != 0) || v.Token != n.Token || v.Active || (v.Leader.ID == "") != (v.Leader.Term == 0) {
		w.T.Fatalf("%s: view %+v with token %d", n.ID, v, n.Token)
	}
	for _, s := range fx.Saves {
		d, failed := w.Fsync(i), w.Fails() || n.Bad
		s.Data = bytes.Clone(s.Data)
		w.later(i, d, func() { w.save(i, s, failed) })
	}
	for _, s := range fx.Sends {
		if s.After > n.saved {
			n.held = append(n.held, s)
		} else {
			w.send(i, &s)
		}
	}
	w.arm(i)
}

// arm schedules the Fire.
func (w *World[M]) arm(i int) {
	n := w.Nodes[i]
	at := n.Machine.NextFire()
	if at == protocol.Never {
		return
	}
	w.later(i, at.Sub(w.Reading(n).Boot), func() {
		if w.Now >= n.paused && n.Machine.NextFire() <= w.Reading(n).Boot { // or a later one is on its way
			w.Step(i, protocol.Input{Kind: protocol.Fire})
		}
	})
}

// save ends a save: messages that waited for it leave, or are dropped.
func (w *World[M]) save(i int, s protocol.Save, failed bool) {
	n := w.Nodes[i]
	if !failed && s.Number > n.saved {
		n.saved, n.Disk = s.Number, s.Data
	}
	held := n.held
	n.held = nil
	for _, m := range held {
		switch {
		case m.After <= n.saved:
			w.send(i, &m)
		case failed && m.After <= s.Number:
		default:
			n.held = append(n.held, m)
		}
	}
	w.Step(i, protocol.Input{Kind: protocol.Saved, Number: s.Number, Failed: failed})
}

func (w *World[M]) send(from int, s *protocol.Send) {
	w.Sent[s.Message.Type]++
	if w.Sending != nil {
		w.Sending(from, s)
	}
	to := -1
	for j, n := range w.Nodes {
		if n.ID == s.To {
			to = j
		}
	}
	if to < 0 || to == from {
		w.T.Fatalf("%s sends %s to %q", w.Nodes[from].ID, s.Message.Type, s.To)
	}
	in := protocol.Input{Kind: protocol.Receive, From: w.Nodes[from].ID, Message: s.Message}
	cut := func() bool { return w.Cut != nil && w.Cut(from, to) }
	copies := w.Copies(from, to)
	if cut() {
		return
	}
	for range copies {
		w.In(w.Delay(), func() {
			if !cut() {
				w.Step(to, in)
			}
		})
	}
}

// Leaders returns the nodes that are elected.
func (w *World[M]) Leaders() (all []protocol.NodeID) {
	for _, n := range w.Nodes {
		if n.Up && n.Token != 0 {
			all = append(all, n.ID)
		}
	}
	return all
}

// Random starts all, runs random faults for a while, ends them, and goes on for 20 s without
// faults.
func (w *World[M]) Random(seed uint64) {
	chance := rand.New(rand.NewPCG(seed, 1))
	w.Fsync = func(int) time.Duration { return time.Duration(chance.IntN(20)) * time.Millisecond }
	w.Fails = func() bool { return chance.IntN(20) == 0 }
	w.Copies = func(int, int) int { return [...]int{0, 1, 1, 1, 1, 1, 1, 1, 1, 2}[chance.IntN(10)] }
	w.Delay = func() time.Duration {
		d := time.Duration(chance.IntN(30)) * time.Millisecond
		if chance.IntN(50) == 0 {
			d *= 50
		}
		return d
	}
	all := len(w.Nodes)
	w.StandAll()
	cut := map[[2]int]bool{}
	w.Cut = func(from, to int) bool { return cut[[2]int{from, to}] }
	for range 60 {
		i, j := chance.IntN(all), chance.IntN(all)
		switch chance.IntN(6) {
		case 0:
			w.Kill(i)
		case 1, 2:
			if !w.Nodes[i].Up {
				w.Stand(i)
			}
		case 3:
			cut[[2]int{i, j}] = chance.IntN(2) == 0
		case 4:
			w.Do(i, [...]protocol.Verb{protocol.Resign, protocol.Withdraw, protocol.Sicken, protocol.Pause}[chance.IntN(4)])
		case 5:
			w.Do(i, [...]protocol.Verb{protocol.Campaign, protocol.Recover, protocol.Resume}[chance.IntN(3)])
		}
		w.Run(time.Duration(chance.IntN(400)) * time.Millisecond)
	}
	w.perfect()
	for i := range w.Nodes {
		if !w.Nodes[i].Up {
			w.Start(i)
		}
		for _, v := range []protocol.Verb{protocol.Campaign, protocol.Recover, protocol.Resume} {
			w.Do(i, v)
		}
	}
	w.Run(20 * time.Second)
}
