package register_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/internal/register"
)

// TestProbe: a probe measures reads and writes, writes nothing while somebody leads, and makes nobody lead earlier: what
// it creates is waited for as if a candidate had created it.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{incarnation: "1"}
		a, b := open(t, k, 0, "e", "a"), open(t, k, 0, "e", "b")
		defer closed(t, a)
		defer closed(t, b)
		probe := func() driver.Probe {
			t.Helper()
			p, err := a.Elector.(driver.Prober).Probe(t.Context())
			if err != nil || len(p.Reads) == 0 || p.Reads[0] != 2*storetest.Takes {
				t.Fatalf("%+v, %v; want reads of %v", p, err, 2*storetest.Takes)
			}
			return p
		}
		if p := probe(); len(p.Writes) != 20 || p.Writes[0] != 2*storetest.Takes {
			t.Errorf("%+v; want 20 writes of %v", p, 2*storetest.Takes)
		}
		s, err := register.Summarize(k.get().Text)
		if err != nil || s.Holder != "" || s.Freed || s.Lease != 2*time.Second {
			t.Errorf("%+v, %v; want a record without a holder and a mark, with the longest lease", s, err)
		}
		begun := time.Now()
		m, err := campaign(t, b, time.Minute)
		if took := time.Since(begun); err != nil || took < 2*time.Second {
			t.Errorf("%v, after %v; want a leader, after the longest lease", err, took)
		}
		text := k.get().Text
		if p := probe(); len(p.Writes) != 0 || p.Unwritten != "b leads" || m.Check() != nil {
			t.Errorf("%+v; want no write while b leads", p)
		}
		if got := k.get().Text; got != text && register.News(text, got) {
			t.Errorf("the record was %s, and is %s", text, got)
		}
		if err := m.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := probe(); len(p.Writes) != 20 {
			t.Errorf("%+v; want writes of a record that is free", p)
		}
		if n, err := campaign(t, b, 100*time.Millisecond); err != nil || n.Token() <= m.Token() { // it is free at once all the same
			t.Errorf("%v", err)
		}
	})
}
