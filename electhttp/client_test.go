package electhttp_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/store/memory"
)

// TestTooEarly: the longer tenure counts, that of the leader or of who asks.
func TestTooEarly(t *testing.T) {
	led := time.Now().Add(-90 * time.Second)
	for _, c := range []struct {
		own   string
		since time.Time
		least time.Duration
		early bool
	}{
		{"", led, 0, false}, {"1m", led, 0, false}, {"2m0s", led, 0, true}, {"1m", led, 2 * time.Minute, true}, {"2m", led, time.Minute, true},
		{"nonsense", led, 0, false}, {"1h", time.Time{}, time.Hour, false}, {"1s", led.Add(time.Hour), 0, true},
	} {
		l := elect.Leader{ID: "a", Since: c.since, Metadata: map[string]string{electhttp.TenureKey: c.own}}
		if err := electhttp.TooEarly(l, c.least); (err != nil) != c.early {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A Client sees what the Handler says, and gives its orders.
func TestClient(t *testing.T) {
	var paused []bool
	p := join(t, memory.NewStore(0), "a", electhttp.Config{Token: "secret", Pause: func(on bool) error { paused = append(paused, on); return nil }})
	server := httptest.NewServer(p)
	defer server.Close()
	c := &electhttp.Client{URL: server.URL + "/", Token: "secret"}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if leads, err := c.Leads(ctx, "job"); leads || err != nil {
		t.Errorf("%v, %v before it leads", leads, err)
	}
	term := p.win(t)
	var seen electhttp.Status
	var end error
	enough := errors.New("enough")
	for s, err := range c.Watch(ctx, "job") {
		if end = err; err == nil && s.Leader != nil && s.State == "leader" {
			seen = s
			cancel(enough)
		}
	}
	if seen.Leader == nil || seen.Leader.Token != term.Token() || seen.ID != "a" || !errors.Is(end, enough) {
		t.Errorf("%+v, %v", seen, end)
	}
	ctx = t.Context()
	if leads, err := c.Leads(ctx, "job"); !leads || err != nil {
		t.Errorf("%v, %v of the leader", leads, err)
	}
	if s, err := c.Status(ctx, "job"); err != nil || s.Leader == nil || s.Leader.ID != "a" || s.State != "leader" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := errors.Join(c.Pause(ctx, "job"), c.Resume(ctx, "job")); err != nil || len(paused) != 2 || !paused[0] || paused[1] {
		t.Errorf("%v, %v", paused, err)
	}
	for _, err := range []error{c.Resign(ctx, "job", term.Token()+1), c.Transfer(ctx, "job", term.Token()+1, "b")} {
		if refused, ok := errors.AsType[*electhttp.Refusal](err); !ok || refused.Status != 409 || !strings.HasSuffix(refused.Type, "superseded") {
			t.Errorf("%v; want 409, superseded", err)
		}
	}
	if err := term.SetMetadata(ctx, map[string]string{electhttp.TenureKey: "1h"}); err != nil {
		t.Fatal(err)
	}
	for seen.Leader.Metadata == nil {
		seen, _ = c.Status(ctx, "job")
	}
	for _, err := range []error{c.Resign(ctx, "job", 0), c.Transfer(ctx, "job", 0, "b")} {
		if refused, ok := errors.AsType[*electhttp.Refusal](err); !ok || refused.Status != 409 || !strings.HasSuffix(refused.Type, "too-early") {
			t.Errorf("%v; want 409, too early", err)
		}
	}
	c.Now = true
	if err := c.Transfer(ctx, "job", 0, "b"); err == nil || strings.Contains(err.Error(), "tenure") {
		t.Errorf("%v; want that b is no candidate", err)
	}
	if err := c.Resign(ctx, "job", 0); err != nil {
		t.Error(err)
	}
	<-term.Context().Done()
	_ = term.Release(ctx)

	_, err := c.Status(ctx, "other")
	if refused, ok := errors.AsType[*electhttp.Refusal](err); !ok || refused.Status != 404 || err.Error() != "electhttp: 404: there is no such election here; want job" {
		t.Errorf("%v; want 404", err)
	}
	if err := (&electhttp.Client{URL: server.URL}).Resign(ctx, "job", 0); err == nil || !strings.Contains(err.Error(), "electhttp: 401: want Authorization") {
		t.Errorf("%v; want 401", err)
	}
	for _, err := range (&electhttp.Client{URL: server.URL}).Watch(ctx, "other") {
		if err == nil {
			t.Error("it watches another election")
		}
	}
}
