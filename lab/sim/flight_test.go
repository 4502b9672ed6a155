package sim_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/internal/flight"
	"github.com/electd/elect/internal/place"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/internal/protocol/trace/replay"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

// recorded makes machines from what a recorder writes.
func recorded() map[string]trace.Maker { return replay.Makers([]string{quorum.Name}) }

// taped is a machine in the simulator whose steps are recorded.
type taped struct {
	protocol.Machine
	r *flight.Recorder
}

func (m *taped) Step(in *protocol.Input, fx *protocol.Effects) {
	m.Machine.Step(in, fx)
	v := m.View()
	m.r.Step(in, fx, &v, func() []byte { return m.AppendState(nil) })
	time.Sleep(time.Second) // in a bubble: the recorder writes all that waits; it is slower than a simulator
}

// configOf is the configuration that the simulator makes a participant from: the
// common one, and over it the participant's own.
func configOf(p sim.Participant) (c quorum.Config, err error) {
	var extra struct {
		Each map[protocol.NodeID]json.RawMessage `json:"each"`
	}
	if len(p.Config) > 0 {
		err = errors.Join(json.Unmarshal(p.Config, &c), json.Unmarshal(p.Config, &extra))
	}
	if own := extra.Each[p.Self.ID]; own != nil {
		err = errors.Join(err, json.Unmarshal(own, &c))
	}
	c.Self, c.Membership = p.Self, p.Membership
	return c, err
}

// recordRun runs a random schedule of the quorum protocol and records each life
// of each node, in a directory a node. It returns the directories.
func recordRun(t *testing.T, seed uint64, maxBytes int64) (dirs []string) {
	t.Helper()
	base := t.TempDir()
	synctest.Test(t, func(t *testing.T) { dirs = recordIn(t, base, seed, maxBytes) })
	return dirs
}

func recordIn(t *testing.T, base string, seed uint64, maxBytes int64) (dirs []string) {
	p, _ := protocols.ByName(quorum.Name)
	made := p.New
	current := map[protocol.NodeID]*flight.Recorder{}
	finish := func(id protocol.NodeID) {
		if r := current[id]; r != nil {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if r.Gaps() > 0 {
				t.Errorf("seed %d, %s: %d gaps", seed, id, r.Gaps())
			}
		}
	}
	p.New = func(part sim.Participant) (protocol.Machine, error) {
		m, err := made(part)
		if err != nil {
			return nil, err
		}
		c, err := configOf(part)
		if err != nil {
			return nil, err
		}
		config, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		id := part.Self.ID
		dir := filepath.Join(base, string(id))
		if current[id] == nil {
			dirs = append(dirs, dir)
		}
		finish(id)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		r, err := flight.Open(flight.Config{Dir: place.At{Path: dir}, Node: id, Protocol: quorum.Name, Config: config, Build: "test", MaxBytes: maxBytes})
		if err != nil {
			return nil, err
		}
		current[id] = r
		return &taped{m, r}, nil
	}
	patience, err := p.Patience(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sim.Generate(p, seed, sim.Options{Observers: 1, Faults: 10 * patience, Settle: 3 * patience})
	if err != nil {
		t.Fatal(err)
	}
	w, err := sim.New(p, s)
	if err != nil {
		t.Fatal(err)
	}
	w.Run()
	if v := w.Result().Violation; v != nil {
		t.Fatal(v)
	}
	for id := range current {
		finish(id)
	}
	return dirs
}

func segments(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "flight-*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readAll(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFlightReplay: what was recorded of random runs, in tiny segments, the machine
// does again, segment by segment; also when the last line is cut anywhere.
func TestFlightReplay(t *testing.T) {
	all, states, boots := 0, 0, 0
	for seed := range uint64(6) {
		size := []int{20_000, 100_000}[seed%2]
		for _, dir := range recordRun(t, seed, int64(size)) {
			var sum int
			files := segments(t, dir)
			if len(files) > 16 {
				t.Errorf("%d segments; want at most %d", len(files), 16)
			}
			for _, name := range files {
				text := readAll(t, name)
				sum += len(text)
				report, err := trace.Verify(strings.NewReader(text), recorded())
				if err != nil {
					t.Fatalf("seed %d: %s: %v", seed, name, err)
				}
				if !report.Whole || report.Torn || report.Lives != 1 || report.Header.Source != trace.Recorder || report.Header.Build != "test" {
					t.Errorf("%s: %+v", name, report)
				}
				all++
				if second := strings.Split(text, "\n")[1]; strings.Contains(second, `"kind":"state"`) {
					states++
				} else if strings.Contains(second, `"input":{"kind":"boot"`) {
					boots++
				} else {
					t.Errorf("%s begins with %s", name, second)
				}
			}
			// Three times MaxBytes, and what came before the state was asked for.
			if most := 3*size + 20_000; sum > most {
				t.Errorf("%s: %d bytes; want at most about %d", dir, sum, most)
			}
		}
	}
	if states < 20 || boots < 10 {
		t.Errorf("%d segments, %d from a state, %d from a boot", all, states, boots)
	}
	t.Logf("%d segments, %d from a state, %d from a boot", all, states, boots)
}

// TestFlightTorn: a segment that ends anywhere in its last line is what came before.
func TestFlightTorn(t *testing.T) {
	name := segments(t, recordRun(t, 1, 20_000)[0])[0]
	lines := strings.SplitAfter(readAll(t, name), "\n")
	lines = lines[:len(lines)-2] // nothing, and the end: it was killed
	last := lines[len(lines)-1]
	before := strings.Join(lines[:len(lines)-1], "")
	whole, err := trace.Verify(strings.NewReader(before+last), recorded())
	if err != nil || whole.Whole || whole.Torn {
		t.Fatalf("%+v, %v", whole, err)
	}
	for cut := range len(last) {
		report, err := trace.Verify(strings.NewReader(before+last[:cut]), recorded())
		if err != nil {
			t.Fatalf("cut at %d of %d: %v", cut, len(last), err)
		}
		complete := cut == len(last)-1 // only its end is missing
		if torn := cut > 0 && !complete; report.Torn != torn || report.Steps != whole.Steps-1 && !complete {
			t.Fatalf("cut at %d of %d: %+v of %+v", cut, len(last), report, whole)
		}
	}
}

// TestFlightChanged: what was told otherwise than it is recorded is found.
func TestFlightChanged(t *testing.T) {
	found, tried := 0, 0
	// Of this seed, the first number of a heartbeat decides something.
	for _, name := range segments(t, recordRun(t, 1, 20_000)[0]) {
		text := readAll(t, name)
		for _, change := range []struct{ old, new string }{
			{`"type":"heartbeat-reply"`, `"type":"heartbeat"`},
			{`"kind":"fire","now":{"boot":`, `"kind":"fire","now":{"boot":1`},
			{`"seq":`, `"seq":9`},
			{`"role":"follower"`, `"role":"leader"`},
			{`"term":`, `"term":9`},
			{`"digest":"`, `"digest":"0`},
			{`"state":"A`, `"state":"B`},
		} {
			changed := strings.Replace(text, change.old, change.new, 1)
			if changed == text {
				continue
			}
			tried++
			_, err := trace.Verify(strings.NewReader(changed), recorded())
			_, differs := errors.AsType[*trace.Disagreement](err)
			_, defect := errors.AsType[*trace.Error](err)
			if differs || defect {
				found++
			} else {
				t.Logf("%s: %s for %s: %v", filepath.Base(name), change.new, change.old, err)
			}
		}
	}
	if found < tried || tried < 6 {
		t.Errorf("%d of %d changes were found", found, tried)
	}
}

// TestFlightSegmentsJoin: the events of a life are numbered through, so that nothing
// is missing between two segments.
func TestFlightSegmentsJoin(t *testing.T) {
	last, joined := map[uint64]uint64{}, 0
	// Of this seed, the first number of a heartbeat decides something.
	for _, name := range segments(t, recordRun(t, 1, 20_000)[0]) {
		d, err := trace.NewDecoder(strings.NewReader(readAll(t, name)))
		if err != nil {
			t.Fatal(err)
		}
		life := uint64(0)
		for e, err := range d.Events() {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == trace.End {
				last[life] = e.N
				continue
			}
			if n, ok := last[e.Life]; ok && e.N != n+1 {
				t.Errorf("%s: event %d of life %d after %d", name, e.N, e.Life, n)
			} else if ok && e.Kind == trace.State {
				joined++
			}
			life, last[e.Life] = e.Life, e.N
		}
	}
	if joined == 0 {
		t.Error(fmt.Sprint("no two segments join: ", last))
	}
}
