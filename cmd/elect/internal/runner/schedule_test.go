//go:build unix

package runner

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/lines"
	"github.com/electd/elect/store/memory"
)

// The time of day is that of the zone, also when the clocks are set: what is skipped is later, what is there twice is
// once.
func TestScheduleNext(t *testing.T) {
	sunday := []time.Weekday{time.Sunday}
	for _, c := range []struct {
		zone, at string
		days     []time.Weekday
		now      string
		want     []string // one after the other
	}{
		{"UTC", "02:30", nil, "2026-11-28T02:30:00Z", []string{"2026-11-29T02:30:00Z", "2026-11-30T02:30:00Z"}},
		{"UTC", "02:30", sunday, "2026-11-28T12:00:00Z", []string{"2026-11-29T02:30:00Z", "2026-12-06T02:30:00Z"}},
		{"UTC", "00:00", sunday, "2026-11-28T23:59:59Z", []string{"2026-11-29T00:00:00Z", "2026-12-06T00:00:00Z"}},
		{"Asia/Tokyo", "02:30", sunday, "2026-11-28T12:00:00Z", []string{"2026-11-28T17:30:00Z"}},
		{"Pacific/Kiritimati", "02:30", sunday, "2026-11-28T12:00:00Z", []string{"2026-11-28T12:30:00Z"}},
		{"Pacific/Pago_Pago", "23:30", sunday, "2026-11-28T12:00:00Z", []string{"2026-11-30T10:30:00Z"}},
		{"Europe/Berlin", "02:30", nil, "2026-03-28T00:00:00Z", []string{"2026-03-28T01:30:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"}},
		{"Europe/Berlin", "02:30", nil, "2026-10-24T00:00:00Z", []string{"2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		{"Europe/Berlin", "12:00", nil, "2026-03-28T12:00:00Z", []string{"2026-03-29T10:00:00Z"}},
		{"Europe/Berlin", "12:00", nil, "2026-10-24T12:00:00Z", []string{"2026-10-25T11:00:00Z"}},
		{"America/New_York", "02:30", nil, "2026-03-07T12:00:00Z", []string{"2026-03-08T07:30:00Z", "2026-03-09T06:30:00Z"}},
		{"America/New_York", "01:30", nil, "2026-10-31T12:00:00Z", []string{"2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"}},
		{"Africa/Cairo", "00:30", nil, "2026-04-23T12:00:00Z", []string{"2026-04-23T22:30:00Z", "2026-04-24T21:30:00Z"}},
		{"Pacific/Apia", "12:00", nil, "2011-12-29T12:00:00Z", []string{"2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z"}},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, _ := time.Parse("15:04", c.at)
		now, _ := time.Parse(time.RFC3339, c.now)
		s := &Schedule{Hour: at.Hour(), Minute: at.Minute(), Days: c.days, Zone: zone}
		for _, want := range c.want {
			now = s.Next(now)
			if got := now.UTC().Format(time.RFC3339); got != want {
				t.Errorf("%s in %s, %v: %s; want %s", c.at, c.zone, c.days, got, want)
			}
		}
	}
}

// A leader hands over at the time to the one that is named, but not before its tenure is over, and not to one that
// cannot.
func TestHandOvers(t *testing.T) {
	for name, c := range map[string]struct {
		to, says string
		tenure   time.Duration
		waits    bool // the other candidate
		led      time.Duration
	}{
		"named":        {to: "b", waits: true, led: 150 * time.Minute, says: "handing over to b: it is Sat 02:30 UTC"},
		"best":         {waits: true, led: 150 * time.Minute, says: "handing over to the best candidate: it is Sat 02:30 UTC"},
		"paused":       {to: "b", says: "no handover to b at Sat 02:30 UTC"},
		"itself":       {to: "a", waits: true},
		"tenure":       {to: "b", waits: true, tenure: 3 * time.Hour, led: 26*time.Hour + 30*time.Minute, says: "no handover at Sat 02:30 UTC: it has led for 2h30m0s, and its tenure is 3h0m0s"},
		"tenure ended": {to: "b", waits: true, tenure: 2 * time.Hour, led: 150 * time.Minute, says: "handing over to b"},
	} {
		t.Run(name, func(t *testing.T) {
			log, err := os.Create(filepath.Join(t.TempDir(), "log"))
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			synctest.Test(t, func(t *testing.T) { // it begins on a Saturday at 00:00 UTC
				store, begun := memory.NewStore(0), time.Now()
				join := func(id string) *elect.Election {
					link, err := store.New("job", id, memory.Config{Lease: time.Minute})
					if err != nil {
						t.Fatal(err)
					}
					e, err := elect.New(link, elect.Config{})
					if err != nil {
						t.Fatal(err)
					}
					return e
				}
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				r := &run{cfg: Config{Name: "job", ID: "a", Tenure: c.tenure, Transfer: &Schedule{Hour: 2, Minute: 30, Zone: time.UTC, To: c.to}}, say: lines.New(log, lines.Form{}), election: join("a")}
				var led time.Duration
				all.Go(func() {
					_ = r.election.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
						r.mu.Lock()
						r.token, r.since = term.Token(), time.Now()
						r.mu.Unlock()
						<-ctx.Done()
						r.mu.Lock()
						r.token = 0
						r.mu.Unlock()
						if led == 0 {
							led = time.Since(begun)
						}
						return nil
					})
				})
				synctest.Wait()
				b := join("b")
				if c.waits {
					all.Go(func() {
						_ = b.Lead(ctx, func(ctx context.Context, _ *elect.Term) error { <-ctx.Done(); return nil })
					})
				}
				all.Go(func() { r.handOvers(ctx) })
				time.Sleep(48 * time.Hour)
				stop()
				all.Wait()
				_ = r.election.Close()
				_ = b.Close()
				want := c.led
				if want == 0 {
					want = 48 * time.Hour
				}
				r.say.Close()
				text, err := os.ReadFile(log.Name())
				if said := string(text); err != nil || led.Truncate(time.Minute) != want || !strings.Contains(said, c.says) || c.says == "" && said != "" {
					t.Errorf("it led for %v; want %v; it said %q; want %q", led, want, said, c.says)
				}
			})
		})
	}
}

// TestNoHandoverInTurn: candidates with the same setting and clocks that differ hand over once, and not back.
func TestNoHandoverInTurn(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		terms := make(chan string, 100)
		for i, id := range []string{"a", "b"} {
			link, err := store.New("job", id, memory.Config{Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			e, err := elect.New(link, elect.Config{})
			if err != nil {
				t.Fatal(err)
			}
			behind := time.FixedZone("", -i) // by a second
			r := &run{cfg: Config{Name: "job", ID: id, Transfer: &Schedule{Hour: 2, Minute: 30, Zone: behind}}, say: lines.New(log, lines.Form{}), election: e}
			all.Go(func() {
				defer e.Close()
				defer r.say.Close()
				_ = e.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
					terms <- id
					r.mu.Lock()
					r.token, r.since = term.Token(), time.Now()
					r.mu.Unlock()
					<-ctx.Done()
					r.mu.Lock()
					r.token = 0
					r.mu.Unlock()
					return nil
				})
			})
			all.Go(func() { r.handOvers(ctx) })
			synctest.Wait()
		}
		time.Sleep(51 * time.Hour) // it begins on a Saturday at 00:00 UTC
		stop()
		all.Wait()
		if n := len(terms); n != 4 {
			t.Errorf("%d terms; want one, and one more after each of three handovers", n)
		}
	})
}
