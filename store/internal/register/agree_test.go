package register_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
)

// TestAgreement: the store of these tests is the one that the machines are simulated with.
func TestAgreement(t *testing.T) {
	for _, c := range storetest.Register {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &kept{incarnation: "1"}
				var lines [storetest.Participants]*line
				var all [storetest.Participants]*register.Elector
				for i := range all {
					lines[i] = newLine(k)
					var err error
					if all[i], err = register.New(lines[i], register.Config{
						Config: drive.Config{Name: "e", ID: fmt.Sprintf("n%d", i+1), Now: storetest.Now}, Lease: time.Hour, MaxLease: time.Hour,
					}); err != nil {
						t.Fatal(err)
					}
					defer all[i].Close()
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
					Delete: func(protocol.Entry) { k.set("", "1") },
					Wait:   func() { time.Sleep(100 * time.Millisecond) },
				})
			})
		})
	}
}
