package runtime

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// steady is a machine that answers each message, and whose lease each message renews if
// renews.
type steady struct {
	puppet
	renews bool
	view   protocol.View
}

func (m *steady) Step(in *protocol.Input, fx *protocol.Effects) {
	if m.renews {
		m.view.LeaseEnd = in.Now.Boot
	}
	send(fx, "n2", "ack", 0)
}
func (m *steady) NextFire() protocol.Instant { return protocol.Never }
func (m *steady) View() protocol.View        { return m.view }

type nowhere struct{}

func (nowhere) Send(*protocol.Send) {}

// BenchmarkMessage is a turn that a heartbeat, or its answer, takes.
func BenchmarkMessage(b *testing.B) {
	for _, renews := range []bool{false, true} {
		b.Run(map[bool]string{false: "follower", true: "leader"}[renews], func(b *testing.B) {
			r := New(Config{Transport: nowhere{}, Late: time.Hour})
			r.machine = &steady{renews: renews, view: protocol.View{Role: protocol.Follower}}
			t := &turns{r: r, busy: make(chan struct{}, 1)}
			r.inbox.help(t.help)
			var m protocol.Message
			b.ReportAllocs()
			for b.Loop() {
				r.Receive("n2", &m, 0, 0)
			}
		})
	}
}
