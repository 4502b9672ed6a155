package flight

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/internal/protocol/trace"
)

// groupConfig is of a recorder of a coordinator.
func groupConfig(t *testing.T) (Config, group.Settings) {
	t.Helper()
	s := group.Settings{
		Promise: 3 * time.Second, Cover: 3 * time.Second, Poll: 300 * time.Millisecond, Drain: 300 * time.Millisecond,
		Drift: protocol.DefaultDrift(), Bits: 16,
	}
	config, err := json.Marshal(trace.GroupConfig{Settings: s})
	if err != nil {
		t.Fatal(err)
	}
	return Config{Node: "m1", Protocol: trace.Groups, Config: config, MaxBytes: 32 << 10}, s
}

// TestTurns: the segments of a coordinator's record begin with its tenure or with its state, which may be longer than
// MaxBytes, new machines agree with each, and what was left out is a gap.
func TestTurns(t *testing.T) {
	at := &fullFolder{files: map[string]*fullFile{}, room: 1 << 30}
	cfg, settings := groupConfig(t)
	r := startIn(t, at, cfg)
	var in group.Input
	var fx group.Effects
	now := protocol.Instant(0)
	for tenure := range uint64(2) {
		tenure++
		m, err := group.NewCoordinator(group.CoordinatorConfig{Settings: settings})
		if err != nil {
			t.Fatal(err)
		}
		step := func(next group.Input) {
			now = now.Add(time.Millisecond)
			in = next // the driver's memory is used again
			in.Now, in.Proven, in.From, in.Conn = protocol.Reading{Boot: now, Mono: now}, true, "m1", 1
			fx.Reset()
			m.Step(&in, &fx)
			r.Turn(tenure, &in, &fx, func() []byte { return m.AppendState(nil) })
		}
		step(group.Input{Kind: group.Begin, Tenure: tenure})
		step(group.Input{Kind: group.Opened})
		report := group.Message{
			Type: group.Report, Session: group.Session{Member: "m1", Process: protocol.Nonce{1, 2}, Epoch: 1}, Number: tenure, Tenure: tenure,
			Seq: 1, Promise: settings.Promise,
		}
		for i := range 1000 {
			report.Wants = append(report.Wants, group.Want{Key: group.Key(strings.Repeat("k", 60) + string(rune('a'+i/100)) + string(rune('a'+i/10%10)) + string(rune('a'+i%10)))})
		}
		step(group.Input{Kind: group.Receive, Message: report})
		for seq := range uint64(900) {
			if seq%4 == 0 {
				settle(r)
			}
			step(group.Input{Kind: group.Receive, Message: group.Message{Type: group.Poll, Number: tenure, Tenure: tenure, Seq: seq + 2}})
		}
	}
	settle(r)
	if err := r.Close(); err != nil || r.Gaps() > 0 {
		t.Fatalf("%v, %d gaps", err, r.Gaps())
	}
	segments := at.segments()
	if last, _ := numberOf(segments[len(segments)-1]); len(segments) < 2 || last < 10 || last > 200 {
		t.Errorf("%v; want two at least, and a new one after MaxBytes beside the state with which it begins", segments)
	}
	states, hashes := 0, 0
	for _, name := range segments {
		text := at.files[name].text
		report, err := trace.Verify(strings.NewReader(string(text)), nil)
		if err != nil || !report.Whole || report.Lives != 1 || report.Steps == 0 {
			t.Errorf("%s: %+v, %v; want a whole record of one machine that a new one agrees with", name, report, err)
		}
		for _, e := range events(t, text) {
			if e.Turn != nil && e.Turn.State != nil {
				states++
				if int64(len(e.Turn.State)) < cfg.MaxBytes {
					t.Errorf("a state of %d bytes; want more than MaxBytes for this test", len(e.Turn.State))
				}
			}
			if e.Turn != nil && e.Turn.Hash != "" {
				hashes++
			}
		}
	}
	if states == 0 || hashes < 2 || hashes > 20 {
		t.Errorf("%d states, %d hashes; want some of each, and not a hash of a long state at each step", states, hashes)
	}
}
