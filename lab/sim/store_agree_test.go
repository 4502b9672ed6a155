package sim

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/storetest"
)

// TestAgreement: without noise the simulated stores answer as the tables say, which the real ones run
// too (store/internal and test/fencing/leases).
func TestAgreement(t *testing.T) {
	for kind, cases := range map[StoreKind][]storetest.Case{StoreRegister: storetest.Register, StoreEtcd: storetest.Queue, StoreZooKeeper: storetest.ZooKeeper()} {
		t.Run(string(kind), func(t *testing.T) {
			for _, c := range cases {
				t.Run(c.Name, func(t *testing.T) {
					if kind == StoreZooKeeper && c.Name == "an empty queue" {
						t.Skip("a machine lists in a session, and the simulator has no observers")
					}
					d := deskOf(t, storetest.Participants, kind, 1, StoreNoise{})
					c.Run(t, storetest.Store{
						Ask: func(by int, a protocol.Ask) func() protocol.Answer {
							number := d.ask(by, a)
							d.store().noise.Unknown = 0
							return func() protocol.Answer {
								for range 10_000 {
									if all := d.heard(by, number); len(all) > 0 {
										return all[0].answer
									}
									d.wait(time.Millisecond)
								}
								t.Fatalf("no answer to %v", a.Op)
								return protocol.Answer{}
							}
						},
						Lose:   func(int) { d.store().noise.Unknown = 1 },
						Delete: func(e protocol.Entry) { d.store().server.foreign(d.store(), d.w, e.Holder, 0) },
						Wait:   func() { d.wait(100 * time.Millisecond) },
					})
				})
			}
		})
	}
}
