package consul

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/storetest"
)

// TestAgreement: the fake of these tests answers as the simulator's register does, and as a real Consul does by
// TestConsulAgreement in test/fencing/leases.
func TestAgreement(t *testing.T) {
	for _, c := range storetest.Register {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				var lines [storetest.Participants]*line
				var all [storetest.Participants]*elector
				for i := range all {
					cl, l := f.client()
					cl.watches = nil // nobody watches: a read for that would be the one whose answer is lost
					e, err := newElector(t.Context(), cl, "e", fmt.Sprintf("n%d", i+1), Config{Lease: time.Hour, MaxLease: time.Hour, now: storetest.Now}, nil)
					if err != nil {
						t.Fatal(err)
					}
					defer closed(t, e)
					lines[i], all[i] = l, e
				}
				time.Sleep(time.Second) // the machines have read, and do not read again for minutes
				n := uint64(1 << 32)    // far from the numbers of the machine
				c.Run(t, storetest.Store{
					Ask: func(by int, a protocol.Ask) func() protocol.Answer {
						n++
						a.Number = n
						answer := make(chan protocol.Answer, 1)
						all[by].Run.Call(func() { all[by].Ask(a, func(a protocol.Answer) { answer <- a }) })
						return func() protocol.Answer { return <-answer }
					},
					Lose:   func(by int) { lines[by].Lose(1) },
					Delete: func(protocol.Entry) { f.set(func() { delete(f.keys, "e") }) },
					Wait:   func() { time.Sleep(100 * time.Millisecond) },
				})
			})
		})
	}
}
