package queue_test

import (
	"testing"
	"testing/synctest"

	"github.com/electd/elect/driver"
)

// TestProbe: a probe measures reads and writes, also while somebody leads, and leaves neither a session nor an entry.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := open(t, s, 0, "e", "a")
		m, err := a.Elector.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		before := len(s.sessions)
		p, err := a.Elector.(driver.Prober).Probe(t.Context())
		if err != nil || len(p.Reads) != 20 || len(p.Writes) != 20 || p.Unwritten != "" {
			t.Errorf("%+v, %v; want 20 reads and writes", p, err)
		}
		if len(s.sessions) != before || m.Check() != nil {
			t.Errorf("%d sessions, %v; want %d, and that it leads on", len(s.sessions), m.Check(), before)
		}
		if err := m.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := a.Elector.Close(); err != nil {
			t.Error(err)
		}
	})
}
