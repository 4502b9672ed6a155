package placement

import (
	"fmt"
	"testing"
	"time"
)

// house is a planner whose plans are carried out at once.
type house struct {
	t   testing.TB
	p   *Planner
	now time.Time
	at  map[string]string // who holds each key
}

func newHouse(t testing.TB, keys, members int, set Settings) *house {
	t.Helper()
	p, err := New(set)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, p: p, now: time.Unix(1e9, 0), at: make(map[string]string)}
	for i := range members {
		h.member(Member{ID: fmt.Sprintf("n%d", i)})
	}
	for i := range keys {
		h.key(Key{Name: fmt.Sprintf("shard-%d", i)})
	}
	return h
}

func (h *house) member(m Member) {
	h.t.Helper()
	if err := h.p.SetMember(m); err != nil {
		h.t.Fatal(err)
	}
}

// remove removes a member, whose keys are free then.
func (h *house) remove(id string) {
	h.t.Helper()
	if err := h.p.RemoveMember(id); err != nil {
		h.t.Fatal(err)
	}
	for key, holder := range h.at {
		if holder == id {
			h.at[key] = ""
		}
	}
}

func (h *house) key(k Key) {
	h.t.Helper()
	if err := h.p.SetKey(k); err != nil {
		h.t.Fatal(err)
	}
	h.at[k.Name] = k.Holder
}

// calm lets the time of Quiet pass.
func (h *house) calm() { h.now = h.now.Add(DefaultQuiet) }

// plan plans, and says that all moves are done.
func (h *house) plan() []Move {
	h.t.Helper()
	moves, _ := h.p.Plan(h.now)
	for _, m := range moves {
		if h.at[m.Key] != m.From {
			h.t.Fatalf("%v: it is held by %q", m, h.at[m.Key])
		}
		h.key(Key{Name: m.Key, Holder: m.To})
	}
	return moves
}

// share is how many keys each member holds.
func (h *house) share() map[string]int {
	n := make(map[string]int)
	for _, holder := range h.at {
		n[holder]++
	}
	return n
}

var sizes = []int{3, 10, 100}

const many = 100_000

func BenchmarkFirst(b *testing.B) {
	for _, members := range sizes {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				f := newHouse(b, many, members, Settings{})
				b.StartTimer()
				if moves, _ := f.p.Plan(f.now); len(moves) != many {
					b.Fatal(len(moves))
				}
			}
		})
	}
}

// BenchmarkTold is what it takes to tell a planner of all keys.
func BenchmarkTold(b *testing.B) {
	for b.Loop() {
		newHouse(b, many, 3, Settings{})
	}
}

// BenchmarkConfirm is what it takes to tell a planner that one move is done.
func BenchmarkConfirm(b *testing.B) {
	f := newHouse(b, many, 3, Settings{})
	moves, _ := f.p.Plan(f.now)
	i := 0
	for b.Loop() {
		m := moves[i%len(moves)]
		if err := f.p.SetKey(Key{Name: m.Key, Holder: m.To}); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkIdle(b *testing.B) {
	for _, members := range sizes {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			f := newHouse(b, many, members, Settings{})
			f.plan()
			for b.Loop() {
				f.p.Plan(f.now)
			}
		})
	}
}

// BenchmarkOneKey is a plan after one key has become free.
func BenchmarkOneKey(b *testing.B) {
	for _, members := range sizes {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			f := newHouse(b, many, members, Settings{})
			f.plan()
			f.calm()
			f.plan()
			for b.Loop() {
				f.key(Key{Name: "shard-7"})
				f.plan()
			}
		})
	}
}

func BenchmarkLeave(b *testing.B) {
	for _, members := range sizes {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				f := newHouse(b, many, members, Settings{})
				f.plan()
				b.StartTimer()
				if err := f.p.RemoveMember("n1"); err != nil {
					b.Fatal(err)
				}
				f.p.Plan(f.now)
			}
		})
	}
}

func BenchmarkReturn(b *testing.B) {
	for _, members := range sizes {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				f := newHouse(b, many, members, Settings{})
				f.plan()
				f.remove("n1")
				f.plan()
				f.member(Member{ID: "n1"})
				f.plan()
				f.calm()
				b.StartTimer()
				f.p.Plan(f.now)
			}
		})
	}
}

// BenchmarkDouble is the plan after the number of members has doubled.
func BenchmarkDouble(b *testing.B) {
	for _, members := range sizes {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				f := newHouse(b, many, members, Settings{})
				f.plan()
				for i := range members {
					f.member(Member{ID: fmt.Sprintf("m%d", i)})
				}
				f.plan()
				f.calm()
				b.StartTimer()
				f.p.Plan(f.now)
			}
		})
	}
}

// BenchmarkChain is the plan after a member has come that only has keys in common with one of two others, so that keys
// of the first replace those that the second gives it. Each key has two candidates.
func BenchmarkChain(b *testing.B) {
	for _, keys := range []int{1000, 10_000, many} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				f := newHouse(b, 0, 3, Settings{})
				for i := range keys {
					k := Key{Name: fmt.Sprintf("election-%d", i), Holder: "n0", Wants: []Want{{Member: "n0"}, {Member: "n1"}}}
					if i%2 == 1 {
						k.Holder, k.Wants = "n1", []Want{{Member: "n1"}, {Member: "n2"}}
					}
					f.key(k)
				}
				f.plan()
				f.calm()
				b.StartTimer()
				if moves, _ := f.p.Plan(f.now); len(moves) < keys/3 {
					b.Fatal(len(moves))
				}
			}
		})
	}
}
