package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/internal/queue"
)

// TestAgreement: the store of these tests is the one that the machines are simulated with.
func TestAgreement(t *testing.T) { agrees(t, storetest.Queue, open) }

func agrees(t *testing.T, cases []storetest.Case, open func(t testing.TB, s *store, era uint64, name, id string) electtest.Participant) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				s.lag = 0
				var all [storetest.Participants]electtest.Participant
				for i := range all {
					all[i] = open(t, s, 0, "e", fmt.Sprintf("n%d", i+1))
					defer all[i].Elector.Close()
				}
				n := uint64(1 << 32) // far from the numbers of the machine, which asks nothing before it campaigns
				c.Run(t, storetest.Store{
					Ask: func(by int, a protocol.Ask) func() protocol.Answer {
						n++
						a.Number = n
						e, answer := all[by].Elector.(*queue.Elector), make(chan protocol.Answer, 1)
						e.Run.Call(func() { e.Ask(a, func(a protocol.Answer) { answer <- a }) })
						return func() protocol.Answer { return <-answer }
					},
					Lose: func(by int) { all[by].Lose(1) },
					Delete: func(e protocol.Entry) {
						_ = s.do(func() error {
							s.entries = slices.DeleteFunc(s.entries, func(x entry) bool { return x.Order == e.Order })
							s.commit()
							return nil
						})
					},
					Wait: func() { time.Sleep(100 * time.Millisecond) },
				})
				for id := range s.sessions { // whose timers would outlive the bubble
					_ = s.do(func() error { s.drop(id); return nil })
				}
			})
		})
	}
}
