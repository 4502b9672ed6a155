//go:build linux

package judge

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/test/chaos/lives"
)

// sound is a correct run of 60 s with two leaders of three nodes: n1 leads with token 5 from 2 s to
// 20 s as a command, n2 with token 7 from 21 s on as a program. The leaders write, stream and read
// once a second; a watcher sees all.
func sound() *script {
	s := &script{closed: true}
	s.begin(second, 3)
	s.lives = []lives.Life{
		{Token: 5, Pid: 11, Keeper: 10, Node: 0, Kind: lives.Command, Start: 2 * second, Last: 20 * second},
		{Token: 5, Pid: 12, Node: 0, Kind: lives.Descendant, Start: 2*second + ms, Last: 20*second - ms},
		{Token: 7, Pid: 21, Node: 1, Kind: lives.Library, Start: 21 * second, Last: 59 * second},
	}
	s.saw("w", second+ms, 0, 0)
	s.saw("w", 2*second+ms, 0, 5)
	s.saw("w", 20*second+ms, 0, 0)
	s.saw("w", 21*second+ms, 1, 7)
	s.at(20*second, Event{Kind: Fault, Fault: "kill-leader", ID: 1, Node: 0})
	s.at(20*second, Event{Kind: Heal, Fault: "kill-leader", ID: 1, Node: NoNode})
	s.at(58*second, Event{Kind: Final, Node: 1, Token: 7})
	s.at(60*second, Event{Kind: Over, Node: NoNode})
	var r resource
	add := func(o *op) {
		o.n = len(s.ops) + 1
		o.ret = o.call + ms
		r.apply(o)
		s.ops = append(s.ops, o)
	}
	var seq int64
	leads := func(client string, token, from, to int64) {
		for at := from; at < to; at += second {
			seq++
			add(&op{client: client, call: at + 10*ms, op: "write", token: token, value: client + "/" + time.Duration(at).String()})
			add(&op{client: client, call: at + 20*ms, op: "stream", token: token, seq: seq})
			add(&op{client: client, call: at + 30*ms, op: "read"})
			add(&op{client: client, call: at + 40*ms, op: "peek"})
		}
	}
	leads("n1", 5, 2*second, 20*second)
	leads("n2", 7, 21*second, 30*second)
	// The first leader's client still runs, and is too late.
	add(&op{client: "n1", call: 31 * second, op: "write", token: 5, value: "too late"})
	add(&op{client: "n2", call: 32 * second, op: "peek"})
	return s
}

// find returns the k-th operation of a kind, by a client, from 0.
func (s *script) find(client, kind string, k int) *op {
	for _, o := range s.ops {
		if o.client == client && o.op == kind {
			if k == 0 {
				return o
			}
			k--
		}
	}
	panic("there is none")
}

// event is the first of a kind.
func (s *script) event(k Kind) *Event {
	return &s.events[slices.IndexFunc(s.events, func(e Event) bool { return e.Kind == k })]
}

func TestSound(t *testing.T) {
	r := sound().judge(t)
	if !r.OK() {
		t.Fatal(&r)
	}
	if r.Elections != 2 || r.LeaderChanges != 1 || r.Ops != 4*27+2 || r.StaleOffered != 1 || r.StaleRefused != 1 || r.StaleAccepted != 0 || r.Zombies != 0 || r.Faults["kill-leader"] != 1 || r.Watchers != 1 {
		t.Errorf("%+v", r)
	}
	if r.First != time.Second || r.Longest != time.Second || r.LongestAt != 20*second || r.Healthy != 58*time.Second {
		t.Errorf("first %v, longest %v at %v, healthy %v", r.First, r.Longest, time.Duration(r.LongestAt), r.Healthy)
	}
	if want := 56.0 / 58; r.Availability != want || r.AvailabilityHealthy != want {
		t.Errorf("availability %v and %v; want %v", r.Availability, r.AvailabilityHealthy, want)
	}
	if len(r.Recoveries) != 1 || r.Recoveries[0].Took != time.Second || r.Recoveries[0].Never {
		t.Errorf("recoveries %+v", r.Recoveries)
	}
}

// TestDoctored: each check fails for its own cause, and no other does.
func TestDoctored(t *testing.T) {
	frozen := func(s *script, last int64) { // n1's family from 20 s to 25 s
		for i := range 2 {
			s.lives[i].Last, s.lives[i].Paused, s.lives[i].Resumed = last, 20*second, 25*second
		}
	}
	stopped := func(s *script, node int, part string, from, to int64) {
		s.at(from, Event{Kind: Stop, Node: node, Part: part})
		s.at(to, Event{Kind: Cont, Node: node, Part: part})
	}
	family := func(s *script, part string) { stopped(s, 0, part, 20*second-ms, 25*second+ms) }
	calls := func(s *script, last int64) { // calls of n1's command without a stamp
		family(s, PartFamily)
		o := s.find("n1", "write", 18)
		o.client, o.call, o.ret = "n1-11-77", 25*second+10*ms, 25*second+11*ms
		late := *o
		late.n, late.value, late.call, late.ret = o.n+1000, "later yet", last, last+ms
		s.ops = append(s.ops, &late)
		s.ops = slices.DeleteFunc(s.ops, func(o *op) bool { return o.op == "peek" && o.call > 25*second }) // they saw another value in the twin
	}
	unknown := func(s *script, read int64) { // the outcome of n1's last write in time, and when r has read it
		s.closed = false
		o := s.find("n1", "write", 17)
		s.ops = slices.DeleteFunc(s.ops, func(p *op) bool { return p.client == "n1" && p.n > o.n && p.call < 25*second })
		s.find("n1", "write", 18).client = "n1b" // a client that was killed makes no more calls
		o.ret = 0
		s.ops = append(s.ops, &op{client: "r", n: 1, op: "read", call: read, ret: read + ms, result: "ok", seen: o.value, highest: 5})
	}
	command := func(s *script) { // the watcher is an elect watch, which reports the time of day
		wall := s.event(Run).Wall
		for _, m := range s.watch["w"] {
			m["time"] = wall.Add(time.Duration(m["at"].(int64) - second)).Format(time.RFC3339Nano)
			delete(m, "at")
		}
	}
	two := []string{CheckFenced, CheckMutex, CheckOverlap} // they led at the same time
	for _, c := range []struct {
		name   string
		doctor func(s *script)
		want   []string
		text   string // in the first violation
	}{
		{"the next begins early", func(s *script) { s.lives[2].Start = 19 * second }, two, "n1 with token 5 (command) still led 1s after"},
		{"a descendant lives on", func(s *script) { s.lives[1].Last = 22 * second }, two, "1s"},
		{"one whose first process never stamped", func(s *script) {
			s.lives = append(s.lives, lives.Life{Token: 6, Pid: 31, Node: 2, Kind: lives.Descendant, Start: 22 * second, Last: 23 * second})
		}, []string{CheckOverlap, CheckToken, CheckMutex, CheckFenced}, "n2"},
		{"at the same instant", func(s *script) { s.lives[2].Start = 20 * second }, two, "0s"},
		{"a token falls", func(s *script) { s.lives[0].Token, s.lives[1].Token = 8, 8 }, []string{CheckToken, CheckFenced, CheckWatch}, "n2 with token 7 began after n1 with token 8"},
		{"a token comes twice", func(s *script) {
			s.lives[0].Token, s.lives[1].Token = 7, 7
		}, []string{CheckToken, CheckFenced, CheckTerm, CheckWatch}, "token 7 was that of n1, and of n2"},
		{"a token comes twice at one node", func(s *script) {
			s.lives = append(s.lives, lives.Life{Token: 7, Pid: 22, Node: 1, Kind: lives.Library, Start: 60 * second, Last: 61 * second})
		}, []string{CheckToken, CheckFenced}, ""},
		{"frozen whole, and killed in time", func(s *script) { frozen(s, 25*second+90*ms); family(s, PartFamily) }, nil, ""},
		{"frozen part by part", func(s *script) {
			frozen(s, 25*second+90*ms)
			family(s, PartNode)
			family(s, PartKeeper)
			family(s, PartChild)
		}, nil, ""},
		{"frozen with the machine", func(s *script) {
			frozen(s, 25*second+90*ms)
			s.at(25*second+ms, Event{Kind: Stall, Node: NoNode, For: 5 * time.Second})
		}, nil, ""},
		{"frozen whole, and killed in time, after a longer pause", func(s *script) {
			frozen(s, 25*second+90*ms)
			family(s, PartFamily)
			for i := range 2 {
				s.lives[i].Gaps = []lives.Pause{{Paused: 4 * second, Resumed: 12 * second}}
			}
		}, nil, ""},
		{"frozen whole, and then short of a processor", func(s *script) {
			for i := range 2 {
				s.lives[i].Last = 25*second + 90*ms
				s.lives[i].Gaps = []lives.Pause{{Paused: 20 * second, Resumed: 25 * second}, {Paused: 25*second + 10*ms, Resumed: 25*second + 40*ms}}
			}
			family(s, PartFamily)
			s.at(25*second+40*ms, Event{Kind: Stall, Node: NoNode, For: 30 * time.Millisecond})
		}, nil, ""},
		{"a pause that is excused, and lived on for long", func(s *script) {
			for i := range 2 {
				s.lives[i].Last = 25*second + 10*ms
				s.lives[i].Gaps = []lives.Pause{{Paused: 10 * second, Resumed: 18 * second}}
			}
			stopped(s, 0, PartFamily, 10*second, 18*second)
		}, two, ""},
		{"it goes on before the harness does", func(s *script) {
			frozen(s, 25*second+110*ms)
			s.at(29*second, Event{Kind: Stall, Node: NoNode, For: 9 * time.Second})
		}, two, ""},
		{"one that stood still with the machine writes, and that is accepted", func(s *script) {
			frozen(s, 25*second+90*ms)
			s.at(25*second+ms, Event{Kind: Stall, Node: NoNode, For: 5 * time.Second})
			o := s.find("n1", "write", 18)
			o.call, o.ret, o.result, o.highest = 25*second+50*ms, 25*second+51*ms, "ok", 7
		}, []string{CheckRegister, CheckStale, CheckTwin}, "an overtaken leader's write was accepted"},
		{"frozen whole, and killed late", func(s *script) { frozen(s, 25*second+110*ms); family(s, PartFamily) }, two, ""},
		{"frozen whole, killed late, and the harness writes late that it went on", func(s *script) {
			frozen(s, 29*second)
			s.at(20*second-ms, Event{Kind: Stop, Node: 0, Part: PartFamily})
			s.at(25*second-ms, Event{Kind: Thaw, Node: 0, Part: PartFamily})
			s.at(29*second, Event{Kind: Cont, Node: 0, Part: PartFamily})
		}, two, ""},
		{"the same, without an event before", func(s *script) {
			frozen(s, 29*second)
			stopped(s, 0, PartFamily, 20*second-ms, 29*second)
		}, two, ""},
		{"frozen whole, killed in time, and the harness writes late that it went on", func(s *script) {
			frozen(s, 25*second+90*ms)
			s.at(20*second-ms, Event{Kind: Stop, Node: 0, Part: PartFamily})
			s.at(25*second-ms, Event{Kind: Thaw, Node: 0, Part: PartFamily})
			s.at(25*second+50*ms, Event{Kind: End, Node: 0, Pid: 100})
			s.at(29*second, Event{Kind: Cont, Node: 0, Part: PartFamily})
		}, nil, ""},
		{"a pause after it went on, and before the harness writes that", func(s *script) {
			frozen(s, 28*second+90*ms)
			for i := range 2 {
				s.lives[i].Paused, s.lives[i].Resumed = 0, 0
				s.lives[i].Gaps = []lives.Pause{{Paused: 18 * second, Resumed: 20 * second}, {Paused: 20*second + 500*ms, Resumed: 28 * second}}
			}
			s.at(18*second-ms, Event{Kind: Stop, Node: 0, Part: PartFamily})
			s.at(20*second-ms, Event{Kind: Thaw, Node: 0, Part: PartFamily})
			s.at(29*second, Event{Kind: Cont, Node: 0, Part: PartFamily})
		}, two, ""},
		{"frozen whole, without an event that it went on", func(s *script) {
			frozen(s, 25*second+50*ms)
			s.at(20*second-ms, Event{Kind: Stop, Node: 0, Part: PartFamily})
		}, two, ""},
		{"frozen whole, and ended before an event that it went on", func(s *script) {
			frozen(s, 25*second+50*ms)
			s.at(20*second-ms, Event{Kind: Stop, Node: 0, Part: PartFamily})
			s.at(25*second+60*ms, Event{Kind: End, Node: 0, Pid: 100})
		}, two, ""},
		{"a command calls the register when the next one leads, and is refused", func(s *script) {
			o := s.find("n1", "write", 18)
			o.client, o.call, o.ret = "n1-11-77", 22*second, 22*second+ms
			s.ops = s.ops[:len(s.ops)-1] // a peek that saw it
		}, two, "n1 with token 5 (command) still led 1s after"},
		{"it calls without an answer", func(s *script) {
			o := s.find("n1", "stream", 17)
			o.n, o.client, o.call, o.ret = 1, "n1-11-77", 21*second+500*ms, 0
		}, two, "n1 with token 5 (command) still led 500ms after"},
		{"frozen whole, it calls before it stamps, and is killed in time", func(s *script) { calls(s, 25*second+90*ms) }, nil, ""},
		{"frozen whole, it calls before it stamps, and is killed late", func(s *script) { calls(s, 25*second+120*ms) }, two, ""},
		{"another process with that token calls", func(s *script) { s.find("n1", "write", 18).client = "n1-99-77" }, nil, ""},
		{"frozen, and its keeper not", func(s *script) { frozen(s, 25*second+10*ms); family(s, PartChild) }, two, ""},
		{"another was frozen", func(s *script) {
			frozen(s, 25*second+10*ms)
			stopped(s, 2, PartFamily, 19*second, 26*second)
		}, two, ""},
		{"it was frozen at another time", func(s *script) {
			frozen(s, 25*second+10*ms)
			stopped(s, 0, PartFamily, 3*second, 4*second)
		}, two, ""},
		{"frozen for a small part of its pause", func(s *script) {
			frozen(s, 25*second+10*ms)
			stopped(s, 0, PartFamily, 22*second, 23*second)
		}, two, ""},
		{"a program that was frozen believes on", func(s *script) {
			frozen(s, 25*second+10*ms)
			s.lives[0].Kind, s.lives = lives.Library, slices.Delete(s.lives, 1, 2)
			family(s, PartFamily)
		}, two, ""},

		{"a stale write is accepted", func(s *script) { s.find("n1", "write", 18).result = "ok" }, []string{CheckRegister, CheckStale}, ""},
		{"a stale write is accepted, and read", func(s *script) {
			o := s.find("n1", "write", 18)
			o.result, o.highest = "ok", 5
			s.ops = append(s.ops, &op{client: "n2", n: 1000, op: "read", call: 40 * second, ret: 41 * second, result: "ok", seen: "too late", highest: 7})
		}, []string{CheckRegister, CheckStale, CheckHighest}, ""},
		{"a zombie's write is accepted", func(s *script) {
			frozen(s, 25*second+90*ms)
			family(s, PartFamily)
			o := s.find("n1", "write", 18)
			o.call, o.ret, o.result, o.highest = 25*second+50*ms, 25*second+51*ms, "ok", 7
		}, []string{CheckRegister, CheckStale, CheckTwin}, "an overtaken leader's write was accepted"},
		{"a good write is refused", func(s *script) { s.find("n2", "write", 3).result = "stale" }, []string{CheckRegister}, "not linearizable"},
		{"a read sees an old value", func(s *script) { s.find("n2", "read", 4).seen = s.find("n2", "read", 3).seen }, []string{CheckRegister}, ""},
		{"a read sees what was never written", func(s *script) { s.find("n2", "read", 4).seen = "<b>" }, []string{CheckRegister}, ""},
		{"a read sees what was refused", func(s *script) { s.find("n2", "read", 8).seen = "too late" }, []string{CheckRegister}, ""},
		{"the highest token falls", func(s *script) { s.find("n2", "stream", 4).highest = 5 }, []string{CheckHighest}, "5, after it had been 7"},
		{"the twin forgets", func(s *script) { s.find("n2", "peek", 4).seen = s.find("n2", "peek", 3).seen }, []string{CheckTwin}, ""},
		{"a sequence is accepted twice", func(s *script) { s.find("n1", "stream", 4).seq = s.find("n1", "stream", 3).seq }, []string{CheckStream, CheckSequence}, "it was accepted twice"},
		{"a sequence is accepted after a later one", func(s *script) { s.find("n1", "stream", 9).seq = 2 }, []string{CheckStream, CheckSequence}, "after 5.9 had been accepted"},
		{"a sequence of an earlier leader is accepted", func(s *script) { s.find("n2", "stream", 3).token = 5 }, []string{CheckStream, CheckSequence}, "after 7.21 had been accepted"},
		{"a leader's own sequence comes again, and is refused", func(s *script) {
			o := *s.find("n2", "stream", 3)
			o.n, o.call, o.ret, o.result = len(s.ops)+1, 31*second, 31*second+ms, "stale"
			o.last = s.find("n2", "stream", 8).last
			s.ops = append(s.ops, &o)
		}, []string{CheckSequence}, "after the same had called 7.27"},
		{"a sequence of an earlier leader comes late, and is refused", func(s *script) {
			o := *s.find("n2", "stream", 8)
			o.n, o.token, o.seq, o.call, o.ret, o.result = len(s.ops)+1, 5, 99, 31*second, 31*second+ms, "stale"
			s.ops = append(s.ops, &o)
		}, nil, ""},
		{"a good sequence is refused", func(s *script) { s.find("n2", "stream", 3).result = "stale" }, []string{CheckStream}, ""},

		{"a write of unknown outcome that was read", func(s *script) { unknown(s, 20*second+500*ms) }, nil, ""},
		{"a write of unknown outcome that was read before it was called", func(s *script) { unknown(s, 19*second+ms) }, []string{CheckRegister}, ""},

		{"a watcher sees a token fall", func(s *script) { s.saw("w", 22*second, 0, 5); s.saw("w", 23*second, 1, 7) }, []string{CheckWatch}, "saw token 5 of n1 at 21s, after it had seen 7"},
		{"a watcher does not see the end", func(s *script) { s.saw("w", 57*second, 0, 0) }, []string{CheckWatch}, "that there is no leader"},
		{"a watcher sees another at the end", func(s *script) { s.event(Final).Token = 8 }, []string{CheckWatch}, "saw last n2 with token 7, at 20.001s; in the end n2 led with token 8"},
		{"a watcher misses a leader", func(s *script) { s.watch["w"] = slices.Delete(s.watch["w"], 1, 2) }, []string{CheckWatch}, "did not see within 10s that n1 with token 5 led from 1s to 19s"},
		{"a watcher sees a leader late", func(s *script) { s.watch["w"][3]["at"] = 31*second + ms }, []string{CheckWatch}, ""},
		{"a watcher that stood still with the machine sees a leader late", func(s *script) {
			s.watch["w"][3]["at"] = 33*second + 999*ms
			s.at(24*second, Event{Kind: Stall, Node: NoNode, For: 2 * time.Second})
			s.at(32*second, Event{Kind: Stall, Node: NoNode, For: time.Second})
		}, nil, ""},
		{"a watcher sees a leader later than it stood still", func(s *script) {
			s.watch["w"][3]["at"] = 33*second + ms
			s.at(24*second, Event{Kind: Stall, Node: NoNode, For: 2 * time.Second})
			s.at(40*second, Event{Kind: Stall, Node: NoNode, For: time.Second})
		}, []string{CheckWatch}, "did not see within 10s"},
		{"a watcher misses a leader of a minority", func(s *script) {
			s.watch["w"] = slices.Delete(s.watch["w"], 1, 2)
			s.at(second, Event{Kind: Health, Node: NoNode, Healthy: []bool{true, false, false}})
		}, nil, ""},
		{"a watcher misses a leader whose majority falls ill", func(s *script) {
			s.watch["w"] = slices.Delete(s.watch["w"], 1, 2)
			s.at(9*second, Event{Kind: Health, Node: NoNode, Healthy: []bool{true, false, false}})
		}, nil, ""},
		{"a watcher has seen nothing", func(s *script) { s.watch["w2"] = []map[string]any{{"at": 61 * second, "leader": nil}} }, []string{CheckWatch}, "has seen nothing"},
		{"a watcher that is started while a node leads sees that one", func(s *script) {
			s.saw("late-7-1", 11*second, 0, 5)
			s.saw("late-7-1", 21*second+ms, 1, 7)
			s.at(5*second, Event{Kind: Watched, Node: NoNode, Text: "late"})
		}, nil, ""},
		{"a watcher that is started while a node leads misses that one", func(s *script) {
			s.saw("late-7-1", 15*second+ms, 0, 5)
			s.saw("late-7-1", 21*second+ms, 1, 7)
			s.at(5*second, Event{Kind: Watched, Node: NoNode, Text: "late"})
		}, []string{CheckWatch}, "late-7-1 did not see within 10s that n1 with token 5 led"},
		{"a watcher of which nothing is known has no beginning", func(s *script) {
			s.saw("late-7-1", 15*second+ms, 0, 5)
			s.saw("late-7-1", 21*second+ms, 1, 7)
		}, nil, ""},
		{"a watcher that was started has left nothing", func(s *script) {
			s.at(5*second, Event{Kind: Watched, Node: NoNode, Text: "w2"})
			s.events = slices.DeleteFunc(s.events, func(e Event) bool { return e.Kind == Final })
		}, []string{CheckWatch}, "w2 did not see within 10s that n2 with token 7 led"},
		{"a watcher has gone", func(s *script) {
			s.watch["w2"] = s.watch["w"][:2]
			s.at(8*second, Event{Kind: Unwatched, Node: NoNode, Text: "w2"})
		}, nil, ""},
		{"elect watch sees it all", func(s *script) {
			command(s)
			for _, m := range s.watch["w"] {
				m["name"], m["election"] = "e", "peer://"
			}
		}, nil, ""},
		{"elect watch misses a leader", func(s *script) {
			command(s)
			s.watch["w"] = slices.Delete(s.watch["w"], 1, 2)
		}, []string{CheckWatch}, ""},

		{"the harness saw a promise broken", func(s *script) {
			s.at(30*second, Event{Kind: Broken, Node: NoNode, Check: "paused", Text: "n1 leads, and is paused"})
		}, []string{"paused"}, "paused: 29s: n1 leads, and is paused"},

		{"a term falls", func(s *script) {
			s.at(10*second, Event{Kind: Told, Node: 2, Term: 9})
			s.at(11*second, Event{Kind: Told, Node: 2, Term: 8})
		}, []string{CheckMemory}, "n3 said that it is in term 8, 1s after it had said 9"},
		{"a term that was not durable", func(s *script) {
			s.at(10*second, Event{Kind: Told, Node: 2, Term: 9})
			s.at(10*second, Event{Kind: End, Node: 2, Pid: 102})
			s.at(11*second, Event{Kind: Start, Node: 2, Pid: 103})
			s.at(12*second, Event{Kind: Told, Node: 2, Term: 8})
		}, nil, ""},
		{"a process grows", func(s *script) {
			for i := range int64(40) {
				s.at((2+i)*second, Event{Kind: Used, Node: 1, Pid: 101, Usage: &Usage{FDs: int(20 + 3*i), Threads: 9, RSS: 20 << 20}})
			}
		}, []string{CheckGrowth}, "process 101 of n2 grows: descriptors"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sound()
			c.doctor(s)
			r := s.judge(t)
			got := slices.Sorted(maps.Keys(r.Counts))
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Fatalf("violates %v; want %v\n%v", got, c.want, &r)
			}
			if !strings.Contains(r.String(), c.text) {
				t.Errorf("no %q in\n%v", c.text, &r)
			}
		})
	}
}
