package electtest_test

import (
	"testing"
	"time"

	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/store/memory"
)

// The test of a back end is one call. This back end can have every fault, and waits on timers and
// channels only.
func ExampleRun() {
	testConformance := func(t *testing.T) { // TestConformance, in a test file
		var store *memory.Store
		var of testing.TB
		electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant {
			if of != t { // a store for each case
				store, of = memory.NewStore(0), t
			}
			e, err := store.New(name, id, memory.Config{Lease: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			return electtest.Participant{
				Elector: e,
				Freeze:  e.Freeze, Cut: e.Cut, Crash: e.Crash, Lose: e.LoseAnswers, Delay: e.DelayAnswer,
			}
		}, electtest.Config{
			Bubble:   true,
			Restart:  func(testing.TB) { store.Restart() },
			Recreate: func(testing.TB) { store.Recreate() },
		})
	}
	_ = testConformance
}

// A back end without a store and without a clock has no such faults, and gives the reason.
func ExampleConfig_cannot() {
	_ = electtest.Config{Cannot: map[electtest.Fault]string{
		electtest.Cut:  "a process cannot be cut off from its own kernel",
		electtest.Lose: "a system call's answer does not get lost",
	}}
}
