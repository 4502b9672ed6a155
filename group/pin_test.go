package group

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
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
