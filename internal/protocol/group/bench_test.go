package group

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/race"
)

const (
	benchKeys    = 100_000
	benchMembers = 3
)

// played is a coordinator whose members are played.
type played struct {
	c        *Coordinator
	fx       Effects
	in       Input
	sessions []Session
	seq      uint64
}

func benchKey(i int) Key { return Key(fmt.Sprintf("shard-%06d", i)) }

func newPlayed(tb testing.TB, members, keys int) *played {
	c, err := NewCoordinator(CoordinatorConfig{Settings: settings()})
	if err != nil {
		tb.Fatal(err)
	}
	f := &played{c: c, in: Input{Now: protocol.Reading{Boot: 1e9, Mono: 1e9}}}
	f.give(Input{Kind: Begin, Tenure: 1})
	wants := make([]Want, keys)
	for i := range members {
		for j := range wants {
			wants[j] = Want{Key: benchKey(j)} // each report has strings of its own
		}
		id := protocol.NodeID(fmt.Sprintf("n%d", i+1))
		s := Session{id, protocol.Nonce{uint64(i + 1), 1}, 1}
		f.sessions = append(f.sessions, s)
		f.give(Input{Kind: Opened, Conn: Conn(i + 1), From: id})
		f.message(i, Message{Type: Report, Session: s, Promise: 3 * time.Second, Wants: wants})
	}
	for range 14 {
		f.pass(300 * time.Millisecond)
		for i := range members {
			f.poll(i)
		}
		f.give(Input{Kind: Fire})
	}
	for i := range members {
		f.poll(i)
	}
	if !c.Covered() {
		tb.Fatal("cover does not end")
	}
	return f
}

func (f *played) pass(d time.Duration) {
	f.in.Now.Boot += protocol.Instant(d)
	f.in.Now.Mono += protocol.Instant(d)
}

func (f *played) give(in Input) {
	in.Now, in.Proven = f.in.Now, true
	f.in = in
	f.fx.Reset()
	f.c.Step(&f.in, &f.fx)
}

func (f *played) message(i int, msg Message) {
	msg.Number, msg.Tenure = 1, 1
	f.give(Input{Kind: Receive, Conn: Conn(i + 1), From: f.sessions[i].Member, Message: msg})
}

func (f *played) poll(i int) {
	f.seq++
	f.message(i, Message{Type: Poll, Seq: f.seq, Acked: 9, Admitted: f.c.sessions[i].admitted})
}

// moves are of all keys, each in turn to another member.
func (f *played) moves(keys int) []Move {
	all := make([]Move, keys)
	for i := range all {
		all[i] = Move{Key: benchKey(i), To: f.sessions[i%len(f.sessions)]}
	}
	return all
}

func (f *played) assignAll(tb testing.TB, keys int) {
	f.give(Input{Kind: Moves, Moves: f.moves(keys)})
	if n := len(f.fx.Changes); n != keys || len(f.fx.Sends) != len(f.sessions) {
		tb.Fatalf("%d changes, %d messages", n, len(f.fx.Sends))
	}
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// memory returns what a key costs at a coordinator whose members all want it, and at a member that holds it.
func memory(tb testing.TB, members, keys int) (coordinator, member float64) {
	before := inUse()
	f := newPlayed(tb, members, keys)
	f.assignAll(tb, keys)
	f.fx, f.in = Effects{}, Input{}
	coordinator = float64(inUse()-before) / float64(keys)
	runtime.KeepAlive(f)
	before = inUse()
	m := holding(tb, keys)
	member = float64(inUse()-before) / float64(keys)
	runtime.KeepAlive(m)
	return coordinator, member
}

func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		coordinator, member := memory(b, benchMembers, benchKeys)
		b.ReportMetric(coordinator, "B/key@coordinator")
		b.ReportMetric(member, "B/key@member")
	}
}

// TestMemory: 100,000 keys are tens of megabytes, whatever the number of members that want them.
func TestMemory(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector has memory of its own")
	}
	for _, members := range []int{1, 10} {
		coordinator, member := memory(t, members, benchKeys/4)
		t.Logf("%d members: %.0f bytes a key at the coordinator, %.0f at a member", members, coordinator, member)
		if coordinator > 300 || member > 150 {
			t.Errorf("%d members: %.0f bytes a key at the coordinator, %.0f at a member; want at most 300 and 150", members, coordinator, member)
		}
	}
}

// holding is a member that holds keys.
func holding(tb testing.TB, keys int) *Member {
	m, err := NewMember(MemberConfig{Settings: settings(), ID: "n1"})
	if err != nil {
		tb.Fatal(err)
	}
	var fx Effects
	in := Input{Now: protocol.Reading{Boot: 1e9, Mono: 1e9}}
	give := func(next Input) {
		next.Now = in.Now
		in = next
		fx.Reset()
		m.Step(&in, &fx)
	}
	give(Input{Kind: Start, Session: Session{Process: protocol.Nonce{1, 1}}})
	wants, held := make([]Want, keys), make([]Held, keys)
	for i := range wants {
		wants[i], held[i] = Want{Key: benchKey(i)}, Held{Key: benchKey(i), Token: Token{1, 1}}
	}
	give(Input{Kind: Choose, Wants: wants})
	for _, msg := range []Message{
		{Type: Greet}, {Type: Answer, Seq: 1, Promise: 3 * time.Second}, {Type: Admit, Registry: &Registry{Tenure: 1, Version: 1}}, {Type: Assign, Held: held},
	} {
		msg.Tenure, msg.Number = 1, m.number
		give(Input{Kind: Receive, Conn: 1, Message: msg})
	}
	if len(fx.Starts) != keys {
		tb.Fatalf("%d begin", len(fx.Starts))
	}
	return m
}

// BenchmarkPoll is a step of a coordinator with 100 members.
func BenchmarkPoll(b *testing.B) {
	f := newPlayed(b, 100, 10)
	b.ReportAllocs()
	for b.Loop() {
		f.poll(50)
	}
}

// BenchmarkAssign is one step that assigns 33,334 keys.
func BenchmarkAssign(b *testing.B) {
	f := newPlayed(b, benchMembers, benchKeys)
	var fresh []byte
	fresh = f.c.AppendState(fresh)
	moves := f.moves(benchKeys / 3)
	for b.Loop() {
		b.StopTimer()
		if err := f.c.LoadState(fresh); err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		b.StartTimer()
		f.give(Input{Kind: Moves, Moves: moves})
		if len(f.fx.Changes) != benchKeys/3 {
			b.Fatal(len(f.fx.Changes))
		}
	}
}

// BenchmarkReport is a step that takes a report of 33,333 held keys and 100,000 wishes.
func BenchmarkReport(b *testing.B) {
	f := newPlayed(b, benchMembers, benchKeys)
	f.assignAll(b, benchKeys)
	var held []Held
	var wants []Want
	for i := range benchKeys {
		if i%3 == 0 {
			held = append(held, Held{Key: benchKey(i), Token: Token{1, 1}})
		}
		wants = append(wants, Want{Key: benchKey(i)})
	}
	for n := uint64(2); b.Loop(); n++ {
		f.give(Input{Kind: Receive, Conn: 1, From: "n1", Message: Message{
			Type: Report, Session: f.sessions[0], Number: n, Tenure: 1, Admitted: true, Promise: 3 * time.Second, Held: held, Wants: wants,
		}})
		if len(f.fx.Changes) != 0 || len(f.fx.Wanted) != 0 {
			b.Fatalf("%d changes", len(f.fx.Changes))
		}
	}
}

// BenchmarkEnd is a step in which a witness says that the holder of 33,333 keys is dead.
func BenchmarkEnd(b *testing.B) {
	f := newPlayed(b, benchMembers, benchKeys)
	f.assignAll(b, benchKeys)
	var fresh []byte
	fresh = f.c.AppendState(fresh)
	for b.Loop() {
		b.StopTimer()
		if err := f.c.LoadState(fresh); err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		b.StartTimer()
		f.give(Input{Kind: Dead, Session: f.sessions[1]})
		if len(f.fx.Changes) != benchKeys/3 {
			b.Fatal(len(f.fx.Changes))
		}
	}
}

// BenchmarkLapse is a step in which the session of a member ends that holds 33,334 keys.
func BenchmarkLapse(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		m := holding(b, benchKeys/3)
		runtime.GC()
		var fx Effects
		b.StartTimer()
		at := m.NextFire().Add(time.Hour)
		m.Step(&Input{Kind: Fire, Now: protocol.Reading{Boot: at, Mono: at}}, &fx)
		if len(fx.Stops) != benchKeys/3 || len(fx.Sends[0].Message.Overruns) != benchKeys/3 {
			b.Fatal(len(fx.Stops))
		}
	}
}

// TestPollAllocatesNothing: a poll costs the same whatever the number of keys and members.
func TestPollAllocatesNothing(t *testing.T) {
	f := newPlayed(t, 10, 100)
	if n := testing.AllocsPerRun(1000, func() { f.poll(5) }); n != 0 || len(f.fx.Sends) != 1 {
		t.Errorf("a poll allocates %v times and sends %d; want 0 and 1", n, len(f.fx.Sends))
	}
}
