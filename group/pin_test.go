package group

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/group/internal/wire"
	machine "github.com/electd/elect/internal/protocol/group"
)

// TestPinned: keys that were moved to a member by name stay there, also under the next coordinator, until it is drained
// or they are unpinned, and the load is evened out with others.
func TestPinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		c := w.client("asks", Config{Promise: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		all := map[string]*part{}
		for _, id := range []string{"m1", "m2", "m3"} {
			all[id] = w.member(id, func(c *Config) { c.Keys = Range(30) })
			all[id].run(h)
			w.until("a member more", 10*time.Second, func() bool { return len(h.count()) == len(all) && h.total() == 30 })
		}
		even := func(each int) func() bool {
			return func() bool {
				n := h.count()
				return h.total() == 30 && n["m2"] == each && (n["m1"] == each || n["m1"] == 0) && (n["m3"] == each || n["m3"] == 0)
			}
		}
		w.until("ten keys each", 20*time.Second, even(10))
		s, err := c.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if s.Coordinator != "m1" {
			t.Fatalf("%s coordinates; want m1, which was there first", s.Coordinator)
		}
		var moved []string
		for key, by := range h.by {
			if by != "m2" && len(moved) < 6 {
				moved = append(moved, key)
			}
		}
		for _, key := range moved {
			if err := c.Move(ctx, key, "m2"); err != nil {
				t.Fatal(err)
			}
		}
		pinned := func() (n int) {
			ks, err := c.Keys(ctx, "")
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range ks {
				if k.Pinned {
					n++
				}
			}
			return n
		}
		stay := func(when string) {
			t.Helper()
			<-time.After(30 * time.Second)
			synctest.Wait()
			for _, key := range moved {
				if h.by[key] != "m2" {
					t.Errorf("%s: %s was moved to m2, and is held by %q", when, key, h.by[key])
				}
			}
			if n := pinned(); n != len(moved) {
				t.Errorf("%s: %d keys are pinned; want %d", when, n, len(moved))
			}
		}
		w.until("ten keys each again", 20*time.Second, even(10))
		stay("after the moves")
		tokens := map[string]elect.Token{}
		for _, key := range moved {
			tokens[key] = h.tokens[key]
		}

		all["m1"].end()
		w.until("fifteen keys each", 30*time.Second, even(15))
		stay("under another coordinator")
		for _, key := range moved {
			if h.tokens[key] != tokens[key] {
				t.Errorf("%s was led anew", key)
			}
		}
		back := w.member("m1", func(c *Config) { c.Keys = Range(30) })
		back.run(h)
		w.until("ten keys each with the member that is back", 30*time.Second, even(10))
		stay("with the member that is back")

		if err := c.Unpin(ctx, moved[0]); err != nil {
			t.Error(err)
		}
		if err := c.Unpin(ctx, moved[0]); err == nil || !strings.Contains(err.Error(), "is not pinned") {
			t.Errorf("a second time: %v; want that it is not pinned", err)
		}
		if n := pinned(); n != len(moved)-1 {
			t.Errorf("%d keys are pinned; want %d", n, len(moved)-1)
		}
		if err := c.Drain(ctx, "m2", true); err != nil {
			t.Fatal(err)
		}
		w.until("m2 is empty", 20*time.Second, func() bool { return h.count()["m2"] == 0 && h.total() == 30 })
		if n := pinned(); n != 0 {
			t.Errorf("%d keys are pinned, and their member was drained; want none", n)
		}
	})
}

// TestPinsOfALostMessage: the coordinator and the holder agree on what is pinned, whatever message between them is lost,
// and an operator who is told that a key was unpinned, or a member drained, can rely on it.
func TestPinsOfALostMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		c := w.client("asks", Config{Promise: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		all := map[string]*part{}
		for _, id := range []string{"m1", "m2", "m3"} {
			all[id] = w.member(id, func(c *Config) { c.Keys = Range(3) })
			all[id].run(h)
			w.until("a member more", 30*time.Second, func() bool { return len(h.count()) == len(all) && h.total() == 3 })
		}
		lost := func(ask func() error) error { // what is said to m2 meanwhile
			w.net.swallow("m2", true)
			answer := make(chan error, 1)
			go func() { answer <- ask() }()
			synctest.Wait()
			w.net.sever("m2", true)
			w.net.swallow("m2", false)
			w.net.sever("m2", false)
			<-time.After(time.Second)
			return <-answer
		}
		nothing := func() error { return nil }
		var key string
		for k, by := range h.by {
			if by == "m1" {
				key = k
			}
		}
		pinned := func() bool {
			ks, err := c.Keys(ctx, key)
			if err != nil || len(ks) != 1 || ks[0].Holder != "m2" {
				t.Fatalf("%v, %v", ks, err)
			}
			return ks[0].Pinned
		}
		if err := c.Move(ctx, key, "m2"); err != nil {
			t.Fatal(err)
		}
		w.until("the move", 30*time.Second, func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.by[key] == "m2"
		})

		if err := lost(func() error { return c.Unpin(ctx, key) }); !errors.Is(err, driver.ErrUnreachable) || !pinned() {
			t.Errorf("Unpin that its holder has not heard of: %v; want an error, and the key pinned", err)
		}
		all["m2"].member.put(arrival{do: func() { all["m2"].member.pin(&request{Key: key}) }}) // it did not hear of the pin
		_ = lost(nothing)
		var told bool
		done := make(chan struct{}, 1)
		all["m2"].member.put(arrival{done: done, do: func() { told = all["m2"].member.tenures[machine.Key(key)].pinned }})
		if <-done; !told {
			t.Error("the holder does not know that the key is pinned, and would not tell the next coordinator")
		}
		if err := c.Unpin(ctx, key); err != nil || pinned() {
			t.Errorf("Unpin: %v; want the key unpinned", err)
		}
		_ = lost(nothing)
		if pinned() {
			t.Error("a key that was unpinned is pinned when its holder has connected anew")
		}
		if err := lost(func() error { return c.Drain(ctx, "m2", true) }); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("Drain of a member that has not heard of it: %v; want an error", err)
		}
	})
}

// TestUnpinWithoutItsAsker: the coordinator and the holder agree on what is pinned, although the connection of the asker
// ends before the holder has answered.
func TestUnpinWithoutItsAsker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		w.member("m1", func(c *Config) { c.Keys = Range(1) }).run(h)
		w.until("the key at m1", 30*time.Second, func() bool { return h.count()["m1"] == 1 })
		p := w.member("m2", func(c *Config) { c.Keys = Range(1) })
		p.run(h)
		c := w.client("asks", Config{Promise: time.Second})
		w.until("the move", 30*time.Second, func() bool { return c.Move(t.Context(), "0", "m2") == nil })
		w.until("the key at m2", 30*time.Second, func() bool { return h.count()["m2"] == 1 })
		synctest.Wait()

		p.gate.shut(true)
		answer := make(chan error, 1)
		go func() { answer <- c.Unpin(t.Context(), "0") }()
		synctest.Wait()
		w.net.sever("asks", true)
		if err := <-answer; !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("Unpin: %v; want that it is not known", err)
		}
		w.net.sever("asks", false)
		p.gate.shut(false)
		synctest.Wait()
		told := make(chan bool, 1)
		p.member.put(arrival{do: func() { told <- p.member.tenures["0"].pinned }})
		ks, err := p.Keys(t.Context())
		if err != nil || len(ks) != 1 || ks[0].Holder != "m2" {
			t.Fatalf("%v, %v; want the key at m2", ks, err)
		}
		if at := <-told; at || ks[0].Pinned {
			t.Errorf("the key is pinned at its holder: %t, and at the coordinator: %t; want neither", at, ks[0].Pinned)
		}
	})
}

// TestDrainedAsItLeaves: what an operator wants does not shorten for how long keys are kept.
func TestDrainedAsItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		w.member("m1", func(c *Config) { c.Keys = Range(2) }).run(h)
		b := w.member("m2", func(c *Config) { c.Keys, c.Observer = Range(2), true })
		b.run(h)
		w.until("a key each", 30*time.Second, func() bool { return h.count()["m1"] == 1 && h.count()["m2"] == 1 })
		left := make(chan error, 1)
		b.member.put(arrival{do: func() {
			go func() { left <- b.Leave(context.Background(), time.Minute) }()
			<-b.gone
			b.member.side(nil, &wire.Side{Kind: wire.Call, Method: "drain", Body: []byte(`{"on":true}`)})
		}})
		if err := <-left; err != nil {
			t.Fatal(err)
		}
		<-time.After(30 * time.Second)
		if n := h.count()["m1"]; n != 1 {
			t.Errorf("m1 holds %d keys; want 1, because m2 will be back", n)
		}
	})
}
