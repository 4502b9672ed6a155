package peer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// rig is what drives a machine, between fakes at its four seams: a machine that does
// what the test says, links that record what leaves, a disk whose saves end when the
// test says so, and clocks that show another time at each reading. What passes a seam
// is a line of the record.
type rig struct {
	t      *testing.T
	node   *Node
	link   link.Config    // what the links were made with
	ends   chan error     // what becomes of the save that is under way
	onSend func(s string) // called while a message leaves

	// The machine's, and so the loop's.
	view   protocol.View
	next   protocol.Instant
	steps  []effect // of letters, by their Round
	on     map[protocol.InputKind]effect
	onView func()

	mu      sync.Mutex
	lines   []string
	looks   time.Duration // each reading is a nanosecond later than the one before
	back    time.Duration // how far the clocks were set back
	stepped bool          // saves wait for ends
}

// effect is what an input has the machine do.
type effect func(in *protocol.Input, fx *protocol.Effects)

// inRig runs a test on a node that has begun. Its election has one voter, n1; letters
// come from others, and go to them, all the same.
func inRig(t *testing.T, do func(t *testing.T, r *rig)) {
	t.Helper()
	inVillage(t, 1, func(t *testing.T, v *village) {
		r := newRig(t)
		if err := r.open(v); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * loneFounder)
		r.happens("links", "disk: boot is durable", "incarnation 1", "welcome")
		r.step(true)
		do(t, r)
	})
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, ends: make(chan error), next: protocol.Never, on: map[protocol.InputKind]effect{}}
	t.Cleanup(func() {
		close(r.ends)
		if r.node != nil {
			_ = r.node.Close()
		}
	})
	return r
}

// open opens a node that has the rig's fakes and a place in the village.
func (r *rig) open(v *village) (err error) {
	cfg := v.config("n1")
	cfg.Machine = func(c quorum.Config) (protocol.Machine, error) { return &puppet{r, c}, nil }
	cfg.connect = func(c link.Config) links {
		r.say("links")
		r.link = c
		return rigLinks{r}
	}
	cfg.disk = func(save func([]byte) error) func([]byte) error {
		return func(data []byte) error { return r.save(data, save) }
	}
	cfg.now = r.now
	r.node, err = New(r.t.Context(), cfg)
	return err
}

func (r *rig) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// record returns what has happened since it was called last.
func (r *rig) record() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.lines
	r.lines = nil
	return all
}

// happens expects exactly these lines by the time when nothing goes on any more.
func (r *rig) happens(want ...string) {
	r.t.Helper()
	synctest.Wait()
	if got := r.record(); !slices.Equal(got, want) {
		r.t.Errorf("this happened:\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// now is what the clocks show.
func (r *rig) now() protocol.Reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looks++
	at := protocol.Instant(time.Duration(time.Now().UnixNano()) + r.looks - r.back)
	return protocol.Reading{Boot: at, Mono: at}
}

// letter has a letter arrive that does something to the machine.
func (r *rig) letter(do effect) {
	r.mu.Lock()
	r.steps = append(r.steps, do)
	round := uint64(len(r.steps))
	r.mu.Unlock()
	r.link.Receive("n2", &wire.Letter{Message: protocol.Message{Type: "letter", Round: round}})
}

// step has saves wait for end, or not.
func (r *rig) step(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stepped = on
}

// end ends the save that is under way.
func (r *rig) end(err error) { r.ends <- err }

// save is the disk. It keeps what the machine saves when it boots.
func (r *rig) save(data []byte, keep func([]byte) error) error {
	r.mu.Lock()
	stepped := r.stepped
	r.mu.Unlock()
	var err error
	if stepped {
		err = <-r.ends
	}
	name, isText := strings.CutPrefix(string(data), "save ")
	if !isText {
		name = "boot"
	}
	if err != nil {
		r.say("disk: %s has failed", name)
		return err
	}
	if !isText {
		err = keep(data)
	}
	r.say("disk: %s is durable", name)
	return err
}

// send and save are effects of a step.
func send(fx *protocol.Effects, to protocol.NodeID, what protocol.MessageType, after uint64) {
	fx.Sends = append(fx.Sends, protocol.Send{To: to, After: after, Message: protocol.Message{Type: what}})
}

func save(fx *protocol.Effects, number uint64) {
	fx.Save(number, func(dst []byte) []byte { return fmt.Appendf(dst, "save %d", number) })
}

// puppet is the machine of a rig.
type puppet struct {
	r *rig
	c quorum.Config
}

func (p *puppet) Step(in *protocol.Input, fx *protocol.Effects) {
	r := p.r
	var do effect
	switch in.Kind {
	case protocol.Boot:
		b := quorum.Ballot{Membership: p.c.Membership, MaxPromise: p.c.Promise, Incarnation: 1}
		if was, err := quorum.DecodeBallot(in.Durable); err == nil {
			b.Incarnation += was.Incarnation
		}
		fx.Save(1, b.Append)
		r.view.Role, r.view.Incarnation = protocol.Follower, b.Incarnation
	case protocol.Receive:
		r.mu.Lock()
		do = r.steps[in.Message.Round-1]
		r.mu.Unlock()
	}
	for _, do := range []effect{do, r.on[in.Kind]} {
		if do != nil {
			do(in, fx)
		}
	}
}

func (p *puppet) NextFire() protocol.Instant { return p.r.next }

func (p *puppet) View() protocol.View {
	if p.r.onView != nil {
		p.r.onView()
	}
	return p.r.view
}

func (p *puppet) AppendState(dst []byte) []byte { return dst }
func (p *puppet) LoadState([]byte) error        { return nil }

// rigLinks are the links of a rig.
type rigLinks struct{ r *rig }

func (l rigLinks) Send(to protocol.NodeID, letter *wire.Letter) {
	what := fmt.Sprintf("%s to %s", letter.Message.Type, to)
	if seq := letter.Message.Seq; seq != 0 {
		what = fmt.Sprintf("%s %d to %s", letter.Message.Type, seq, to)
	}
	if l.r.onSend != nil {
		l.r.onSend(what)
	}
	l.r.say("%s", what)
}

func (l rigLinks) SetIncarnation(n uint64) { l.r.say("incarnation %d", n) }
func (l rigLinks) SetPeers(protocol.ConfigID, link.Peers, func(protocol.NodeID) *wire.Refusal) {
}
func (l rigLinks) Announce(*wire.Welcome) { l.r.say("welcome") }
func (l rigLinks) Peers() []link.PeerInfo { return nil }
func (l rigLinks) Close() error           { return nil }
