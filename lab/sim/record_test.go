package sim_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

// record runs a schedule and returns its trace and its result.
func record(t *testing.T, p *sim.Protocol, s *sim.Schedule) ([]byte, *sim.Result) {
	t.Helper()
	w, err := sim.New(p, s)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	rec, err := sim.NewRecorder(&out, w, "test")
	if err != nil {
		t.Fatal(err)
	}
	w.Trace(rec)
	w.Run()
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), w.Result()
}

// TestRecordedRunsVerify: the machines repeat by themselves what the world records, for every
// protocol and fault; and recording changes nothing.
func TestRecordedRunsVerify(t *testing.T) {
	lives := uint64(0)
	for _, p := range everything() {
		t.Run(p.Name, func(t *testing.T) {
			patience, err := p.Patience(nil)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range few(4) {
				// Beyond: twins, and disks that are restored.
				s, err := sim.Generate(p, seed, sim.Options{Observers: observers(p, 1), Faults: 15 * patience, Settle: 5 * patience, Beyond: true, Profile: [...]string{"swarm", "members"}[seed%2]})
				if err != nil {
					t.Fatal(err)
				}
				text, result := record(t, p, s)
				w, err := sim.New(p, s)
				if err != nil {
					t.Fatal(err)
				}
				if w.Run(); w.Hash() != result.Hash {
					t.Errorf("seed %d: hash %x, and recorded %x", seed, w.Hash(), result.Hash)
				}
				report, err := trace.Verify(bytes.NewReader(text), map[string]trace.Maker{p.Name: sim.Maker(p)})
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if !report.Whole || report.Steps < 100 {
					t.Errorf("seed %d: %+v; want a whole trace", seed, report)
				}
				lives += report.Lives
				checkCauses(t, text)
			}
		})
	}
	if want := uint64(4 * 4 * 4); lives <= want {
		t.Errorf("%d lives; want no restart", lives)
	}
}

// checkCauses checks that the cause of a message is the step that sent it.
func checkCauses(t *testing.T, text []byte) {
	t.Helper()
	d, err := trace.NewDecoder(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	steps := map[uint64]*trace.Event{}
	received, caused := 0, 0
	for e, err := range d.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != trace.Step {
			continue
		}
		steps[e.N] = e
		if e.Input.Kind != protocol.Receive {
			continue
		}
		received++
		by := steps[e.Cause]
		if by == nil {
			continue // a keeper's word comes from no step
		}
		if by.Node == e.Input.From {
			for i := range by.Effects.Sends {
				if s := &by.Effects.Sends[i]; s.To == e.Node && s.Message.Type == e.Input.Message.Type && s.Message.Seq == e.Input.Message.Seq {
					caused++
					break
				}
			}
		}
	}
	if caused < received*9/10 {
		t.Errorf("of %d messages %d have the step as their cause that sent them", received, caused)
	}
}

// TestTraceHasItsSchedule: the schedule in a trace gives the same run again.
func TestTraceHasItsSchedule(t *testing.T) {
	p, _ := protocols.ByName("quorum")
	s, err := sim.Generate(p, 3, sim.Options{Faults: 10 * time.Second, Settle: -1})
	if err != nil {
		t.Fatal(err)
	}
	s.Expected = &sim.Expected{Hash: "of another run"}
	text, first := record(t, p, s)
	d, err := trace.NewDecoder(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	again, err := sim.ParseSchedule(d.Header().Schedule)
	if err != nil {
		t.Fatal(err)
	}
	if again.Expected != nil {
		t.Error("the trace has what was expected of another run")
	}
	if _, second := record(t, p, again); first.Hash != second.Hash {
		t.Errorf("hash %x, then %x", first.Hash, second.Hash)
	}
}

// fragile panics when it is told to campaign.
type fragile struct{ booted bool }

func (m *fragile) Step(in *protocol.Input, _ *protocol.Effects) {
	m.booted = true
	if in.Kind == protocol.Do {
		panic("it was only asked")
	}
}
func (m *fragile) NextFire() protocol.Instant    { return protocol.Never }
func (m *fragile) View() protocol.View           { return protocol.View{Role: protocol.Follower} }
func (m *fragile) AppendState(dst []byte) []byte { return protocol.AppendBool(dst, m.booted) }
func (m *fragile) LoadState(src []byte) error {
	d := protocol.NewDecoder(src)
	m.booted = d.Bool()
	return d.Done()
}

// TestRecordedPanic: a step that panics is marked in the trace, with the violation, and is
// replayed.
func TestRecordedPanic(t *testing.T) {
	p := &sim.Protocol{
		Name:     "fragile",
		New:      func(sim.Participant) (protocol.Machine, error) { return new(fragile), nil },
		Patience: func(json.RawMessage) (time.Duration, error) { return time.Second, nil },
		Drift:    func(json.RawMessage) (protocol.Drift, error) { return protocol.DefaultDrift(), nil },
	}
	text, r := record(t, p, &sim.Schedule{Format: 1, Protocol: "fragile", Nodes: 1, Faults: time.Second, Ops: []sim.Op{}})
	if r.Violation == nil || r.Violation.Invariant != sim.NoPanic {
		t.Fatalf("%+v; want a panic", r.Violation)
	}
	if report, err := trace.Verify(bytes.NewReader(text), map[string]trace.Maker{"fragile": sim.Maker(p)}); err != nil || report.Steps != 2 {
		t.Errorf("%+v, %v; want 2 steps", report, err)
	}
	for _, want := range []string{`"panic":"it was only asked`, `"kind":"violation"`, `"kind":"end"`, `"invariant":"no-panic"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing in:\n%s", want, text)
		}
	}
}

// full is a writer with room for so many bytes.
type full struct{ left int }

var errFull = errors.New("the disk is full")

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestRecorderTellsOfItsWriter: a full disk ends the trace but not the run.
func TestRecorderTellsOfItsWriter(t *testing.T) {
	p, _ := protocols.ByName("quorum")
	s, err := sim.Generate(p, 1, sim.Options{Faults: 10 * time.Second, Settle: -1})
	if err != nil {
		t.Fatal(err)
	}
	w, err := sim.New(p, s)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := sim.NewRecorder(&full{left: 50_000}, w, "")
	if err != nil {
		t.Fatal(err)
	}
	w.Trace(rec)
	w.Run()
	if err := rec.Close(); !errors.Is(err, errFull) || !errors.Is(rec.Err(), errFull) {
		t.Errorf("%v; want the writer's error", err)
	}
	if w.Result().Virtual < 10*time.Second {
		t.Errorf("the run ended after %v", w.Result().Virtual)
	}
}

// TestMakerRefuses: an invalid configuration in a trace is refused.
func TestMakerRefuses(t *testing.T) {
	p, _ := protocols.ByName("quorum")
	for _, config := range []string{``, `[]`, `{"colour":1}`, `{"membership":{"config_term":0,"version":1,"voters":[]}}`, `{"self":{"id":"n1","dir":"00"}}`} {
		if _, err := sim.Maker(p)("n1", json.RawMessage(config)); err == nil {
			t.Errorf("a machine was made from %s", config)
		}
	}
}

// FuzzVerify: the check of any trace ends, and its error names a line.
func FuzzVerify(f *testing.F) {
	makers := map[string]trace.Maker{}
	for _, p := range protocols.All() {
		makers[p.Name] = sim.Maker(p)
		patience, err := p.Patience(nil)
		if err != nil {
			f.Fatal(err)
		}
		s, err := sim.Generate(p, 1, sim.Options{Nodes: 1, Profile: "processes", Faults: 2 * patience, Settle: -1})
		if err != nil {
			f.Fatal(err)
		}
		w, err := sim.New(p, s)
		if err != nil {
			f.Fatal(err)
		}
		var out bytes.Buffer
		rec, err := sim.NewRecorder(&out, w, "")
		if err != nil {
			f.Fatal(err)
		}
		w.Trace(rec)
		for range 60 {
			w.Step()
		}
		if err := rec.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := trace.Verify(bytes.NewReader(text), makers)
		defect, ok := errors.AsType[*trace.Error](err)
		different, differs := errors.AsType[*trace.Disagreement](err)
		if err != nil && !(ok && defect.Line > 0 || differs && different.Line > 0) {
			t.Fatalf("%v does not say the line", err)
		}
	})
}

func TestOpString(t *testing.T) {
	for want, op := range map[string]sim.Op{
		"isolate n3 for 2s":              {Kind: sim.OpIsolate, Node: "n3", For: 2 * time.Second},
		"loss n1 → n2 0.25 for 1s":       {Kind: sim.OpLoss, Node: "n1", Peer: "n2", Value: 0.25, For: time.Second},
		"swizzle {n1, n2} every 1s":      {Kind: sim.OpSwizzle, Group: []protocol.NodeID{"n1", "n2"}, Every: time.Second},
		"drop n1 → n2 #3":                {Kind: sim.OpDrop, Node: "n1", Peer: "n2", Count: 3},
		"clock-step n1 by -5ms":          {Kind: sim.OpStep, Node: "n1", By: -5 * time.Millisecond},
		"store-elect":                    {Kind: sim.OpStoreElect},
		"slow-sync n1 by 10ms for 100ms": {Kind: sim.OpSlowSync, Node: "n1", By: 10 * time.Millisecond, For: 100 * time.Millisecond},
	} {
		if got := op.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
