package picture_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/internal/race"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/picture"
	"github.com/electd/elect/lab/sim/protocols"
)

var rewrite = flag.Bool("rewrite", false, "write what is drawn into testdata")

func TestMain(m *testing.M) { os.Exit(race.Main(m)) }

// script makes a trace by hand, event by event.
type script struct {
	t   *testing.T
	out bytes.Buffer
	enc *trace.Encoder
	n   uint64
}

func write(t *testing.T, source trace.Source, nodes ...protocol.NodeID) *script {
	t.Helper()
	s := &script{t: t}
	h := &trace.Header{Format: trace.Format, Protocol: "raft", Source: source, Seed: 7}
	for _, id := range nodes {
		h.Nodes = append(h.Nodes, trace.Node{ID: id})
	}
	var err error
	if s.enc, err = trace.NewEncoder(&s.out, h); err != nil {
		t.Fatal(err)
	}
	return s
}

// add writes an event and returns its number.
func (s *script) add(at time.Duration, e trace.Event) uint64 {
	s.t.Helper()
	s.n++
	e.N, e.At = s.n, int64(at)
	if err := s.enc.Event(&e); err != nil {
		s.t.Fatal(err)
	}
	return s.n
}

// step writes one of a machine.
func (s *script) step(at time.Duration, id protocol.NodeID, cause uint64, in protocol.Input, v protocol.View, fx protocol.Effects) uint64 {
	s.t.Helper()
	in.Now = protocol.Reading{Boot: protocol.Instant(at), Mono: protocol.Instant(at)}
	return s.add(at, trace.Event{Node: id, Life: 1, Kind: trace.Step, Cause: cause, Input: &in, View: &v, Effects: &fx})
}

const ms = time.Millisecond

var (
	follows = protocol.View{Role: protocol.Follower}
	stands  = protocol.View{Role: protocol.Candidate, Term: 1}
	leads   = protocol.View{Role: protocol.Leader, Term: 1, Token: 1, Elected: true}
)

func to(id protocol.NodeID, kind protocol.MessageType) protocol.Send {
	return protocol.Send{To: id, Message: protocol.Message{Type: kind}}
}

func from(id protocol.NodeID, kind protocol.MessageType) protocol.Input {
	return protocol.Input{Kind: protocol.Receive, From: id, Message: protocol.Message{Type: kind}}
}

// story is a short trace with one of everything.
func story(t *testing.T) []byte {
	s := write(t, trace.Sim, "n1", "n2", "n3")
	for _, id := range []protocol.NodeID{"n1", "n2", "n3"} {
		s.step(0, id, 0, protocol.Input{Kind: protocol.Boot}, follows, protocol.Effects{})
	}
	// The questions wait for a save; one is lost, one is doubled.
	ask := s.step(100*ms, "n1", 0, protocol.Input{Kind: protocol.Fire}, stands, protocol.Effects{
		Saves: []protocol.Save{{Number: 1}}, Sends: []protocol.Send{{To: "n2", After: 1, Message: protocol.Message{Type: "vote"}}, {To: "n3", After: 1, Message: protocol.Message{Type: "vote"}}},
	})
	s.step(102*ms, "n1", ask, protocol.Input{Kind: protocol.Saved, Number: 1}, stands, protocol.Effects{})
	lost := to("n3", "vote")
	s.add(102*ms, trace.Event{Node: "n1", Life: 1, Kind: trace.Lost, Cause: ask, Send: &lost, Says: "noise"})
	grant := s.step(103*ms, "n2", ask, from("n1", "vote"), follows, protocol.Effects{Sends: []protocol.Send{to("n1", "vote-reply")}})
	s.step(104*ms, "n2", ask, from("n1", "vote"), follows, protocol.Effects{})
	s.step(105*ms, "n1", grant, from("n2", "vote-reply"), leads, protocol.Effects{
		Orders: []protocol.Order{{Kind: protocol.Elected, Token: 1}}, Sends: []protocol.Send{to("n2", "heartbeat"), to("n3", "heartbeat")},
	})
	proof := leads
	proof.Active, proof.LeaseEnd = true, protocol.Instant(140*ms)
	s.step(110*ms, "n1", 0, protocol.Input{Kind: protocol.Fire}, proof, protocol.Effects{Orders: []protocol.Order{{Kind: protocol.Lead, Token: 1}}, Sends: []protocol.Send{to("n2", "heartbeat")}})
	s.add(115*ms, trace.Event{Kind: trace.Fault, Says: "isolate n1 for 1s"})
	s.add(120*ms, trace.Event{Node: "n1", Life: 1, Kind: trace.Freeze})
	s.add(150*ms, trace.Event{Node: "n1", Life: 1, Kind: trace.Thaw})
	s.step(151*ms, "n1", 0, protocol.Input{Kind: protocol.Fire}, protocol.View{Role: protocol.Fencing}, protocol.Effects{Orders: []protocol.Order{{Kind: protocol.Stop, Token: 1, Reason: "expired"}}})
	s.add(152*ms, trace.Event{Kind: trace.Violation, Invariant: "exclusive", Says: "two <leaders> & more"})
	s.add(160*ms, trace.Event{Node: "n2", Life: 1, Kind: trace.Down})
	s.step(161*ms, "n3", 0, protocol.Input{Kind: protocol.Fire}, follows, protocol.Effects{Sends: []protocol.Send{to("n2", "ping")}})
	s.step(200*ms, "n2", 0, protocol.Input{Kind: protocol.Boot}, follows, protocol.Effects{})
	s.add(300*ms, trace.Event{Kind: trace.Heal, Says: "the faults are over"})
	s.add(301*ms, trace.Event{Kind: trace.End, Hash: "0123456789abcdef"})
	return s.out.Bytes()
}

func heartbeat(m *protocol.Message) bool { return strings.HasPrefix(string(m.Type), "heartbeat") }

func draw(t *testing.T, text []byte, o picture.Options) (string, picture.Left) {
	t.Helper()
	d, err := trace.NewDecoder(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	left, err := picture.Write(&b, d, o)
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.Bytes())
	return b.String(), left
}

// wellFormed holds that it is XML, that every coordinate is a number, and that
// the root names its title and its description.
func wellFormed(t *testing.T, svg []byte) {
	t.Helper()
	ids := make(map[string]bool)
	var labels []string
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not XML: %v", err)
		}
		e, ok := token.(xml.StartElement)
		for _, a := range e.Attr {
			if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
				t.Errorf("%s %s=%q", e.Name.Local, a.Name.Local, a.Value)
			}
			if ok && a.Name.Local == "id" {
				ids[a.Value] = true
			}
			if a.Name.Local == "aria-labelledby" {
				labels = strings.Fields(a.Value)
			}
		}
	}
	if len(labels) != 2 || !ids[labels[0]] || !ids[labels[1]] {
		t.Errorf("labelled by %v; there are %v", labels, ids)
	}
}

func TestGolden(t *testing.T) {
	got, left := draw(t, story(t), picture.Options{Faint: heartbeat})
	if left != (picture.Left{}) {
		t.Errorf("left out: %+v", left)
	}
	file := filepath.Join("testdata", "story.svg")
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%s has changed (%v); look at it after: go test ./lab/sim/picture -rewrite", file, err)
	}
	for _, has := range []string{
		">stands, term 1<", ">elected, token 1<", ">leads, token 1<", ">frozen<", ">runs again<", ">stops: expired<", ">down<", ">starts again<",
		">isolate n1 for 1s<", ">exclusive: two &lt;leaders&gt; &amp; more<", ">the faults are over<", ">vote<", ">A run of raft, seed 7<", "105ms: n1 elected, token 1.",
	} {
		if !strings.Contains(got, has) {
			t.Errorf("there is no %s", has)
		}
	}
}

// TestBounds: the picture says what it leaves out.
func TestBounds(t *testing.T) {
	text := story(t)
	for name, c := range map[string]struct {
		o    picture.Options
		left picture.Left
		no   string
	}{
		"window": {picture.Options{From: 150 * ms, To: 170 * ms, Faint: heartbeat}, picture.Left{}, "elected, token"},
		"plain":  {picture.Options{Plain: true, Faint: heartbeat}, picture.Left{Routine: 1}, "routine</text>"},
		"arrows": {picture.Options{Arrows: 3, Faint: heartbeat}, picture.Left{Routine: 1, Messages: 4}, "ping"},
		"nodes":  {picture.Options{Columns: 2, Faint: heartbeat}, picture.Left{Nodes: 1}, ">n3<"},
	} {
		t.Run(name, func(t *testing.T) {
			got, left := draw(t, text, c.o)
			if left != c.left || strings.Contains(got, c.no) {
				t.Errorf("left out: %+v, want %+v; %q is there: %t", left, c.left, c.no, strings.Contains(got, c.no))
			}
			if told := left.String(); told != "" && !strings.Contains(got, "left out: "+told) {
				t.Errorf("the picture does not say that %s are left out", told)
			}
		})
	}
	d, err := trace.NewDecoder(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := picture.Write(&b, d, picture.Options{From: time.Hour}); err == nil || !strings.Contains(err.Error(), "nothing happens") || b.Len() > 0 {
		t.Errorf("a time in which nothing happens: %v, and %d bytes", err, b.Len())
	}
}

// TestLong: of a trace that is too long, what is over is forgotten, then what is
// routine, and reading ends where nothing else helps.
func TestLong(t *testing.T) {
	long := func(kind protocol.MessageType) []byte {
		s := write(t, trace.Sim, "n1", "n2")
		s.step(0, "n1", 0, protocol.Input{Kind: protocol.Boot}, follows, protocol.Effects{})
		var many protocol.Effects
		for range 100 {
			many.Sends = append(many.Sends, to("n2", kind))
		}
		for i := range 700 {
			s.step(time.Duration(i+1)*ms, "n1", 0, protocol.Input{Kind: protocol.Fire}, follows, many)
		}
		s.step(time.Second, "n1", 0, protocol.Input{Kind: protocol.Fire}, stands, protocol.Effects{})
		return s.out.Bytes()
	}
	if _, left := draw(t, long("heartbeat"), picture.Options{Faint: heartbeat}); left.Routine != 70_000 || left.Messages != 0 || left.After != 0 {
		t.Errorf("of 70,000 heartbeats: %+v", left)
	}
	got, left := draw(t, long("vote"), picture.Options{Faint: heartbeat})
	if left.After != 657*ms || left.Messages == 0 || !strings.Contains(got, "and all after 657ms") || strings.Contains(got, "stands") {
		t.Errorf("of 70,000 votes: %+v", left)
	}
	got, left = draw(t, long("vote"), picture.Options{From: 690 * ms, Arrows: 2000})
	if left != (picture.Left{}) || !strings.Contains(got, "stands") {
		t.Errorf("of the last of 70,000 votes: %+v", left)
	}
}

// TestDefective: a defect is an error, and nothing is written.
func TestDefective(t *testing.T) {
	text := story(t)
	text = append(text[:len(text)-20], '\n')
	d, err := trace.NewDecoder(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	_, err = picture.Write(&b, d, picture.Options{})
	if _, ok := errors.AsType[*trace.Error](err); !ok || b.Len() > 0 {
		t.Errorf("%v, and %d bytes", err, b.Len())
	}
}

// TestRecorder: a node's own recorder has one side of each message, and its own clock.
func TestRecorder(t *testing.T) {
	s := write(t, trace.Recorder, "n1", "n2")
	boot := protocol.Instant(time.Hour)
	for i, in := range []protocol.Input{{Kind: protocol.Boot}, from("n2", "vote"), from("n2", "heartbeat")} {
		in.Now = protocol.Reading{Boot: boot.Add(time.Duration(i) * ms), Mono: boot}
		fx := protocol.Effects{Sends: []protocol.Send{to("n2", "vote-reply")}}
		s.add(0, trace.Event{Node: "n1", Life: 1, Kind: trace.Step, Input: &in, View: &follows, Effects: &fx})
	}
	got, _ := draw(t, s.out.Bytes(), picture.Options{Faint: heartbeat})
	for _, has := range []string{">2ms<", ">vote<", ">n2<"} {
		if !strings.Contains(got, has) {
			t.Errorf("there is no %s", has)
		}
	}
}

// TestRuns draws runs of every protocol with all kinds of faults: each is well
// formed, bounded, and the same when it is drawn again.
func TestRuns(t *testing.T) {
	for _, p := range protocols.All() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(4) {
				text := play(t, p, seed)
				o := picture.Options{Faint: p.Heartbeat}
				one, _ := draw(t, text, o)
				two, _ := draw(t, text, o)
				if one != two {
					t.Errorf("seed %d: drawn twice it is not the same", seed)
				}
				if len(one) > 150_000 {
					t.Errorf("seed %d: %d bytes", seed, len(one))
				}
			}
		})
	}
}

func play(t *testing.T, p *sim.Protocol, seed uint64) []byte {
	t.Helper()
	s, err := sim.Generate(p, seed, sim.Options{Faults: 15 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s.Settle = 0
	w, err := sim.New(p, s)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	rec, err := sim.NewRecorder(&out, w, "")
	if err != nil {
		t.Fatal(err)
	}
	w.Trace(rec)
	for w.Step() {
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestLost: a message that is lost ends in a cross, before its receiver.
func TestLost(t *testing.T) {
	for _, lose := range []bool{false, true} {
		s := write(t, trace.Sim, "n1", "n2")
		s.step(0, "n1", 0, protocol.Input{Kind: protocol.Boot}, follows, protocol.Effects{})
		s.step(0, "n2", 0, protocol.Input{Kind: protocol.Boot}, follows, protocol.Effects{})
		n := s.step(ms, "n1", 0, protocol.Input{Kind: protocol.Fire}, follows, protocol.Effects{Sends: []protocol.Send{to("n2", "vote")}})
		if m := to("n2", "vote"); lose {
			s.add(ms, trace.Event{Node: "n1", Life: 1, Kind: trace.Lost, Cause: n, Send: &m})
		} else {
			s.step(2*ms, "n2", n, from("n1", "vote"), follows, protocol.Effects{})
		}
		s.step(5*ms, "n2", 0, protocol.Input{Kind: protocol.Fire}, follows, protocol.Effects{})
		got, _ := draw(t, s.out.Bytes(), picture.Options{})
		if cross, tip := strings.Contains(got, "m-4-4l8 8"), strings.Contains(got, `class="k0 a"`); cross != lose || tip == lose {
			t.Errorf("lost: %t; a cross: %t, a tip: %t", lose, cross, tip)
		}
	}
}

// full is a writer that fails.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, fmt.Errorf("full: %w", io.ErrShortWrite) }

func TestWriter(t *testing.T) {
	d, err := trace.NewDecoder(bytes.NewReader(story(t)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := picture.Write(full{}, d, picture.Options{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a writer that fails: %v", err)
	}
}
