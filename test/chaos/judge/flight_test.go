//go:build linux

package judge

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/internal/protocol/trace"
)

// tape is a node that elects itself, alone, and its recorder's output.
type tape struct {
	t       *testing.T
	id      protocol.NodeID
	m       *quorum.Machine
	enc     *trace.Encoder
	out     bytes.Buffer
	n, life uint64
	now     protocol.Instant
	saved   []protocol.Save // and not answered
	durable []byte
}

// newTape begins a segment and a life, which boots with what was durable.
func newTape(t *testing.T, id protocol.NodeID, life uint64, durable []byte) *tape {
	t.Helper()
	p := &tape{t: t, id: id, life: life, now: protocol.Instant(time.Hour) * protocol.Instant(life), durable: durable}
	self := protocol.Voter{ID: id, Dir: protocol.DirID{id[1]}}
	c := quorum.Config{Self: self, Membership: &protocol.Membership{Version: 1, Voters: []protocol.Voter{self}}}
	var err error
	if p.m, err = quorum.New(c); err != nil {
		t.Fatal(err)
	}
	p.segment(c)
	p.step(protocol.Input{Kind: protocol.Boot, Durable: durable})
	return p
}

// segment begins a segment.
func (p *tape) segment(c quorum.Config) {
	p.t.Helper()
	config, err := json.Marshal(c)
	if err == nil {
		p.enc, err = trace.NewEncoder(&p.out, &trace.Header{Format: trace.Format, Protocol: quorum.Name, Source: trace.Recorder, Nodes: []trace.Node{{ID: p.id, Config: config}}})
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *tape) step(in protocol.Input) protocol.View {
	p.t.Helper()
	p.now += protocol.Instant(time.Millisecond)
	in.Now, in.Rand = protocol.Reading{Boot: p.now, Mono: p.now}, uint64(p.n)+1
	var fx protocol.Effects
	p.m.Step(&in, &fx)
	v := p.m.View()
	p.n++
	if err := p.enc.Event(&trace.Event{N: p.n, Node: p.id, Life: p.life, Kind: trace.Step, Input: &in, Effects: &fx, View: &v}); err != nil {
		p.t.Fatal(err)
	}
	p.saved = append(p.saved, fx.Saves...)
	return v
}

// save answers what was saved.
func (p *tape) save() {
	for len(p.saved) > 0 {
		s := p.saved[0]
		p.saved = p.saved[1:]
		p.durable = s.Data
		p.step(protocol.Input{Kind: protocol.Saved, Number: s.Number})
	}
}

// elect makes it campaign until it is elected, and resign, that many times.
func (p *tape) elect(times int) *tape {
	p.t.Helper()
	p.step(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Campaign}})
	for range times {
		for v := p.m.View(); !v.Active; v = p.m.View() {
			p.save()
			p.now = max(p.now, p.m.NextFire())
			p.step(protocol.Input{Kind: protocol.Fire})
			if p.n > 1000 {
				p.t.Fatalf("it is not elected: %+v", v)
			}
		}
		token := p.m.View().Token
		p.step(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Resign}})
		p.step(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Joined, Token: token}})
		p.save()
	}
	return p
}

func segmentPath(parts ...string) string { return filepath.Join(parts...) }

func TestFlights(t *testing.T) {
	first := newTape(t, "n1", 1, nil).elect(3)
	if first.m.View().Term < 3 {
		t.Fatalf("three elections, and term %d", first.m.View().Term)
	}
	next := newTape(t, "n1", 2, first.durable).elect(1)
	forgetful := newTape(t, "n1", 2, nil).elect(1)
	// One that is killed before its last term is durable.
	cut := newTape(t, "n1", 2, first.durable)
	cut.step(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Campaign}})
	cut.save()
	for cut.m.View().Term == first.m.View().Term {
		cut.now = max(cut.now, cut.m.NextFire())
		cut.step(protocol.Input{Kind: protocol.Fire})
	}
	// One whose disk fails as it stands.
	failed := newTape(t, "n1", 2, first.durable)
	failed.step(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Campaign}})
	failed.save()
	for len(failed.saved) == 0 {
		failed.now = max(failed.now, failed.m.NextFire())
		failed.step(protocol.Input{Kind: protocol.Fire})
	}
	failed.step(protocol.Input{Kind: protocol.Saved, Number: failed.saved[0].Number, Failed: true})
	afterCut := newTape(t, "n1", 3, cut.durable).elect(1)
	other := newTape(t, "n2", 1, nil).elect(1)

	one, two := segmentPath("data", "n1", "elections", "e", "flight-00000001.ndjson"), segmentPath("data", "n1", "elections", "e", "flight-00000002.ndjson")
	three := segmentPath("data", "n1", "elections", "e", "flight-00000003.ndjson")
	line := func(tape *tape, k int) []byte { return slices.Collect(bytes.Lines(tape.out.Bytes()))[k] }
	// between is half an hour after a life of n1 began, and before the next.
	between := func(life int64) []Event {
		return []Event{{At: life*int64(time.Hour) + int64(time.Hour)/2, Kind: Wiped}}
	}
	for _, c := range []struct {
		name  string
		files map[string][]byte
		wiped []Event // of the first node, unless it says otherwise
		want  []string
		text  string
		count int // segments
	}{
		{"nothing", nil, nil, nil, "", 0},
		{"two lives", map[string][]byte{one: first.out.Bytes(), two: next.out.Bytes()}, nil, nil, "", 2},
		{"a torn line", map[string][]byte{one: first.out.Bytes()[:first.out.Len()-20], two: next.out.Bytes()}, nil, nil, "", 2},
		{"a torn segment that is not the last", map[string][]byte{one: first.out.Bytes(), two: cut.out.Bytes()[:cut.out.Len()-20], three: afterCut.out.Bytes()}, nil, nil, "", 3},
		{"nothing in it", map[string][]byte{one: first.out.Bytes(), two: nil}, nil, nil, "", 1},
		{"half a header", map[string][]byte{one: first.out.Bytes(), two: line(next, 0)[:30]}, nil, nil, "", 1},
		{"a header alone", map[string][]byte{one: first.out.Bytes(), two: line(next, 0)}, nil, nil, "", 1},
		{"a term that was never durable is gone", map[string][]byte{one: first.out.Bytes(), two: cut.out.Bytes(), three: afterCut.out.Bytes()}, nil, nil, "", 3},
		{"a term whose save has failed is gone", map[string][]byte{one: first.out.Bytes(), two: failed.out.Bytes(), three: afterCut.out.Bytes()}, nil, nil, "", 3},
		{"a disk that was put aside", map[string][]byte{
			segmentPath("flight", "n1", "2", "flight-00000001.ndjson"):  first.out.Bytes(),
			segmentPath("flight", "n1", "10", "flight-00000002.ndjson"): cut.out.Bytes(),
			one: first.out.Bytes(), two: cut.out.Bytes()[:cut.out.Len()-20], three: afterCut.out.Bytes(),
		}, nil, nil, "", 3},
		{"it forgets", map[string][]byte{one: first.out.Bytes(), two: forgetful.out.Bytes()}, nil, []string{CheckMemory}, "n1 had made term 3 durable, and booted with 0", 2},
		{"it forgets what was put aside", map[string][]byte{segmentPath("flight", "n1", "1", "flight-00000001.ndjson"): first.out.Bytes(), one: forgetful.out.Bytes()}, nil, []string{CheckMemory}, "", 2},
		{"a wiped disk forgets", map[string][]byte{one: first.out.Bytes(), two: forgetful.out.Bytes()}, between(1), nil, "", 2},
		{"a wiped disk forgets once", map[string][]byte{
			one: first.out.Bytes(), two: forgetful.out.Bytes(),
			three: newTape(t, "n1", 3, nil).elect(1).out.Bytes(),
		}, between(1), []string{CheckMemory}, "00000003.ndjson)", 3},
		{"a disk wiped twice forgets twice", map[string][]byte{
			one: first.out.Bytes(), two: forgetful.out.Bytes(),
			three: newTape(t, "n1", 3, nil).elect(1).out.Bytes(),
		}, slices.Concat(between(1), between(2)), nil, "", 3},
		{"a disk wiped twice before it forgets a second time", map[string][]byte{
			one: first.out.Bytes(), two: forgetful.out.Bytes(),
			three: newTape(t, "n1", 3, nil).elect(1).out.Bytes(),
		}, slices.Concat(between(1), between(1)), []string{CheckMemory}, "00000003.ndjson)", 3},
		{"a disk that was wiped before it knew", map[string][]byte{one: first.out.Bytes(), two: forgetful.out.Bytes()}, between(0), []string{CheckMemory}, "00000002.ndjson)", 2},
		{"a disk that is wiped after it has forgotten", map[string][]byte{one: first.out.Bytes(), two: forgetful.out.Bytes()}, between(2), []string{CheckMemory}, "00000002.ndjson)", 2},
		{"another node's disk is wiped", map[string][]byte{one: first.out.Bytes(), two: forgetful.out.Bytes()}, []Event{{At: between(1)[0].At, Kind: Wiped, Node: 1}}, []string{CheckMemory}, "00000002.ndjson)", 2},
		{"a wiped disk, by a clock that is an hour ahead", map[string][]byte{one: first.out.Bytes(), two: forgetful.out.Bytes()},
			append(between(0), Event{At: second, Kind: Clock, Ahead: time.Hour}), nil, "", 2},
		{"a disk that is wiped too late, by a clock that is an hour ahead", map[string][]byte{one: first.out.Bytes(), two: forgetful.out.Bytes()},
			append(between(1), Event{At: second, Kind: Clock, Ahead: time.Hour}), []string{CheckMemory}, "00000002.ndjson)", 2},
		{"two are elected in one term", map[string][]byte{one: first.out.Bytes(), segmentPath("data", "n2", "flight-00000001.ndjson"): other.out.Bytes()}, nil, []string{CheckTerm}, "both elected in term 1", 2},
		{"a step that the machine does not take", map[string][]byte{one: bytes.Replace(first.out.Bytes(), []byte(`"role":"candidate"`), []byte(`"role":"follower"`), 1)}, nil, []string{CheckTrace}, "the machine does something else", 1},
		{"a line in the midst that is cut short", map[string][]byte{one: bytes.Replace(first.out.Bytes(), line(first, 4), line(first, 4)[:20], 1)}, nil, []string{CheckTrace}, "a defective record", 1},
		{"an unknown protocol", map[string][]byte{one: bytes.Replace(first.out.Bytes(), []byte(`"protocol":"quorum"`), []byte(`"protocol":"chance"`), 1)}, nil, []string{CheckTrace}, "not known here", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sound()
			s.files = c.files
			for _, e := range c.wiped {
				s.at(e.At, e)
			}
			r := s.judge(t)
			if got := slices.Sorted(maps.Keys(r.Counts)); !slices.Equal(got, c.want) {
				t.Fatalf("violates %v; want %v\n%v", got, c.want, &r)
			}
			if !strings.Contains(r.String(), c.text) {
				t.Errorf("no %q in\n%v", c.text, &r)
			}
			if r.Segments != c.count || c.count > 0 && (r.Steps > 0) == strings.Contains(c.name, "unknown protocol") {
				t.Errorf("%d segments, %d steps; want %d segments, and steps unless the protocol is unknown", r.Segments, r.Steps, c.count)
			}
		})
	}
	if !bytes.Contains(first.out.Bytes(), []byte(`"role":"candidate"`)) {
		t.Errorf("no candidate to doctor in %s", first.out.Bytes())
	}
}

// TestTold: the terms that nodes report are counted where there was one before.
func TestTold(t *testing.T) {
	s := sound()
	for i := range int64(4) {
		s.at((10+i)*second, Event{Kind: Told, Node: 2, Term: 9 + i})
	}
	s.at(12*second+ms, Event{Kind: Start, Node: 2, Pid: 110})
	if r := s.judge(t); r.Told != 2 || !r.OK() {
		t.Errorf("%d terms were compared; want 2\n%v", r.Told, &r)
	}
}
