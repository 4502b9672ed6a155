package memory_test

import (
	"testing"
	"time"

	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/store/memory"
)

func TestConformance(t *testing.T) {
	var store *memory.Store
	var of testing.TB
	electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant {
		if of != t {
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
