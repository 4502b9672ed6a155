package kubernetes

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// TestRestoredLease: tokens rise after the Lease was deleted, also if somebody makes it again from an older manifest, or
// if a candidate of client-go takes the new one before a candidate of elect may. No participant is left that has seen
// the tokens before.
func TestRestoredLease(t *testing.T) {
	const path = leases + "e"
	manifest := func(s *server) (o map[string]any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		text, _ := json.Marshal(s.leases[path])
		_ = json.Unmarshal(text, &o)
		delete(meta(o), "uid")
		delete(meta(o), "resourceVersion")
		return o
	}
	made := func(s *server, o map[string]any) {
		s.delete(path)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.create(path, o)
	}
	seized := func(lease map[string]any) {
		specOf(lease)["holderIdentity"], specOf(lease)["leaseDurationSeconds"] = "pod-1_0f", 1.0
		specOf(lease)["leaseTransitions"] = specOf(lease)["leaseTransitions"].(float64) + 1
	}
	for name, again := range map[string]func(t *testing.T, s *server, held, free map[string]any){
		"made again as it was free": func(_ *testing.T, s *server, _, free map[string]any) { made(s, free) },
		"made again as it was held": func(_ *testing.T, s *server, held, _ map[string]any) { made(s, held) },
		"made again, and seized": func(t *testing.T, s *server, _, free map[string]any) {
			made(s, free)
			s.edit(t, seized)
		},
		"new, and seized": func(t *testing.T, s *server, _, _ map[string]any) {
			s.delete(path)
			b := s.open(t, 0, "e", "b")
			ctx, end := context.WithTimeout(t.Context(), time.Second) // it makes the Lease, and waits for two
			defer end()
			if m, err := b.Campaign(ctx, driver.Candidacy{Exclusive: true}); m != nil {
				t.Errorf("it leads at once (%v)", err)
			}
			closed(t, b)
			s.edit(t, seized)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				a := s.open(t, 0, "e", "a")
				var held, free map[string]any
				var last fence.Token
				for range 3 {
					m := wins(t, a)
					if last = m.Token(); held == nil {
						held = manifest(s)
					}
					_ = m.Release(t.Context())
					if free == nil {
						free = manifest(s)
					}
				}
				closed(t, a)
				again(t, s, held, free)
				c := s.open(t, 0, "e", "c")
				defer closed(t, c)
				m := wins(t, c)
				if m.Token() <= last {
					t.Errorf("token %v after %v", m.Token(), last)
				}
				_ = m.Release(t.Context())
			})
		})
	}
}
