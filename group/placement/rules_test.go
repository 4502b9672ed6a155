package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestJoin has a fourth member take a quarter of the keys, and nothing else move.
func TestJoin(t *testing.T) {
	for _, n := range []int{0, 1, 4, 1000, 20_001} {
		h := newHouse(t, n, 3, Settings{})
		h.plan()
		h.member(Member{ID: "n3"})
		if moves := h.plan(); len(moves) > 0 {
			t.Fatalf("%d keys: before it is quiet %v", n, moves[0])
		}
		h.calm()
		moves := h.plan()
		if len(moves) != n/4 {
			t.Errorf("%d keys: %d moves, want %d", n, len(moves), n/4)
		}
		for _, m := range moves {
			if m.To != "n3" || m.From == "" {
				t.Fatalf("%d keys: %+v", n, m)
			}
		}
		h.even(t, n, 4)
	}
}

// even fails if members differ by more than one key.
func (h *house) even(t *testing.T, keys, members int) {
	t.Helper()
	share := h.share()
	for id, n := range share {
		if n < keys/members || n > (keys+members-1)/members {
			t.Errorf("%s has %d of %d keys, with %d members", id, n, keys, members)
		}
	}
	if keys >= members && len(share) != members {
		t.Errorf("%d keys are at %d members, want %d", keys, len(share), members)
	}
}

// TestLeaveAndReturn has one member go and come back: no key of the others moves, and most of its own are given back.
func TestLeaveAndReturn(t *testing.T) {
	for _, members := range sizes {
		h := newHouse(t, 20_000, members, Settings{})
		h.plan()
		h.even(t, 20_000, members)
		before, had := maps.Clone(h.at), h.share()["n1"]
		h.remove("n1")
		moves := h.plan()
		if len(moves) != had {
			t.Errorf("%d members: %d moves, want %d", members, len(moves), had)
		}
		for _, m := range moves {
			if before[m.Key] != "n1" {
				t.Fatalf("%d members: %+v moves, which was not n1's", members, m)
			}
		}
		h.even(t, 20_000, members-1)

		h.member(Member{ID: "n1"})
		h.plan()
		h.calm()
		back := 0
		moves = h.plan()
		for _, m := range moves {
			if m.To != "n1" {
				t.Fatalf("%d members: %+v goes to a third one", members, m)
			}
			if before[m.Key] == "n1" {
				back++
			}
		}
		h.even(t, 20_000, members)
		if part := float64(back) / float64(len(moves)); part < 0.9 {
			t.Errorf("%d members: %.0f %% of the keys of the member that returns are its old ones, want 90", members, part*100)
		} else {
			t.Logf("%d members: %.1f %% of the keys of the member that returns are its old ones", members, part*100)
		}
	}
}

// TestRollingRestart counts the moves of one key while each member is restarted once.
func TestRollingRestart(t *testing.T) {
	const n = 6_000
	for _, members := range sizes {
		for _, back := range []bool{false, true} {
			h := newHouse(t, n, members, Settings{})
			h.plan()
			h.calm()
			h.plan()
			moves := 0
			for i := range members {
				id := fmt.Sprintf("n%d", i)
				if back {
					h.member(Member{ID: id, Back: h.now.Add(time.Minute)})
					for key, holder := range h.at {
						if holder == id {
							h.key(Key{Name: key})
						}
					}
				} else {
					h.remove(id)
				}
				moves += len(h.plan())
				h.now = h.now.Add(3 * time.Second)
				h.member(Member{ID: id})
				moves += len(h.plan())
				h.now = h.now.Add(3 * time.Second)
			}
			h.calm()
			moves += len(h.plan())
			h.even(t, n, members)
			a := float64(moves) / n
			t.Logf("%d members, back %v: %.2f moves a key", members, back, a)
			want := 1.0 // each key goes back to where it was
			if !back {
				want = map[int]float64{3: 1.67, 10: 1.21, 100: 1.03}[members]
			}
			if a > want {
				t.Errorf("%d members, back %v: %.3f moves a key, want at most %v", members, back, a, want)
			}
		}
	}
}

// world is members and keys.
type world struct {
	members []Member
	keys    []Key
}

// keys makes keys with one holder.
func keys(holder string, names ...string) []Key {
	var all []Key
	for _, name := range names {
		all = append(all, Key{Name: name, Holder: holder})
	}
	return all
}

// TestRules has one case for each rule of the package.
func TestRules(t *testing.T) {
	now := time.Unix(1e9, 0)
	two := []Member{{ID: "n1"}, {ID: "n2"}}
	for _, c := range []struct {
		name  string
		world world
		want  string // moves, as KEY FROM>TO: reason
	}{
		{"what is held stays", world{two, slices.Concat(keys("n1", "a", "b"), keys("n2", "c"))}, ""},
		{
			"two keys more are one too many", world{two, slices.Concat(keys("n1", "a", "b", "c"), keys("n2", "d"))},
			"b n1>n2: n1 has the load 3, and n2 has 1",
		},
		{
			"in proportion to weights", world{[]Member{{ID: "n1"}, {ID: "n2", Weight: 300}}, keys("n1", "a", "b", "c", "d")},
			"a n1>n2: n1 has the load 4 with the weight 100, and n2 has 0 with 300; b n1>n2: n1 has the load 4 with the weight 100, and n2 has 0 with 300; " +
				"d n1>n2: n1 has the load 4 with the weight 100, and n2 has 0 with 300",
		},
		{"free keys even out the load", world{two, slices.Concat(keys("n1", "a", "b"), keys("", "c", "d"))}, "c >n2: nobody holds it, and n2 has less load than others; d >n2: nobody holds it, and n2 has less load than others"},
		{
			"a draining member is emptied", world{[]Member{{ID: "n1", Draining: true}, {ID: "n2"}}, keys("n1", "a")},
			"a n1>n2: n1 is draining, and n2 ranks first for it",
		},
		{"there is nowhere to drain to", world{[]Member{{ID: "n1", Draining: true}}, keys("n1", "a")}, ""},
		{
			"a key goes to who wants it", world{two, []Key{{Name: "a", Holder: "n1", Wants: []Want{{Member: "n2"}}}}},
			"a n1>n2: n1 does not want it, and n2 ranks first for it",
		},
		{"nobody wants it", world{two, []Key{{Name: "a", Wants: []Want{}}}}, ""},
		{
			"the greatest priority gets a free key", world{two, []Key{{Name: "a", Wants: []Want{{"n1", 200}, {"n2", 0}}}, {Name: "b", Wants: []Want{{"n1", 200}, {"n2", 0}}}}},
			"a >n1: nobody holds it, and n1 wants it with the priority 200; b >n1: nobody holds it, and n1 wants it with the priority 200",
		},
		{"and does not replace a holder", world{two, []Key{{Name: "a", Holder: "n2", Wants: []Want{{"n1", 200}, {"n2", 100}}}}}, ""},
		{
			"unless it is told to", world{two, []Key{{Name: "a", Holder: "n2", Replace: true, Wants: []Want{{"n1", 200}, {"n2", 100}}}}},
			"a n2>n1: n2 holds it with the priority 100, and n1 wants it with the priority 200",
		},
		{
			"the preferred member", world{two, []Key{{Name: "a", Prefer: "n2", Holder: "n1"}, {Name: "b", Prefer: "n2"}, {Name: "c", Prefer: "n3", Holder: "n1"}}},
			"a n1>n2: n1 holds it, and n2 is the preferred member; b >n2: nobody holds it, and n2 is the preferred member",
		},
		{
			"the preferred zone", world{[]Member{{ID: "n1"}, {ID: "n2", Zone: "x"}}, []Key{{Name: "a", Zone: "x", Holder: "n1"}, {Name: "b", Zone: "x"}, {Name: "c", Zone: "y", Holder: "n1"}}},
			"a n1>n2: n1 holds it, and n2 is in the preferred zone, x; b >n2: nobody holds it, and n2 is in the preferred zone, x",
		},
		{
			"the preferred zone is full", world{[]Member{{ID: "n1"}, {ID: "n2", Zone: "x", Quota: 1}}, []Key{{Name: "a", Zone: "x"}, {Name: "b", Zone: "x", Holder: "n2"}}},
			"a >n1: nobody holds it, and n1 has room, which preferred members have not",
		},
		{
			"a quota", world{[]Member{{ID: "n1", Quota: 1}, {ID: "n2", Quota: 2}}, slices.Concat(keys("n1", "a", "b", "c", "d"), keys("n2", "e"))},
			"d n1>n2: n1 has more than its quota of keys, 1, and n2 ranks first for it",
		},
		{
			"a hot key leaves the others alone", world{two, []Key{{Name: "hot", Holder: "n1", Load: 100}, {Name: "a", Holder: "n1", Load: 10}, {Name: "b", Holder: "n1", Load: 90}, {Name: "c", Holder: "n2", Load: 5}}},
			"b n1>n2: n1 has the load 200, and n2 has 5",
		},
		{"measurements that differ little", world{two, []Key{{Name: "a", Holder: "n1", Load: 100}, {Name: "b", Holder: "n1", Load: 4}, {Name: "c", Holder: "n2", Load: 97}}}, ""},
		{
			"zones share", world{[]Member{{ID: "n1", Zone: "x"}, {ID: "n2", Zone: "x"}, {ID: "n3", Zone: "y"}, {ID: "n4", Zone: "y"}}, slices.Concat(keys("n1", "a"), keys("n2", "b"))},
			`a n1>n3: the zone "x" has 2 keys, and "y" has 0`,
		},
		{
			"a move that has begun goes on", world{two, []Key{{Name: "a", Holder: "n1", Next: "n2"}, {Name: "b", Holder: "n1", Next: "n2"}, {Name: "c", Holder: "n1", Next: "n2"}, {Name: "d", Next: "n2"}}}, "",
		},
		{"back to who held it last", world{two, []Key{{Name: "a", Last: "n1"}, {Name: "b", Last: "n2"}}}, "a >n1: nobody holds it, and n1 held it last; b >n2: nobody holds it, and n2 held it last"},
		{"kept for who will be back", world{[]Member{{ID: "n1", Back: now.Add(1)}, {ID: "n2"}}, []Key{{Name: "a", Last: "n1"}}}, ""},
		{
			"kept no longer than it said", world{[]Member{{ID: "n1", Back: now}, {ID: "n2"}}, []Key{{Name: "a", Last: "n1"}}},
			"a >n2: nobody holds it, and n2 ranks first for it",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			moves, err := Plan(c.world.members, c.world.keys, now)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range moves {
				got = append(got, fmt.Sprintf("%s %s>%s: %s", m.Key, m.From, m.To, m.Reason))
			}
			slices.Sort(got)
			if text := strings.Join(got, "; "); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}

// TestRate has held keys move at a limited rate, and free ones at once.
func TestRate(t *testing.T) {
	h := newHouse(t, 100, 2, Settings{Rate: 10, AtOnce: 4, Quiet: -1})
	if n := len(h.plan()); n != 100 {
		t.Fatalf("%d free keys are placed at once, want 100", n)
	}
	h.member(Member{ID: "n0", Draining: true})
	var moves []Move
	begin := func(want int, next time.Duration) {
		t.Helper()
		more, at := h.p.Plan(h.now)
		if next == 0 && !at.IsZero() || next > 0 && !at.Equal(h.now.Add(next)) {
			t.Errorf("the next plan is at %v, want %v from %v on", at, next, h.now)
		}
		if len(more) != want {
			t.Fatalf("%d moves begin, want %d", len(more), want)
		}
		moves = append(moves, more...)
	}
	done := func(n int) {
		for _, m := range moves[:n] {
			h.key(Key{Name: m.Key, Holder: m.To})
		}
		moves = moves[n:]
	}
	begin(4, 0)
	begin(0, 0)
	done(3)
	begin(3, 0)
	done(4)
	begin(3, 100*time.Millisecond) // that makes ten
	h.now = h.now.Add(99 * time.Millisecond)
	begin(0, time.Millisecond)
	h.now = h.now.Add(time.Millisecond)
	begin(1, 0)
	if o := h.p.Explain(h.now); len(o.Now) != 0 || len(o.Later) != 50-11 {
		t.Errorf("%d begin now and %d later, want none and 39", len(o.Now), len(o.Later))
	}
	h.now = h.now.Add(time.Hour)
	done(4)
	for _, n := range []int{4, 4} { // an hour does not make more than one second's worth
		begin(n, 0)
		done(n)
	}
	begin(2, 100*time.Millisecond)
}

// TestArrived has keys that were on their way when a member came move on once they have arrived.
func TestArrived(t *testing.T) {
	h := newHouse(t, 30, 1, Settings{Quiet: -1})
	h.plan()
	h.member(Member{ID: "n1"})
	moves, _ := h.p.Plan(h.now)
	h.member(Member{ID: "n2"})
	if more := h.plan(); len(moves) != 15 || len(more) == 0 {
		t.Fatalf("%d moves to the second member and %d to the third, want 15 and some", len(moves), len(more))
	}
	for _, m := range moves {
		h.key(Key{Name: m.Key, Holder: m.To})
	}
	h.plan()
	h.even(t, 30, 3)
}

// TestOrder has a draining member emptied before others are evened out, and free keys placed before.
func TestOrder(t *testing.T) {
	moves, err := Plan([]Member{{ID: "n1", Draining: true}, {ID: "n2"}, {ID: "n3"}}, slices.Concat(
		keys("n2", "a", "b", "c", "d", "e", "f"), keys("n1", "g", "h"), keys("", "i", "j")), time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, m := range moves {
		order = append(order, m.From)
	}
	if want := []string{"", "", "n1", "n1", "n2"}; !slices.Equal(order, want) {
		t.Errorf("moves away from %q, want %q", order, want)
	}
}

// TestPure has the same world told in two orders: the same keys move to the same members.
func TestPure(t *testing.T) {
	members := []Member{{ID: "n1"}, {ID: "n2", Quota: 20}, {ID: "n3", Zone: "x", Weight: 30}, {ID: "n4", Zone: "x"}}
	all := slices.Concat(keys("n1", "a", "b", "c", "d", "e", "f"), keys("n2", "g"))
	for i := range 60 {
		all = append(all, Key{Name: fmt.Sprint(i), Load: float64(i % 7)})
	}
	plan := func() []Move {
		moves, err := Plan(members, all, time.Unix(1e9, 0))
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(moves, func(a, b Move) int { return strings.Compare(a.Key, b.Key) })
		return moves
	}
	one := plan()
	slices.Reverse(members)
	slices.Reverse(all)
	if two := plan(); !slices.Equal(one, two) {
		t.Errorf("in one order %v\nin the other %v", one, two)
	}
}

// TestRanking holds the ranking to what it was: coordinators of two versions must agree on it.
func TestRanking(t *testing.T) {
	for _, c := range []struct {
		key, member string
		weight      int
		want        int64
	}{
		{"shard-0", "n0", 100, 2866807683930105}, {"shard-0", "n1", 100, 2063572663787595}, {"orders/7", "host-a", 300, 161394880109040},
	} {
		if got := cost(hash(c.key), &member{hash: hash(c.member), inverse: inverse(c.weight)}); got != c.want {
			t.Errorf("%s ranks %s, with the weight %d, by %d, want %d", c.key, c.member, c.weight, got, c.want)
		}
	}
}

// TestWeightedRanking has members ranked first in proportion to their weights, nearly.
func TestWeightedRanking(t *testing.T) {
	const n = 100_000
	one, three := &member{hash: hash("n1"), inverse: inverse(100)}, &member{hash: hash("n2"), inverse: inverse(300)}
	first := 0
	for i := range n {
		if k := hash(fmt.Sprint(i)); cost(k, three) < cost(k, one) {
			first++
		}
	}
	if part := float64(first) / n; part < 0.73 || part > 0.77 {
		t.Errorf("a member of three times the weight ranks first for %.3f of the keys, want 0.75", part)
	}
}

// TestExplain has words for what happens later and for what cannot be.
func TestExplain(t *testing.T) {
	now := time.Unix(1e9, 0).UTC()
	p, err := New(Settings{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []Member{{ID: "n1"}, {ID: "n2", Quota: 1}, {ID: "n3", Back: now.Add(time.Hour)}, {ID: "n4", Draining: true}} {
		if err := p.SetMember(m); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range slices.Concat(keys("n1", "a", "b", "c"), []Key{
		{Name: "d", Wants: []Want{}}, {Name: "e", Last: "n3"}, {Name: "f", Holder: "n4", Wants: []Want{{Member: "n4"}}},
		{Name: "g", Holder: "n2", Wants: []Want{{Member: "n2"}}}, {Name: "h", Wants: []Want{{Member: "n2"}}}, {Name: "i"},
	}) {
		if err := p.SetKey(k); err != nil {
			t.Fatal(err)
		}
	}
	o := p.Explain(now)
	if len(o.Now) != 1 || o.Now[0] != (Move{"i", "", "n1", "nobody holds it, and n1 ranks first for it", CauseFree}) {
		t.Errorf("now: %+v", o.Now)
	}
	if len(o.Later) != 0 {
		t.Errorf("later: %+v", o.Later)
	}
	want := []Idle{
		{"d", "nobody holds it, and nobody wants it"},
		{"e", "it is kept for n3 until 2001-09-09T02:46:40Z"},
		{"f", "n4 holds it, is draining, and no member that wants it takes keys"},
		{"h", "nobody holds it, and all that could have it have as many keys as their quotas allow"},
	}
	if !slices.Equal(o.Idle, want) {
		t.Errorf("idle: %q", o.Idle)
	}
	if _, next := p.Plan(now); !next.Equal(now.Add(DefaultQuiet)) {
		t.Errorf("the next plan is at %v, want %v", next, now.Add(DefaultQuiet))
	}
	if err := p.SetMember(Member{ID: "n2"}); err != nil { // it has no quota any more
		t.Fatal(err)
	}
	o = p.Explain(now.Add(time.Second))
	if len(o.Now) != 1 || o.Now[0].Key != "h" || len(o.Later) != 1 || o.Later[0].From != "n1" {
		t.Errorf("without the quota: now %+v, later %+v", o.Now, o.Later)
	}
}

// TestRefused has each kind of wrong input refused, with words, and nothing changed.
func TestRefused(t *testing.T) {
	p, err := New(Settings{Quiet: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.SetMember(Member{ID: "n1"}); err != nil {
		t.Fatal(err)
	}
	if err := p.SetKey(Key{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	known := func(id string) bool { return id == "n1" || id == "n2" }
	nan := 0.0
	nan /= nan
	second := func(_ any, err error) error { return err }
	for want, err := range map[string]error{
		"a member without an id; want one":                                                          p.SetMember(Member{}),
		`member "n2" has the weight -1; want 1 to 10000, or 0 for 100`:                              p.SetMember(Member{ID: "n2", Weight: -1}),
		`member "n2" has the quota -1; want the number of keys that it can hold, or 0 for no limit`: p.SetMember(Member{ID: "n2", Quota: -1}),
		`there is no member "n2" to remove; want one that was added`:                                p.RemoveMember("n2"),
		"a key without a name; want one":                                                            p.SetKey(Key{}),
		`key "b": the load -1; want more than 0 and at most 1000000000, or 0 for 1`:                 p.SetKey(Key{Name: "b", Load: -1}),
		`key "b": the load NaN; want more than 0 and at most 1000000000, or 0 for 1`:                p.SetKey(Key{Name: "b", Load: nan}),
		`key "a" is held by "n2", which is no member; want the id of one that was added`:            p.SetKey(Key{Name: "a", Holder: "n2"}),
		`key "a" is on its way to "n2", which is no member; want the id of one that was added`:      p.SetKey(Key{Name: "a", Next: "n2"}),
		`key "a" was last held by "n2", which is no member; want the id of one that was added`:      p.SetKey(Key{Name: "a", Last: "n2"}),
		`key "a" is wanted by "n2", which is no member; want the id of one that was added`:          p.SetKey(Key{Name: "a", Wants: []Want{{"n2", 1}}}),
		`key "a" is wanted by "", which is no member; want the id of one that was added`:            p.SetKey(Key{Name: "a", Wants: []Want{{}}}),
		`key "a" is wanted by "n1" twice; want each member once`:                                    p.SetKey(Key{Name: "a", Wants: []Want{{"n1", 1}, {"n1", 2}}}),
		`key "a" is wanted by "n1" with the priority -1; want 1 to 1000, or 0 for 100`:              p.SetKey(Key{Name: "a", Wants: []Want{{"n1", -1}}}),
		`there is no key "b" to remove; want one that was added`:                                    p.RemoveKey("b"),
		"Settings.Rate is -1; want 0 for no limit, or how many keys a second":                       second(New(Settings{Rate: -1})),
		"Settings.AtOnce is -1; want 0 for no limit, or how many keys":                              second(New(Settings{AtOnce: -1})),
		"Settings.Slack is 101 percent; want at most 100":                                           second(New(Settings{Slack: 101})),
		`there are two members "n1"; want each once`:                                                second(Plan([]Member{{ID: "n1"}, {ID: "n1"}}, nil, time.Time{})),
		`there are two keys "a"; want each once`:                                                    second(Plan(nil, keys("", "a", "a"), time.Time{})),
		`the move of key "a" names nobody; want the id of a member`:                                 Check([]Move{{Key: "a"}}, known),
		`a move to "n1" without a key; want the key's name`:                                         Check([]Move{{To: "n1"}}, known),
		`key "a" moves from "n1" to itself; want another member`:                                    Check([]Move{{Key: "a", From: "n1", To: "n1"}}, known),
		`key "a" moves to "n3", which is no member; want the id of a member`:                        Check([]Move{{Key: "a", To: "n3"}}, known),
		`key "a" moves away from "n3", which is no member; want the id of its holder`:               Check([]Move{{Key: "a", From: "n3", To: "n1"}}, known),
		`key "a" is moved twice; want one move a key`:                                               Check([]Move{{Key: "a", To: "n1"}, {Key: "a", To: "n2"}}, known),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %v", err, want)
		}
	}
	if err := Check([]Move{{Key: "a", To: "n1"}, {Key: "b", From: "n1", To: "n2"}}, known); err != nil {
		t.Error(err)
	}
	if moves, _ := p.Plan(time.Time{}); len(moves) != 1 || moves[0].To != "n1" {
		t.Errorf("after all that: %v", moves)
	}
}

// TestIdleAllocates has a plan without a change cost nothing, whatever the number of keys.
func TestIdleAllocates(t *testing.T) {
	h := newHouse(t, 10_000, 3, Settings{})
	h.plan()
	h.calm()
	h.plan()
	if n := testing.AllocsPerRun(100, func() { h.p.Plan(h.now) }); n > 1 {
		t.Errorf("%v allocations, want at most 1", n)
	}
}
