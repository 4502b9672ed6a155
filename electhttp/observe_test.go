package electhttp_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/store/memory"
)

// However many clients there are, the back end has one subscription.
func TestOneSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := join(t, memory.NewStore(0), "a", electhttp.Config{})
		p.win(t)
		for range 50 {
			follow(t, p, "")
			for _, path := range []string{"/leader", "/readyz", "/livez", "/v1/elections/job"} {
				ask(p, "GET", path, "")
			}
		}
		synctest.Wait()
		if n := p.watches.Load(); n != 1 {
			t.Errorf("%d subscriptions, want 1", n)
		}
		if err := p.Attach(p.election); err == nil {
			t.Error("a second Attach succeeded")
		}
	})
}

// Without a lease the back end polls. It is observed while clients need the state, and a little longer.
func TestObservedWhenNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a := join(t, store, "a", electhttp.Config{})
		b := joinAs(t, store, "b", electhttp.Config{Sidecar: true}, func(o observed) driver.Elector { return leaseless{o} })
		is := func(open, all int32) {
			t.Helper()
			synctest.Wait()
			if b.open.Load() != open || b.watches.Load() != all {
				t.Errorf("%d subscriptions are open, and %d were; want %d, %d", b.open.Load(), b.watches.Load(), open, all)
			}
		}
		is(0, 0)
		b.wants(t, map[string]int{"/leader": 503, "/follower": 200, "/livez": 200})
		is(0, 0)
		term := a.win(t)
		for range 3 {
			b.wants(t, map[string]int{"/readyz": 503, "/v1/elections/job": 200})
		}
		is(1, 1)
		time.Sleep(time.Second)
		is(0, 1)
		if got := ask(b, "GET", "/", "").Body.String(); got != `{"name":"a"}`+"\n" {
			t.Errorf("the sidecar says %s", got)
		}
		is(1, 2)
		time.Sleep(time.Second)
		_ = term.Release(t.Context())
		client := follow(t, b, "") // whose first event is the present state
		if _, data := client.next(t); !strings.Contains(data, `"leader":null,"stale":false`) {
			t.Errorf("the first event: %s", data)
		}
		time.Sleep(time.Minute)
		is(1, 3)
		begun := time.Now()
		a.win(t)
		for line := range client.line {
			if strings.Contains(line, `"leader":{"id":"a"`) {
				break
			}
		}
		if took := time.Since(begun); took > 50*time.Millisecond {
			t.Errorf("an event took %v", took)
		}
		client.stop()
		time.Sleep(time.Second)
		is(0, 3)

		b.hangs.Store(true)
		begun = time.Now()
		want := `"leader":{"id":"a","token":"2","since":"2000-01-01T00:01:02Z"},"stale":true,"cause":"the back end has not yet answered"`
		if got := ask(b, "GET", "/v1/elections/job", "").Body.String(); !strings.Contains(got, want) || time.Since(begun) != time.Second {
			t.Errorf("from a back end that hangs, after %v: %s\n\twant %s", time.Since(begun), got, want)
		}
	})
}

// A campaign that is called off makes the participant idle.
func TestWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, b := join(t, store, "a", electhttp.Config{}), join(t, store, "b", electhttp.Config{})
		a.win(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = b.election.Campaign(ctx) }()
		for _, want := range []string{"candidate", "idle"} {
			synctest.Wait()
			if got := ask(b, "GET", "/v1/elections/job", "").Body.String(); !strings.Contains(got, `"state":"`+want+`"`) {
				t.Errorf("%s\twant the state %s", got, want)
			}
			cancel()
		}
	})
}

// A leader without a lease has no time left to show.
func TestNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := joinAs(t, memory.NewStore(0), "a", electhttp.Config{}, func(o observed) driver.Elector { return leaseless{o} })
		p.win(t)
		if got := ask(p, "GET", "/v1/elections/job", "").Body.String(); !strings.Contains(got, `"state":"leader"}`) {
			t.Error(got)
		}
	})
}
