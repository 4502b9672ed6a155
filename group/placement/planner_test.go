package placement

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/race"
)

func TestMain(m *testing.M) { os.Exit(race.Main(m)) }

// history drives a planner and a twin through one random life of a group.
type history struct {
	t       testing.TB
	chance  func(n int) int
	now     time.Time
	planner *Planner
	twin    twin
	since   time.Time
	came    bool
	vary    bool // loads differ
}

// FuzzHistories compares the planner with its twin after each step of a random life of a group.
func FuzzHistories(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, []byte{})
	}
	f.Fuzz(func(t *testing.T, seed uint64, choices []byte) { live(t, seed, choices, 60) })
}

// TestHistories is FuzzHistories with many seeds.
func TestHistories(t *testing.T) {
	for seed := range uint64(long.Or(20_000, 400)) {
		live(t, seed, nil, 60)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func live(t testing.TB, seed uint64, choices []byte, steps int) {
	chance := rand.New(rand.NewPCG(seed, 1))
	h := &history{t: t, now: time.Unix(1e9, 0), vary: seed%2 == 1, chance: func(n int) int {
		if len(choices) > 0 {
			c := int(choices[0])
			choices = choices[1:]
			return c % n
		}
		return chance.IntN(n)
	}}
	var err error
	if h.planner, err = New(Settings{}); err != nil {
		t.Fatal(err)
	}
	h.twin = twin{members: map[string]Member{}, keys: map[string]Key{}, slack: DefaultSlack}
	for range steps {
		for range h.chance(6) { // or nothing happens, but that keys arrive
			h.step()
		}
		h.now = h.now.Add(time.Duration(h.chance(8)) * time.Second)
		h.compare()
		if t.Failed() {
			return
		}
	}
}

func (h *history) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) member() string {
	ids := h.twin.ids()
	if len(ids) == 0 {
		return ""
	}
	return ids[h.chance(len(ids))]
}

func (h *history) key() string {
	names := slices.Sorted(maps.Keys(h.twin.keys))
	if len(names) == 0 {
		return ""
	}
	return names[h.chance(len(names))]
}

// set tells both of a key.
func (h *history) set(k Key) {
	h.t.Helper()
	if old := h.twin.keys[k.Name]; k.Holder != "" {
		k.Last = ""
	} else if k.Last == "" {
		k.Last = cmp.Or(old.Holder, old.Last)
	}
	h.twin.keys[k.Name] = k
	h.must(h.planner.SetKey(k))
}

// step makes one change.
func (h *history) step() {
	h.t.Helper()
	w := &h.twin
	switch h.chance(11) {
	case 0, 1: // a member comes, comes back, or changes
		m := Member{
			ID: fmt.Sprintf("n%d", h.chance(5)), Weight: []int{0, 0, 0, 50, 300}[h.chance(5)], Zone: []string{"", "", "x", "y"}[h.chance(4)],
			Quota: []int{0, 0, 0, 0, 0, 3}[h.chance(6)], Draining: h.chance(8) == 0,
		}
		if old, ok := w.members[m.ID]; !ok || !old.Back.IsZero() || old.Draining != m.Draining {
			h.came = true
		}
		w.members[m.ID] = m
		h.must(h.planner.SetMember(m))
		if m.Draining {
			h.callOff(m.ID)
		}
	case 2: // one says that it will be back, and its keys are free
		id := h.member()
		m, ok := w.members[id]
		if !ok || !m.Back.IsZero() {
			return
		}
		m.Back = h.now.Add(time.Duration(1+h.chance(20)) * time.Second)
		w.members[id], h.came = m, true
		h.must(h.planner.SetMember(m))
		h.callOff(id)
		for _, name := range slices.Sorted(maps.Keys(w.keys)) {
			if k := w.keys[name]; k.Holder == id && h.chance(10) > 0 {
				k.Holder = ""
				h.set(k)
			}
		}
	case 3: // one is over
		id := h.member()
		if id == "" || h.chance(2) == 0 {
			return
		}
		delete(w.members, id)
		h.came = true
		h.must(h.planner.RemoveMember(id))
		h.callOff(id)
		for name, k := range w.keys {
			if k.Holder == id {
				k.Holder = ""
			}
			if k.Last == id {
				k.Last = ""
			}
			w.keys[name] = k
		}
	case 4, 5, 6, 7: // a key is new, or changes
		k := Key{Name: fmt.Sprintf("k%d", h.chance(25))}
		if old, ok := w.keys[k.Name]; ok {
			k.Holder, k.Next = old.Holder, old.Next
		} else if h.chance(3) == 0 {
			k.Holder = h.member()
		}
		if h.vary {
			k.Load = float64(h.chance(40)) / 4
		}
		switch h.chance(8) {
		case 0:
			k.Prefer = h.member()
		case 1:
			k.Zone = "x"
		case 2, 3:
			k.Replace = h.chance(2) == 0
			for _, id := range w.ids() {
				if h.chance(2) == 0 {
					k.Wants = append(k.Wants, Want{id, []int{0, 100, 7}[h.chance(3)]})
				}
			}
			if k.Wants == nil {
				k.Wants = []Want{}
			}
			slices.Reverse(k.Wants)
		}
		h.set(k)
	case 8:
		if name := h.key(); name != "" && h.chance(3) == 0 {
			delete(w.keys, name)
			h.must(h.planner.RemoveKey(name))
		}
	case 9: // what is on its way arrives
		for _, name := range slices.Sorted(maps.Keys(w.keys)) {
			if k := w.keys[name]; k.Next != "" && h.chance(2) == 0 {
				k.Holder, k.Next = k.Next, ""
				h.set(k)
			}
		}
	default: // a holder gives its key up, or a move was dropped
		if k, ok := w.keys[h.key()]; ok {
			if h.chance(2) == 0 {
				k.Holder = ""
			}
			k.Next = ""
			h.set(k)
		}
	}
}

// callOff is what a member that takes no keys does to moves towards it.
func (h *history) callOff(id string) {
	for name, k := range h.twin.keys {
		if k.Next == id {
			k.Next = ""
			h.twin.keys[name] = k
		}
	}
}

// compare has both plan, and then lets some of the moves go on.
func (h *history) compare() {
	h.t.Helper()
	w := &h.twin
	if h.came {
		h.since, h.came = h.now, false
	}
	calm := !h.since.Add(DefaultQuiet).After(h.now)
	for _, m := range w.members {
		calm = calm && !m.Back.After(h.now)
	}
	want := w.plan(h.now, calm)
	outlook := h.planner.Explain(h.now)
	moves, next := h.planner.Plan(h.now)
	if !slices.Equal(outlook.Now, moves) {
		h.t.Errorf("it explains %v, and then plans %v", outlook.Now, moves)
	}
	if !calm && !next.After(h.now) {
		h.t.Errorf("it is not quiet, and the next plan is at %v; now is %v", next, h.now)
	}
	h.must(Check(moves, func(id string) bool { _, ok := w.members[id]; return ok }))
	got := make(map[string]string)
	for _, m := range moves {
		got[m.Key] = m.To
		if m.From != w.keys[m.Key].Holder {
			h.t.Errorf("%v: it is held by %q", m, w.keys[m.Key].Holder)
		}
		if m.Reason == "" {
			h.t.Errorf("%v: no reason", m)
		}
	}
	if !maps.Equal(got, want) {
		h.t.Errorf("at %v, idle %v, calm %v\nplanner %v\ntwin    %v\nmembers %+v\nkeys %+v", h.now, outlook.Idle, calm, moves, want, w.members, w.keys)
	}
	quotas := false // then the moves may have made room for others
	for _, m := range w.members {
		quotas = quotas || m.Quota > 0
	}
	if !quotas {
		if again, _ := h.planner.Plan(h.now); len(again) > 0 {
			h.t.Errorf("asked again it moves %v", again)
		}
	}
	for _, m := range moves {
		k := w.keys[m.Key]
		k.Next = m.To
		w.keys[m.Key] = k
		if h.chance(4) > 0 {
			k.Holder, k.Next = m.To, ""
			h.set(k)
		}
	}
}

// TestDrainIsQuiet: while a member gives its keys up, no others move for balance.
func TestDrainIsQuiet(t *testing.T) {
	f := newHouse(t, 0, 3, Settings{})
	all := func(i, holder int) Key {
		return Key{Name: fmt.Sprintf("k%d", i), Holder: fmt.Sprintf("n%d", holder), Wants: []Want{{Member: fmt.Sprintf("n%d", i%3)}, {Member: fmt.Sprintf("n%d", (i+1)%3)}}}
	}
	for i := range 30 {
		f.key(all(i, i%3))
	}
	f.plan()
	f.calm()
	f.plan()
	f.member(Member{ID: "n2", Draining: true})
	for i := 2; i < 30; i += 3 { // what it gives up only n0 may have
		f.key(all(i, 0))
		if moves, _ := f.p.Plan(f.now); slices.ContainsFunc(moves, func(m Move) bool { return m.From != "n2" }) {
			t.Fatalf("while n2 drains: %v", moves)
		}
	}
	f.calm()
	if moves, _ := f.p.Plan(f.now); len(moves) == 0 {
		t.Error("nothing moves for balance afterwards")
	}
}

// TestSpareClass: what keys have in common is not kept beyond the last of them, for other keys that come.
func TestSpareClass(t *testing.T) {
	h := newHouse(t, 0, 2, Settings{})
	h.key(Key{Name: "a"})
	if err := h.p.RemoveKey("a"); err != nil {
		t.Fatal(err)
	}
	h.key(Key{Name: "b"})
	h.key(Key{Name: "c", Wants: []Want{{Member: "n0"}}})
	moves, _ := h.p.Plan(h.now)
	for _, m := range moves {
		if m.Key == "b" && m.To != "n1" {
			t.Errorf("%v; want b at n1, because only n0 wants c", m)
		}
	}
}
