package register_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
)

// measured returns the requests of a participant by operation and result.
func measured(e driver.Elector) map[string]driver.RequestMeasurements {
	all := map[string]driver.RequestMeasurements{}
	for _, r := range e.(driver.Measurer).Measure().Requests {
		all[r.Op+" "+r.Result] = r
	}
	return all
}

// TestMeasured: each request is counted with its time and its result. A read that waits for those of other elections is
// not.
func TestMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{incarnation: "1"}
		l := newLine(k)
		a := participant(t, l, l, 0, "e", "a")
		defer closed(t, a)
		if got := a.Elector.(driver.Measurer).Measure().Requests; got == nil || len(got) > 0 {
			t.Errorf("before the first answer: %v; want an empty list", got)
		}
		if _, err := campaign(t, a, time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait() // for an answer of this instant
		got := measured(a.Elector)
		for _, what := range []string{"read done", "write done"} {
			r := got[what]
			if r.Count == 0 || r.Sum != time.Duration(r.Count)*2*storetest.Takes || r.Within[time.Millisecond] != 0 || r.Within[5*time.Millisecond] != r.Count || r.Within[2500*time.Millisecond] != r.Count {
				t.Errorf("%s: %+v; want that each took %v", what, r, 2*storetest.Takes)
			}
		}
		if n := got["write done"].Count; n < 20 || len(got) != 2 {
			t.Errorf("a leader whose lease is 1 s has done %d writes in 10 s; want 20 or more, and no other results in %v", n, got)
		}
		renewals := func() uint64 { return a.Elector.(driver.Measurer).Measure().Renewals }
		before := renewals()
		if n := got["write done"].Count; before+1 < n-1 || before > n {
			t.Errorf("%d renewals in %d writes; want all but the first one, which wins", before, n)
		}
		l.Cut(true)
		time.Sleep(4 * storetest.Takes) // an answer may be on its way
		synctest.Wait()
		before = renewals()
		time.Sleep(3 * time.Second)
		if now := renewals(); now != before {
			t.Errorf("%d renewals, and %d while no answer comes; want none", before, now)
		}
		lost := measured(a.Elector)["write unknown"]
		if lost.Count == 0 || lost.Within[25*time.Millisecond] != 0 {
			t.Errorf("writes without an answer: %+v; want some, by their timeout", lost)
		}
		l.Cut(false)

		s := sharing{watched{newLine(k)}, make(chan struct{}, 1000)}
		b, err := register.New(s, register.Config{Config: drive.Config{Name: "e", ID: "b", Now: storetest.Now}, Lease: time.Second, MaxLease: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer closed(t, electtest.Participant{Elector: b})
		time.Sleep(10 * time.Second)
		if got := measured(b); len(s.waits) < 5 || got["read done"].Count > 5 || got["read done"].Sum > 5*2*storetest.Takes {
			t.Errorf("%d reads that waited, and %v; want the times of the others only", len(s.waits), got)
		}
	})
}
