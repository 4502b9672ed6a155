package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
)

func wins(t *testing.T, p electtest.Participant) driver.Mandate {
	t.Helper()
	m, err := p.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func closed(t *testing.T, p electtest.Participant) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// spec is what a native sees of the Lease of the election "e".
func (s *server) spec(t *testing.T) native {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := json.Marshal(s.leases[leases+"e"]["spec"])
	if err != nil {
		t.Fatal(err)
	}
	var n native
	if err := json.Unmarshal(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// edit writes the spec as another program does, which keeps what it does not know of.
func (s *server) edit(t *testing.T, do func(lease map[string]any)) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := json.Marshal(s.leases[leases+"e"])
	if err != nil {
		t.Fatal(err)
	}
	var o map[string]any
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	do(o)
	if resp := s.update(leases+"e", o); resp.StatusCode != 200 {
		t.Fatalf("%d", resp.StatusCode)
	}
}

func specOf(lease map[string]any) map[string]any { return lease["spec"].(map[string]any) }

// TestNativesSee: other programs see each renewal as a new second, a duration of whole seconds that is not below the
// lease, one more transition with each tenure, a holder that is that of no other tenure, and no holder after a release.
// What others have written into the Lease stays.
func TestNativesSee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a := s.open(t, 0, "e", "a")
		defer closed(t, a)
		m := wins(t, a)
		s.edit(t, func(lease map[string]any) { meta(lease)["labels"] = map[string]any{"team": "jobs"} })
		was := s.spec(t)
		for range 6 {
			time.Sleep(300 * time.Millisecond) // renewals are 250 ms apart
			is := s.spec(t)
			if !is.RenewTime.After(was.RenewTime) || !is.RenewTime.Equal(is.RenewTime.Truncate(time.Second)) || is.HolderIdentity != was.HolderIdentity || is.LeaseTransitions != was.LeaseTransitions || !is.AcquireTime.Equal(was.AcquireTime) {
				t.Fatalf("%+v after %+v; want a later whole second, and nothing else", is, was)
			}
			if is.LeaseDurationSeconds != 1 || !strings.HasPrefix(is.HolderIdentity, "a_") {
				t.Errorf("%+v; want a lease of 1 s of a", is)
			}
			was = is
		}
		if err := m.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if is := s.spec(t); is.HolderIdentity != "" || is.LeaseTransitions != was.LeaseTransitions || is.LeaseDurationSeconds < was.LeaseDurationSeconds {
			t.Errorf("%+v after a release of %+v", is, was)
		}
		n := wins(t, a)
		if is := s.spec(t); is.HolderIdentity == was.HolderIdentity || is.LeaseTransitions != was.LeaseTransitions+1 {
			t.Errorf("%+v of a second tenure after %+v", is, was)
		}
		if labels := fmt.Sprint(meta(s.leases[leases+"e"])["labels"]); labels != "map[team:jobs]" {
			t.Errorf("labels %s; want them to stay", labels)
		}
		if err := n.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestNewLeaseIsNotFree: other programs take a Lease without a holder at once, so a new one has a holder while elect's
// candidates wait for the leader of one that was deleted.
func TestNewLeaseIsNotFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a := s.open(t, 0, "e", "a")
		defer closed(t, a)
		won := make(chan driver.Mandate)
		began := time.Now()
		go func() { won <- wins(t, a) }()
		time.Sleep(time.Second)
		if is := s.spec(t); is.HolderIdentity == "" || is.LeaseDurationSeconds != 2 {
			t.Errorf("%+v; want a holder for the longest lease", is)
		}
		m := <-won
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("it leads after %v; want the longest lease, 2 s", took)
		}
		_ = m.Release(t.Context())
	})
}

// TestDeletedWhileRenewing: a renewal that lands after the Lease was deleted does not make it again, held by a leader
// of which nobody knows.
func TestDeletedWhileRenewing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a := s.open(t, 0, "e", "a")
		m := wins(t, a)
		l := a.Elector.(*elector).lease
		k, err := l.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a.Cut(true)
		s.delete(leases + "e")
		other := &lease{api: l.api, namespace: "jobs", name: "e", longest: l.longest}
		other.api, _ = s.at()
		other.latest = l.latest
		if _, err := other.Write(t.Context(), k.Version, k.Text); !errors.Is(err, register.ErrConflict) {
			t.Errorf("%v; want a conflict", err)
		}
		if s.leases[leases+"e"] != nil {
			t.Error("the Lease was made again by a renewal")
		}
		a.Cut(false)
		<-m.Context().Done()
		_ = m.Release(t.Context())
		closed(t, a)
	})
}

// TestForeignHolder: a leader of another program is waited for, shown, and not asked; an emptied Lease is waited for,
// and tokens rise over it all, even without the annotation.
func TestForeignHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a := s.open(t, 0, "e", "a")
		defer closed(t, a)
		m := wins(t, a)
		_ = m.Release(t.Context())
		last := m.Token()
		waits := []time.Duration{5 * time.Second, 5 * time.Second, 5 * time.Second, 2 * time.Second} // emptied: the longest one seen
		for step, do := range []func(lease map[string]any){
			func(lease map[string]any) {
				specOf(lease)["holderIdentity"], specOf(lease)["leaseDurationSeconds"] = "pod-1_0f", 5
				specOf(lease)["leaseTransitions"] = specOf(lease)["leaseTransitions"].(float64) + 1
			},
			func(lease map[string]any) {
				specOf(lease)["holderIdentity"], specOf(lease)["leaseDurationSeconds"] = "a b", 5
			},
			func(lease map[string]any) { // as client-go lets go, after it has led
				specOf(lease)["leaseDurationSeconds"] = 1
				specOf(lease)["leaseTransitions"] = specOf(lease)["leaseTransitions"].(float64) + 1
			},
			func(lease map[string]any) {
				specOf(lease)["holderIdentity"] = "x"
				delete(meta(lease), "annotations")
				delete(specOf(lease), "leaseDurationSeconds")
			},
		} {
			s.edit(t, do)
			began := time.Now()
			time.Sleep(100 * time.Millisecond)
			is := s.spec(t)
			for state, err := range a.Watch(t.Context()) {
				if leads := state.Leader != nil; err != nil || leads != (is.HolderIdentity != "") || step == 0 && state.Leader.ID != "pod-1_0f" {
					t.Errorf("step %d: %+v, %v", step, state.Leader, err)
				}
				break
			}
			if err := a.Elector.(driver.Resigner).Resign(t.Context(), 0); is.HolderIdentity != "" && !errors.Is(err, driver.ErrUnsupported) {
				t.Errorf("step %d: %v; want a foreign leader not to be asked", step, err)
			}
			n := wins(t, a)
			if took := time.Since(began); took < waits[step] || took > waits[step]+time.Second {
				t.Errorf("step %d: it leads after %v; want %v", step, took, waits[step])
			}
			if n.Token() <= last {
				t.Errorf("step %d: token %v after %v", step, n.Token(), last)
			}
			last = n.Token()
			_ = n.Release(t.Context())
		}
	})
}

// TestThrottled: after 429 nothing is sent before the time that the server names, by no election of the client, and a
// leader whose renewals are throttled for less than its lease leads on.
func TestThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		at, _ := s.at()
		open := func(id string) *elector {
			e, err := newElector(t.Context(), at, "e", id, Config{Namespace: "jobs", Lease: 20 * time.Second, MaxLease: 20 * time.Second}, drive.Config{Now: storetest.Now})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		a, b := open("a"), open("b")
		defer a.Close()
		defer b.Close()
		m, err := a.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		s.set(func() { s.throttle, s.after = 1, "4"; clear(s.requests) })
		confirmed := make(chan error)
		go func() { confirmed <- m.(driver.Confirmer).Confirm(t.Context()) }()
		time.Sleep(3500 * time.Millisecond)
		s.mu.Lock()
		sent := s.requests["GET"] + s.requests["PUT"]
		s.mu.Unlock()
		if sent != 1 {
			t.Errorf("%d requests while it throttles; want the refused one", sent)
		}
		if err := <-confirmed; err != nil {
			t.Errorf("%v; want it to lead on", err)
		}
		if err := m.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestThrottledByNoWallClock: a clock that is set back while Kubernetes throttles must not block requests for as long.
func TestThrottledByNoWallClock(t *testing.T) {
	at, _ := newServer(t).at()
	_ = at.refused(refuse(http.StatusTooManyRequests, "TooManyRequests", "", "later"), nil)
	if until := at.until.Load().String(); !strings.Contains(until, " m=") {
		t.Errorf("no request is sent before %s; want an instant of the monotonic clock", until)
	}
}

// TestWatched: a release is heard of long before the next read. A history that was forgotten (410) and a restart begin
// the watch anew, a late watch costs time only, and without the right to watch there is polling.
func TestWatched(t *testing.T) {
	for name, fault := range map[string]func(s *server){
		"nothing":   func(*server) {},
		"restart":   func(s *server) { s.restart() },
		"late":      func(s *server) { s.set(func() { s.lag = 3 * time.Second }) },
		"forbidden": func(s *server) { s.set(func() { s.denied = []string{"watch"} }) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				open := func(id string, poll time.Duration) *elector {
					at, _ := s.at()
					if name == "forbidden" {
						fault(s)
					}
					e, err := newElector(t.Context(), at, "e", id, Config{Namespace: "jobs", Lease: time.Minute, MaxLease: time.Minute, Poll: poll}, drive.Config{Now: storetest.Now})
					if err != nil {
						t.Fatal(err)
					}
					return e
				}
				a := open("a", 0)
				defer a.Close()
				m, err := a.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
				if err != nil {
					t.Fatal(err)
				}
				b := open("b", time.Minute)
				defer b.Close()
				won := make(chan driver.Mandate)
				go func() {
					n, err := b.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
					if err != nil {
						t.Error(err)
					}
					won <- n
				}()
				time.Sleep(10 * time.Second)
				if name != "forbidden" {
					fault(s)
				}
				time.Sleep(30 * time.Second)
				was := time.Now()
				if err := m.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				n := <-won
				most := map[string]time.Duration{"late": 4 * time.Second, "forbidden": 95 * time.Second}[name]
				if took := time.Since(was); took > max(most, time.Second) {
					t.Errorf("the next one leads after %v", took)
				}
				_ = n.Release(t.Context())
			})
		})
	}
}

// TestRequestsAtRest: at rest a candidate reads as often as it polls, although the watch shows each renewal, and the
// leader writes four times a lease and reads nothing.
func TestRequestsAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a, b := s.open(t, 0, "e", "a"), s.open(t, 0, "e", "b")
		defer closed(t, a)
		defer closed(t, b)
		m := wins(t, a)
		time.Sleep(time.Second)
		s.set(func() { clear(s.requests) })
		time.Sleep(100 * time.Second)
		s.mu.Lock()
		gets, puts := s.requests["GET"], s.requests["PUT"]
		s.mu.Unlock()
		t.Logf("in 100 leases: %d GET, %d PUT", gets, puts)
		if puts > 405 || puts < 395 || gets > 450 {
			t.Errorf("%d GET, %d PUT in 100 leases; want 400 each", gets, puts)
		}
		_ = m.Release(t.Context())
	})
}

// TestTakeoverByWatch: the watch shows renewals, so that a candidate counts from the last one and not from its read of
// it.
func TestTakeoverByWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		at, _ := s.at()
		a := s.open(t, 0, "e", "a")
		defer closed(t, a)
		e, err := newElector(t.Context(), at, "e", "b", Config{Namespace: "jobs", Lease: time.Second, MaxLease: 2 * time.Second, Poll: time.Hour}, drive.Config{Now: storetest.Now})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		m := wins(t, a)
		won := make(chan driver.Mandate)
		go func() {
			n, err := e.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
			if err != nil {
				t.Error(err)
			}
			won <- n
		}()
		time.Sleep(10 * time.Second)
		if err := m.Check(); err != nil {
			t.Fatalf("%v; want it to lead on, because its renewals are watched", err)
		}
		was := time.Now()
		a.Cut(true)
		n := <-won
		if took := time.Since(was); took > 1100*time.Millisecond {
			t.Errorf("the next one leads after %v; want a lease from the last renewal", took)
		}
		a.Cut(false)
		_ = m.Release(t.Context())
		_ = n.Release(t.Context())
	})
}

// TestRights: missing rights refuse a campaign, which says which ones.
func TestRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a := s.open(t, 0, "e", "a")
		defer closed(t, a)
		s.set(func() { s.denied = []string{"update", "watch"} })
		_, err := a.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
		if !driver.IsPermanent(err) || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "may not update leases in the namespace jobs") {
			t.Errorf("%v; want a refusal", err)
		}
		found, err := a.Elector.(driver.Examiner).Examine(t.Context())
		if err != nil || len(found) != 3 || !found[2].Wrong || !strings.Contains(found[2].Means, "update and watch") {
			t.Errorf("%+v, %v", found, err)
		}
	})
}

// TestStrategy: a Lease whose holder Kubernetes chooses is refused.
func TestStrategy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a := s.open(t, 0, "e", "a")
		defer closed(t, a)
		m := wins(t, a)
		s.edit(t, func(lease map[string]any) { specOf(lease)["strategy"] = "OldestEmulationVersion" })
		<-m.Context().Done()
		_ = m.Release(t.Context())
		at, _ := s.at()
		_, err := newElector(t.Context(), at, "e", "b", Config{Namespace: "jobs"}, drive.Config{Now: storetest.Now})
		if !driver.IsPermanent(err) || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), `spec.strategy "OldestEmulationVersion"`) {
			t.Errorf("%v; want a refusal", err)
		}
	})
}
