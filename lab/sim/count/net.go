package count

import (
	"fmt"
	"strconv"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// MaxNodes is the greatest number of machines.
const MaxNodes = 10_000

// patience is the longest time, by their own clocks, that machines may take for anything here. It
// is longer than the longest timeout of any protocol's defaults.
const patience = 5 * time.Minute

// net is n machines and what is under way between them. The place of a machine
// is from 0; its id has one more.
type net struct {
	ids   []protocol.NodeID
	nodes []node
	time  protocol.Instant // that has passed at all of them
	rand  uint64

	queue    hops
	messages messages
	store    store

	// What has been sent since the count began, by type.
	counting bool
	kinds    []Kind

	elected int // the place elected last, -1 if none since clear was called
	leading int // the place told last to lead

	in protocol.Input
	fx protocol.Effects
}

type node struct {
	machine protocol.Machine
	dead    bool
	sent    bool             // something, since it was last cleared
	ahead   protocol.Instant // how far its clock is ahead of the common time
}

// names returns n ids in the order of their places: n1, n2, ….
func names(n int) []protocol.NodeID {
	ids := make([]protocol.NodeID, n)
	for i := range ids {
		ids[i] = protocol.NodeID("n" + strconv.Itoa(i+1))
	}
	return ids
}

// place is the inverse of names.
func place(id protocol.NodeID) int {
	n := 0
	for _, d := range []byte(id[1:]) {
		n = 10*n + int(d-'0')
	}
	return n - 1
}

func newNet(ids []protocol.NodeID, seed uint64, make func(place int) (protocol.Machine, error)) (*net, error) {
	w := &net{ids: ids, nodes: newNodes(len(ids)), rand: seed, elected: none, leading: none}
	w.messages.newer = newLast(len(ids))
	for i := range w.nodes {
		m, err := make(i)
		if err != nil {
			return nil, err
		}
		w.nodes[i].machine = m
	}
	return w, nil
}

func newNodes(n int) []node  { return make([]node, n) }
func newLast(n int) []uint32 { return make([]uint32, n) }

// none is no machine's place.
const none = -1

func (w *net) now(i int) protocol.Instant { return w.time + w.nodes[i].ahead }

// random is splitmix64: a value that is different for each step.
func (w *net) random() uint64 {
	w.rand += 0x9e3779b97f4a7c15
	z := w.rand
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// step hands w.in to a machine and carries out what it wants.
func (w *net) step(i int) {
	n := &w.nodes[i]
	if n.dead {
		return
	}
	now := w.now(i)
	w.in.Now, w.in.Rand = protocol.Reading{Boot: now, Mono: now}, w.random()
	if w.in.Kind == protocol.Boot {
		// Random boot counters would make each answer a different message, and there may be fifty
		// million under way.
		w.in.Rand = 0
	}
	w.fx.Reset()
	n.machine.Step(&w.in, &w.fx)

	saved, stopped := uint64(0), uint64(0)
	var stop bool
	for _, o := range w.fx.Orders {
		switch o.Kind {
		case protocol.Elected:
			w.elected = i
		case protocol.Lead:
			w.leading = i
		case protocol.Stop:
			stop, stopped = true, o.Token
		}
	}
	for _, s := range w.fx.Saves {
		saved = s.Number
	}
	for k := range w.fx.Sends {
		w.send(i, &w.fx.Sends[k])
	}
	for k := range w.fx.Asks {
		n.sent = true
		w.count(Kind{Type: protocol.MessageType(w.fx.Asks[k].Op.String())})
		w.store.ask(i, w.fx.Asks[k])
	}
	// The effects are used up: these steps may reuse them. All saves of a step
	// are one write.
	if saved != 0 {
		w.give(i, protocol.Input{Kind: protocol.Saved, Number: saved})
	}
	if stop {
		w.give(i, protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Joined, Token: stopped}})
	}
}

func (w *net) give(i int, in protocol.Input) {
	w.in = in
	w.step(i)
}

func (w *net) do(i int, v protocol.Verb) {
	w.give(i, protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: v}})
}

func (w *net) send(from int, s *protocol.Send) {
	w.nodes[from].sent = true
	w.count(Kind{Type: s.Message.Type})
	to, id := place(s.To), w.messages.of(from, &s.Message)
	if h := w.queue.last(); h != nil && int(h.from) == from && h.message == id && int(h.to)+int(h.n) == to && h.n < MaxNodes {
		h.n++
		w.messages.drop(id) // the hop has one reference
		return
	}
	w.queue.push(hop{from: uint16(from), to: uint16(to), n: 1, message: id})
}

func (w *net) count(k Kind) {
	if !w.counting {
		return
	}
	for i := range w.kinds {
		if w.kinds[i].Type == k.Type {
			w.kinds[i].Sent++
			return
		}
	}
	k.Sent = 1
	w.kinds = append(w.kinds, k)
}

// deliver delivers all messages, and those that follow from them.
func (w *net) deliver() {
	for {
		for !w.queue.empty() {
			h := w.queue.pop()
			for k := range int(h.n) {
				w.in = protocol.Input{Kind: protocol.Receive, From: w.ids[h.from], Message: w.messages.all[h.message].message}
				w.step(int(h.to) + k)
			}
			w.messages.drop(h.message)
		}
		i, a, ok := w.store.answer()
		if !ok {
			return
		}
		w.give(i, protocol.Input{Kind: protocol.Replied, Answer: a})
	}
}

// fire hands a Fire to a machine, and reports whether one was due. Its clock goes on until then.
func (w *net) fire(i int) bool {
	n := &w.nodes[i]
	at := n.machine.NextFire()
	if n.dead || at == protocol.Never || at > w.now(i).Add(patience) {
		return false
	}
	if d := at - w.now(i); d > 0 {
		n.ahead += d
	}
	w.give(i, protocol.Input{Kind: protocol.Fire})
	return true
}

// due hands in the Fires for which no clock has to go on, until there are none.
func (w *net) due() {
	for again := true; again; {
		again = false
		for i := range w.nodes {
			if n := &w.nodes[i]; !n.dead && n.machine.NextFire() <= w.now(i) {
				w.give(i, protocol.Input{Kind: protocol.Fire})
				w.deliver()
				again = true
			}
		}
	}
}

// alone lets only the clock of i go on until done; the messages that follow arrive.
func (w *net) alone(i int, done func() bool) error {
	for range steps {
		w.deliver()
		if done() {
			return nil
		}
		if !w.fire(i) {
			break
		}
	}
	return fmt.Errorf("%s: nothing comes of it within %v of its clock", w.ids[i], patience)
}

// steps bounds how many timers expire before there is a leader.
const steps = 10_000

// together lets all clocks go on at one pace until done.
func (w *net) together(done func() bool) error {
	from := w.time
	for range steps {
		w.deliver()
		w.due()
		if done() {
			return nil
		}
		next := protocol.Never
		for i := range w.nodes {
			if n := &w.nodes[i]; !n.dead {
				if at := n.machine.NextFire(); at != protocol.Never {
					next = min(next, at-n.ahead)
				}
			}
		}
		if next == protocol.Never || next.Sub(from) > patience {
			break
		}
		w.time = max(w.time, next)
	}
	return fmt.Errorf("no leader within %v", patience)
}

// boot begins the first incarnation of all, one after another.
func (w *net) boot() {
	for i := range w.nodes {
		w.give(i, protocol.Input{Kind: protocol.Boot})
		w.do(i, protocol.Campaign)
	}
}

// clear forgets the elected machine and which machines have sent messages.
func (w *net) clear() {
	w.elected, w.leading = none, none
	for i := range w.nodes {
		w.nodes[i].sent = false
	}
}
