package group

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/memory"
)

// TestOpener: elections of one URL share a member, whose last election closes it, and another program's member is one
// of its own.
func TestOpener(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store := memory.NewStore(0)
	members := map[string]bool{}
	inner := func(ctx context.Context, target driver.Target) (driver.Elector, error) {
		if target.URL.Scheme != "memory" || target.URL.RawQuery != "lease=2s" || target.Name != "jobs" {
			t.Errorf("inner opens %s of %s", target.Name, target.URL)
		}
		members[target.ID] = true
		return store.Open(ctx, target)
	}
	const at = "group+memory:?lease=2s&group-name=jobs&group-promise=1s"
	here, there := elect.Openers{"group+memory": Opener(inner)}, elect.Openers{"group+memory": Opener(inner)}
	open := func(o elect.Openers, name, id string) *elect.Election {
		e, err := o.Open(ctx, at, name, elect.Config{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	a, b := open(here, "a", "m1"), open(here, "b", "m1")
	var one, two *Group
	if !a.As(&one) || !b.As(&two) || one != two || one.ID() != "m1" || one.Name() != "jobs" || a.As(new(string)) {
		t.Errorf("the member of the elections is %v, and %v; want one, and no string", one, two)
	}
	ta, err := a.Campaign(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tb, err := b.Campaign(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a2 := open(there, "a", "m2")
	if len(members) != 2 {
		t.Errorf("the members are %v; want m1 and m2", members)
	}
	if l, err := a2.Leader(ctx); err != nil || l.ID != "m1" || l.Token != ta.Token() {
		t.Errorf("m2 sees %+v, %v; want m1 with %v", l, err, ta.Token())
	}
	if err := errors.Join(ta.Release(ctx), a.Close()); err != nil {
		t.Error(err)
	}
	if err := tb.Check(); err != nil {
		t.Errorf("the other election of a member whose first one was closed: %v", err)
	}
	next, err := a2.Campaign(ctx)
	if err != nil || next.Token() <= ta.Token() {
		t.Fatalf("the next term: %v, %v after %v", err, next.Token(), ta.Token())
	}
	if err := errors.Join(tb.Release(ctx), b.Close(), next.Release(ctx), a2.Close()); err != nil {
		t.Error(err)
	}
	for query, says := range map[string]string{
		"group-name=":                   "group-name",
		"group-name=a":                  "has the name of its group",
		"group-wrong=1":                 "want one of group-advertise",
		"group-promise=1":               "group-promise",
		"group-weight=x":                "want a number",
		"group-weight=1&group-weight=2": "want it once",
		"group-insecure=yes":            "want true",
		"group-rate=-1":                 "group-rate=\"-1\": want how many held keys may begin to move in a second, or 0",
		"group-rate=10/s":               "want how many",
		"group-listen=0.0.0.0:0":        "want group.Config.TLS",
		"wrong=1":                       "want at most one lease",
	} {
		u, _ := url.Parse("group+memory:?" + query)
		_, err := Opener(store.Open)(ctx, driver.Target{URL: u, Name: "a", ID: "m3"})
		if err == nil || !strings.Contains(err.Error(), says) || !driver.IsPermanent(err) {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// TestAsker: who observes elections of a group, and asks their leaders, is no member, and is none of the candidates for
// coordinator either: nothing moves.
func TestAsker(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store := memory.NewStore(0)
	const at = "group+memory:?group-promise=1s"
	member, asks := elect.Openers{"group+memory": Opener(store.Open)}, elect.Openers{"group+memory": Asker(store.Open, nil)}
	open := func(o elect.Openers, name string) *elect.Election {
		e, err := o.Open(ctx, at, name, elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	asker := open(asks, "a")
	if l, err := asker.Leader(ctx); err == nil || !strings.Contains(err.Error(), "has no coordinator") {
		t.Errorf("without a member: %+v, %v", l, err)
	}
	m := open(member, "a")
	term, err := m.Campaign(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var g *Group
	if !m.As(&g) {
		t.Fatal("no member")
	}
	before, err := g.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*elect.Election{asker, open(asks, "a")} {
		if l, err := e.Leader(ctx); err != nil || l.ID != g.ID() || l.Token != term.Token() {
			t.Errorf("the leader is %+v, %v; want %s with %v", l, err, g.ID(), term.Token())
		}
	}
	if l, err := open(asks, "b").Leader(ctx); !errors.Is(err, elect.ErrNoLeader) {
		t.Errorf("the leader of an election that nobody stands for is %+v, %v; want ErrNoLeader", l, err)
	}
	if _, err := asker.Campaign(ctx); !errors.Is(err, elect.ErrUnsupported) || !strings.Contains(err.Error(), "asks only") {
		t.Errorf("a campaign of one who asks: %v; want ErrUnsupported", err)
	}
	if after, err := g.Status(ctx); err != nil || after.Version != before.Version || len(after.Members) != 1 {
		t.Errorf("the status is %+v, %v; want that of before, %+v", after, err, before)
	}
	if err := asker.Resign(ctx, term.Token()); err != nil {
		t.Error(err)
	}
	select {
	case <-term.Context().Done():
	case <-ctx.Done():
		t.Error("the leader was asked to resign, and leads")
	}
	if err := term.Release(ctx); err != nil {
		t.Error(err)
	}
	u, _ := url.Parse("group+memory:?group-name=a")
	if _, err := Asker(store.Open, nil)(ctx, driver.Target{URL: u, Name: "a"}); err == nil || !strings.Contains(err.Error(), "has the name of its group") {
		t.Error(err)
	}
}

// TestOpenerBesideOneThatGivesUp: who waits for the member of another opening and gives up does not close it.
func TestOpenerBesideOneThatGivesUp(t *testing.T) {
	store := memory.NewStore(0)
	begun, goOn := make(chan struct{}), make(chan struct{})
	opener := Opener(func(ctx context.Context, target driver.Target) (driver.Elector, error) {
		close(begun)
		<-goOn
		return store.Open(ctx, target)
	})
	u, _ := url.Parse("group+memory:")
	opened := make(chan driver.Elector, 1)
	go func() {
		e, err := opener(t.Context(), driver.Target{URL: u, Name: "a", ID: "m1"})
		if err != nil {
			t.Error(err)
		}
		opened <- e
	}()
	<-begun
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	gaveUp := make(chan error, 1)
	go func() {
		_, err := opener(ended, driver.Target{URL: u, Name: "b", ID: "m1"})
		gaveUp <- err
	}()
	select {
	case err := <-gaveUp:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("an opening whose context has ended waits for that of another")
	}
	close(goOn)
	e := <-opened
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	m, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
	if err != nil {
		t.Fatalf("the member is closed, and one of its elections is in use: %v", err)
	}
	if err := errors.Join(m.Release(ctx), e.Close()); err != nil {
		t.Error(err)
	}
}

// TestOpenerAfterOneThatGivesUp: when the context of the opening that makes the member ends, another one that waits for
// it makes it.
func TestOpenerAfterOneThatGivesUp(t *testing.T) {
	store := memory.NewStore(0)
	begun, first := make(chan struct{}), true
	opener := Opener(func(ctx context.Context, target driver.Target) (driver.Elector, error) {
		if first {
			first = false
			close(begun)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return store.Open(ctx, target)
	})
	u, _ := url.Parse("group+memory:")
	ended, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := opener(ended, driver.Target{URL: u, Name: "a", ID: "m1"})
		gaveUp <- err
	}()
	<-begun
	waits := make(chan struct{})
	ctx := &noted{t.Context(), sync.OnceFunc(func() { close(waits) })}
	go func() {
		<-waits
		cancel()
	}()
	e, err := opener(ctx, driver.Target{URL: u, Name: "b", ID: "m1"})
	if err != nil {
		t.Fatalf("an opening fails with the context of another: %v", err)
	}
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// noted is a context that notes that it is waited for.
type noted struct {
	context.Context
	note func()
}

func (n *noted) Done() <-chan struct{} {
	n.note()
	return n.Context.Done()
}
