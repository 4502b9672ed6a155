package group

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/group/placement"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/store/memory"
)

func (w *world) client(id string, cfg Config) *Client {
	w.t.Helper()
	place, err := w.store.New("group", id, memory.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	var elector driver.Elector = place
	if w.place != nil {
		elector = w.place(place)
	}
	e, err := elect.New(elector, elect.Config{NonExclusive: true})
	if err != nil {
		w.t.Fatal(err)
	}
	cfg.ID = id
	c, err := newClient(e, cfg, env{
		now:  func() protocol.Reading { return reading(protocol.Instant(time.Since(w.began))) },
		dial: w.net.dial(id),
		gate: func() {},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// asked is how many questions a client has asked.
func (c *Client) asked() uint64 {
	c.calls.mu.Lock()
	defer c.calls.mu.Unlock()
	return c.calls.last
}

func (c *Client) kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// TestClient: somebody who only asks is no member, learns what members learn, and is told of what changes.
func TestClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		c := w.client("asks", Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.Status(ctx); !errors.Is(err, elect.ErrNoLeader) || !strings.Contains(err.Error(), "has no coordinator") {
			t.Fatalf("without members: %v; want ErrNoLeader", err)
		}
		keys := func(c *Config) { c.Keys = Range(30) }
		all := map[string]*part{}
		for _, id := range []string{"m1", "m2", "m3"} {
			all[id] = w.member(id, keys)
			all[id].run(h)
			w.until("a member more", 10*time.Second, func() bool { return len(h.count()) == len(all) && h.total() == 30 })
		}
		w.until("ten keys each", 20*time.Second, func() bool {
			n := h.count()
			return n["m1"] == 10 && n["m2"] == 10 && n["m3"] == 10
		})

		s, err := c.Status(ctx)
		if err != nil || len(s.Members) != 3 || s.Held != 30 || s.Keys != 30 {
			t.Fatalf("status: %+v, %v; want 3 members and 30 keys", s, err)
		}
		if s.Moves < 30 { // each key was placed
			t.Errorf("%d moves were begun; want 30 at least", s.Moves)
		}
		promise := all["m1"].settings.Promise
		slack, err := c.Slack(ctx)
		if err != nil || len(slack) != 3 {
			t.Fatalf("slack: %v, %v; want that of 3 members", slack, err)
		}
		for id, left := range slack {
			if left <= promise/2 || left > promise {
				t.Errorf("slack of %s: %v; want nearly the promise of %v", id, left, promise)
			}
		}
		ks, err := c.Keys(ctx, "")
		if err != nil || len(ks) != 30 {
			t.Fatalf("keys: %+v, %v; want 30", ks, err)
		}
		var lists sync.WaitGroup
		for range 5 { // they wait for each other
			lists.Go(func() {
				if ks, err := c.Keys(ctx, ""); err != nil || len(ks) != 30 {
					t.Errorf("one of five lists at once: %d keys, %v; want 30", len(ks), err)
				}
			})
		}
		lists.Wait()
		if ks, err = c.Keys(ctx, "7"); err != nil || len(ks) != 1 || ks[0].Holder != h.by["7"] || ks[0].Token != h.tokens["7"] {
			t.Fatalf("key 7: %+v, %v; want %s with token %v", ks, err, h.by["7"], h.tokens["7"])
		}
		if ks, err = c.Keys(ctx, "no-key"); err != nil || ks == nil || len(ks) > 0 {
			t.Fatalf("a key that is not known: %#v, %v; want an empty list", ks, err)
		}

		// One question for all keys, and none for what is known.
		before := c.asked()
		for range 3 {
			for key, by := range h.by {
				if l, err := c.Lookup(ctx, key); err != nil || l.ID != by || l.Token != h.tokens[key] {
					t.Fatalf("lookup of %s: %+v, %v; want %s with token %v", key, l, err, by, h.tokens[key])
				}
			}
		}
		if n := c.asked() - before; n != 1 {
			t.Errorf("90 lookups asked %d questions; want one", n)
		}
		if _, err := c.Lookup(ctx, "no-key"); !errors.Is(err, elect.ErrNoLeader) {
			t.Errorf("lookup of a key that nobody holds: %v; want ErrNoLeader", err)
		}
		if _, err := c.Lookup(ctx, strings.Repeat("k", 200)); err == nil || !strings.Contains(err.Error(), "the key:") {
			t.Errorf("lookup of a key of 200 bytes: %v", err)
		}

		// A move is told, and refused for a reason.
		from := h.by["7"]
		to := "m1"
		if from == to {
			to = "m2"
		}
		for _, refused := range []struct{ key, to, want string }{
			{"no-key", to, `knows no key "no-key"`}, {"7", from, from + ` holds "7" already`}, {"7", "m9", `"m9" is no member`},
		} {
			if err := c.Move(ctx, refused.key, refused.to); err == nil || !strings.Contains(err.Error(), refused.want) {
				t.Errorf("move of %s to %s: %v; want %s", refused.key, refused.to, err, refused.want)
			}
		}
		token := h.tokens["7"]
		if err := c.Move(ctx, "7", to); err != nil {
			t.Fatal(err)
		}
		before = c.asked()
		w.until("the lookup to tell of the move", time.Second/2, func() bool {
			l, err := c.Lookup(ctx, "7")
			return err == nil && l.ID == to && l.Token > token
		})
		if n := c.asked() - before; n > 1 {
			t.Errorf("it took %d questions; want at most the one of each second", n)
		}

		// Drained, and back.
		if err := c.Drain(ctx, "m9", true); err == nil || !strings.Contains(err.Error(), `"m9" is not a connected member`) {
			t.Errorf("drain of nobody: %v", err)
		}
		if err := c.Drain(ctx, "m2", true); err != nil {
			t.Fatal(err)
		}
		w.until("m2 to be empty", 10*time.Second, func() bool { return h.count()["m2"] == 0 && h.total() == 30 })

		// The next coordinator is asked, and no answer of the last one is left.
		all["m1"].crash()
		w.until("15 keys at m3, which has all but those of m2", 30*time.Second, func() bool { return h.count()["m3"] == 30 })
		w.until("the next coordinator's answers", 10*time.Second, func() bool {
			for key := range h.by {
				if l, err := c.Lookup(ctx, key); err != nil || l.ID != "m3" {
					return false
				}
			}
			return true
		})

		// Answers are bounded in number.
		for i := range maxAnswers + 10 {
			if _, err := c.Lookup(ctx, fmt.Sprint("none-", i)); !errors.Is(err, elect.ErrNoLeader) {
				t.Fatal(err)
			}
		}
		if n := c.kept(); n != maxAnswers {
			t.Errorf("%d answers are kept; want %d", n, maxAnswers)
		}
		if _, err := w.client("other", Config{TokenBits: 8}).Status(ctx); err == nil || !strings.Contains(err.Error(), "TokenBits") {
			t.Errorf("a client with other tokens: %v; want a refusal", err)
		}
		if _, err := w.client("third", Config{Name: "other"}).Status(ctx); err == nil || !strings.Contains(err.Error(), `of the group "other"`) {
			t.Errorf("a client of another group: %v; want a refusal", err)
		}
	})
}

// TestLookupIsBounded: a client that is cut off from the coordinator without a word has no answer after a second.
func TestLookupIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		m := w.member("m1", func(c *Config) { c.Keys, c.Promise = Range(1), 10*time.Second })
		m.run(h)
		w.until("the key", time.Minute, func() bool { return h.total() == 1 })
		c := w.client("asks", Config{})
		if _, err := c.Status(t.Context()); err != nil { // there is a connection
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := c.Lookup(t.Context(), "0"); err != nil {
			t.Fatal(err)
		}
		m.gate.shut(true) // and not its part in the election, which would end the connection
		defer m.gate.shut(false)
		for time.Since(began) < fresh+time.Second {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_, err := c.Lookup(ctx, "0")
			cancel()
			if is := time.Since(began); (err == nil) != (is < fresh) && (is < fresh-20*time.Millisecond || is > fresh+20*time.Millisecond) {
				t.Fatalf("after %v of silence: %v; want an answer for %v, and none later", is, err, fresh)
			}
			<-time.After(10 * time.Millisecond)
		}
	})
}

// blunt is a placement that explains nothing.
type blunt struct{ placement.Placer }

// TestPlan: the coordinator says what it would move, and why, and does not move it.
func TestPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		keys := func(c *Config) {
			c.Keys = Range(30)
			c.Placement = func() (placement.Placer, error) { return placement.New(placement.Settings{Quiet: time.Minute}) }
		}
		m1 := w.member("m1", keys)
		m1.run(h)
		w.until("30 keys", 10*time.Second, func() bool { return h.total() == 30 })
		w.member("m2", keys).run(h)
		c := w.client("asks", Config{})
		var p Plan
		w.until("a plan for two", 20*time.Second, func() (is bool) {
			var err error
			if p, err = c.Plan(t.Context()); err != nil {
				t.Fatal(err)
			}
			return len(p.Later) == 15
		})
		if p.Later[0].Reason != "m1 has the load 30, and m2 has 0" || p.Later[0].To != "m2" || len(p.Now)+len(p.Idle)+p.Omitted > 0 {
			t.Errorf("the plan is %+v", p)
		}
		if n := h.count()["m1"]; n != 30 {
			t.Errorf("m1 has %d keys; want 30, because nothing is moved yet", n)
		}
		other, err := m1.Plan(t.Context())
		if err != nil || len(other.Later) != 15 {
			t.Errorf("a member is told %d moves, %v; want 15", len(other.Later), err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.member("m1", func(c *Config) {
			c.Placement = func() (placement.Placer, error) {
				p, err := eager()
				return blunt{p}, err
			}
		})
		w.until("a coordinator that explains nothing", 10*time.Second, func() bool {
			_, err := m.Plan(t.Context())
			return err != nil && strings.Contains(err.Error(), "group.blunt, does not explain")
		})
	})
}

// TestCoordinatorWithoutKeys: a coordinator that was not told the shards knows who leads them.
func TestCoordinatorWithoutKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		w.member("m1", nil)
		a := w.member("m2", func(c *Config) { c.Keys, c.Observer = Range(2), true })
		a.run(h)
		w.until("its keys", 10*time.Second, func() bool { return h.total() == 2 })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := a.Elector("named").Campaign(ctx, driver.Candidacy{Metadata: map[string]string{"is": "shown"}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // for its announcement
		c := w.client("asks", Config{})
		if l, err := c.Lookup(ctx, "1"); err != nil || l.ID != "m2" || l.Token != h.tokens["1"] {
			t.Errorf("a shard is led by %+v, %v; want m2", l, err)
		}
		if l, err := c.Lookup(ctx, "named"); err != nil || l.ID != "m2" || l.Metadata["is"] != "shown" {
			t.Errorf("an election is led by %+v, %v; want m2, with what it shows", l, err)
		}
	})
}

// TestClientOfDeadConnection: a client whose connection was cut without a word has another one soon.
func TestClientOfDeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.member("m1", nil)
		c := w.client("asks", Config{})
		asks := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := c.Status(ctx)
			return err
		}
		w.until("an answer", 10*time.Second, func() bool { return asks() == nil })
		<-time.After(time.Minute)
		c.mu.Lock()
		first := c.link
		c.mu.Unlock()
		select {
		case <-first.Done():
			t.Errorf("a connection that is well was ended: %v", first.Err())
		default:
		}
		w.net.swallow("asks", true)
		if asks() == nil {
			t.Fatal("a dead connection answers")
		}
		w.net.swallow("asks", false)
		w.until("another connection", 5*silence*c.stall, func() bool { return asks() == nil })
	})
}

// TestClientDenied: a permanent error of the coordinator's election is tried again. A caller meanwhile gets the error.
func TestClientDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.member("m1", nil)
		d := &denied{}
		d.on.Store(true)
		w.place = func(e *memory.Elector) driver.Elector { d.Elector = e; return d }
		c := w.client("asks", Config{})
		<-time.After(5 * time.Minute)
		if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("Status: %v; want why there is no coordinator", err)
		}
		d.on.Store(false)
		w.until("an answer", lastRetry+5*time.Second, func() bool {
			_, err := c.Status(t.Context())
			return err == nil
		})
	})
}
