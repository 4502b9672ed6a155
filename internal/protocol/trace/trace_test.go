package trace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

func all(r io.Reader) (h *trace.Header, events []*trace.Event, err error) {
	d, err := trace.NewDecoder(r)
	if err != nil {
		return nil, nil, err
	}
	for e, err := range d.Events() {
		if err != nil {
			return d.Header(), events, err
		}
		events = append(events, e)
	}
	return d.Header(), events, nil
}

// TestRoundTrip: what was written is read, and writes the same bytes again.
func TestRoundTrip(t *testing.T) {
	for name, digests := range map[string]bool{"effects": false, "digests": true} {
		t.Run(name, func(t *testing.T) {
			text := story(t, digests)
			for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
				h, events, err := all(r)
				if err != nil {
					t.Fatal(err)
				}
				var again strings.Builder
				enc, err := trace.NewEncoder(&again, h)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range events {
					if err := enc.Event(e); err != nil {
						t.Fatal(err)
					}
				}
				if again.String() != text {
					t.Fatalf("read and written again:\n%s\nwant:\n%s", again.String(), text)
				}
			}
			if strings.Contains(text, `\u003c`) {
				t.Error("the text is escaped as if it were for HTML")
			}
		})
	}
}

const (
	header = `{"format":1,"protocol":"token","source":"sim","nodes":[{"id":"n1"},{"id":"n2"}]}` + "\n"
	boot   = `{"n":1,"node":"n1","kind":"step","input":{"kind":"boot","now":{"boot":0,"mono":0}},"view":{"role":"follower"}}` + "\n"
)

const (
	groupHeader = `{"format":1,"protocol":"group","source":"recorder","nodes":[{"id":"n1","config":{"settings":{"promise":3000000000,"cover":3000000000,"poll":300000000,"drain":300000000,"drift":{"ppm":50000},"bits":16}}}]}` + "\n"
	turnStart   = `{"n":1,"node":"n1","kind":"turn","turn":{"input":{"kind":"start","now":{"boot":1,"mono":1},"session":{"member":"n1","process":[1,2],"epoch":0}},"effects":{}}}` + "\n"
	turnBegin   = `{"n":2,"node":"n1","kind":"turn","turn":{"tenure":7,"input":{"kind":"begin","now":{"boot":1,"mono":1},"proven":true,"tenure":7},"effects":{}}}` + "\n"
	turnOpened  = `{"n":3,"node":"n1","kind":"turn","turn":{"tenure":7,"input":{"kind":"opened","now":{"boot":2,"mono":2},"proven":true,"conn":1,"from":"n1"},"effects":{"sends":[{"conn":1,"message":{"type":"greet","tenure":7,"promise":3000000000}}]}}}` + "\n"
	turnState   = `{"n":4,"node":"n1","kind":"turn","turn":{"tenure":8,"state":"////"}}` + "\n"
)

// TestGroupSays: what is wrong with the trace of a group is told with its line and its field.
func TestGroupSays(t *testing.T) {
	whole := groupHeader + turnStart + turnBegin + turnOpened
	if r, err := trace.Verify(strings.NewReader(whole), nil); err != nil || r.Steps != 3 || r.Lives != 2 {
		t.Fatalf("%+v, %v; want 3 steps of 2 machines", r, err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"a step of an election": {groupHeader + boot, "line 2: field kind: step; want turn in a trace of a group"},
		"a turn of an election": {header + turnStart, "line 2: field kind: turn; want turn in a trace of a group, and nowhere else"},
		"an empty turn":         {groupHeader + `{"n":1,"node":"n1","kind":"turn"}`, "line 2: field turn: kind turn; every turn has one"},
		"neither":               {groupHeader + `{"n":1,"node":"n1","kind":"turn","turn":{}}`, "line 2: field turn: an input and a state, or neither"},
		"a kind of input":       {strings.Replace(whole, `"opened"`, `"open"`, 1), `line 4: field turn.input.kind: input "open"; want one of [receive`},
		"a field":               {strings.Replace(whole, `"from"`, `"form"`, 1), `line 4: field turn.input.form: the field "form" is not known here`},
		"a member's tenure":     {groupHeader + strings.Replace(turnBegin, `"tenure":7,"input"`, `"input"`, 1), "line 2: field turn.tenure: 0 with the input begin"},
		"no beginning":          {groupHeader + turnOpened, "line 2: field turn: this machine of n1 has not begun in life 0"},
		"a second beginning":    {groupHeader + turnStart + strings.Replace(turnStart, `"n":1`, `"n":2`, 1), "line 3: field turn: the input start, and this machine of n1 has begun"},
		"a state that is none":  {groupHeader + turnState, "line 2: field turn.state: "},
		"settings":              {strings.Replace(whole, `"bits":16`, `"bits":99`, 1), "line 2: field config: of n1: group: 99 bits"},
		"an unknown setting":    {strings.Replace(whole, `"bits":16`, `"bots":16`, 1), `line 2: field config: of n1: json: unknown field "bots"`},
		"a late config":         {groupHeader + turnStart + turnBegin + strings.Replace(turnOpened, `"turn":{`, `"config":{},"turn":{`, 1), "line 4: field config: with a later turn"},
		"another effect":        {strings.Replace(whole, `"greet","tenure":7`, `"greet","tenure":8`, 1), "line 4: event 3, opened of n1: turn.effects.sends[0].message.tenure: expected 7 (the machine), got 8 (the trace)"},
		"another state":         {strings.Replace(whole, `{"tenure":7,"input":{"kind":"opened"`, `{"tenure":7,"hash":"00","input":{"kind":"opened"`, 1), "line 4: event 3, opened of n1: turn.hash: expected "},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := trace.Verify(strings.NewReader(c.text), makers()); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v\nwant: %s", err, c.want)
			}
		})
	}
}

// TestDecoderSays: each defect is told with its line and its field.
func TestDecoderSays(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":            {"", "line 1: there is nothing; want the header of a trace"},
		"an empty line":      {"\n", "line 1: an empty line"},
		"no JSON":            {"elect\n", "line 1: it is no JSON: "},
		"cut short":          {header + boot[:40], "line 2: "},
		"no UTF-8":           {header + "{\"n\":1,\"kind\":\"note\",\"says\":\"\xff\"}\n", "line 2: it is not UTF-8"},
		"another format":     {strings.Replace(header, `"format":1`, `"format":2`, 1), "line 1: field format: 2; want 1"},
		"no protocol":        {strings.Replace(header, "token", "", 1), "line 1: field protocol: it is missing"},
		"another source":     {strings.Replace(header, `"sim"`, `"dream"`, 1), `line 1: field source: "dream"; want sim, chaos or recorder`},
		"no nodes":           {`{"format":1,"protocol":"token","source":"sim","nodes":[]}`, "line 1: field nodes: 0; want 1 to 1000"},
		"a node twice":       {strings.Replace(header, "n2", "n1", 1), "line 1: field nodes[1].id: n1 is there twice"},
		"a bad name":         {strings.Replace(header, "n2", "n 2", 1), `line 1: field nodes[1].id: node id "n 2"; want 1 to 128 bytes`},
		"a header's field":   {strings.Replace(header, `"source"`, `"sed":7,"source"`, 1), `line 1: field sed: the field "sed" is not known here`},
		"a field":            {header + `{"n":1,"kind":"note","colour":"red"}`, `line 2: field colour: the field "colour" is not known here`},
		"a field inside":     {header + strings.Replace(boot, `"mono"`, `"mon"`, 1), `line 2: field input.now.mon: the field "mon" is not known here`},
		"a kind of input":    {header + strings.Replace(boot, `"boot","now"`, `"boo","now"`, 1), `line 2: field input.kind: input "boo"; want one of [boot`},
		"a role":             {header + strings.Replace(boot, "follower", "king", 1), `line 2: field view.role: role "king"; want one of`},
		"a number":           {header + `{"n":-1,"kind":"note"}`, "line 2: field n: number -1; want a whole number, 0 or more"},
		"deep in a list":     {header + strings.Replace(boot, `"view"`, `"effects":{"sends":[{"to":"n1","message":{"type":"x"}},{"to":"n1","message":{"type":1}}]},"view"`, 1), "line 2: field effects.sends[1].message.type: number; want text"},
		"two objects":        {header + `{"n":1,"kind":"note"} {}`, "line 2: 2 bytes after the object"},
		"no object":          {header + `[]`, "line 2: "},
		"no number":          {header + `{"kind":"note"}`, "line 2: field n: it is missing or 0"},
		"a number again":     {header + boot + boot, "line 3: field n: 1 after 1"},
		"a later cause":      {header + `{"n":1,"cause":1,"kind":"note"}`, "line 2: field cause: 1 of event 1"},
		"time falls":         {header + `{"n":1,"at":5,"kind":"note"}` + "\n" + `{"n":2,"at":4,"kind":"note"}`, "line 3: field at: 4 after 5"},
		"time below zero":    {header + `{"n":1,"at":-5,"kind":"note"}`, "line 2: field at: -5; want 0 or more"},
		"no kind":            {header + `{"n":1}`, `line 2: field kind: ""; want step, `},
		"a stranger":         {header + `{"n":1,"kind":"note","node":"n9"}`, `line 2: field node: "n9" is not among the header's nodes`},
		"a step of no node":  {header + strings.Replace(boot, `"node":"n1",`, "", 1), "line 2: field node: it is missing; every step has one"},
		"a step without":     {header + `{"n":1,"node":"n1","kind":"step"}`, "line 2: field input: it is missing"},
		"an empty input":     {header + strings.Replace(boot, `"kind":"boot",`, "", 1), "line 2: field input.kind: it is missing"},
		"a blind step":       {header + `{"n":1,"node":"n1","kind":"step","input":{"kind":"fire","now":{"boot":0,"mono":0}}}`, "line 2: field view: it is missing"},
		"a note that steps":  {header + `{"n":1,"node":"n1","kind":"note","view":{"role":"leader"}}`, "line 2: field kind: note with input, effects"},
		"effects twice":      {header + strings.Replace(boot, `"view"`, `"effects":{},"digest":"00","view"`, 1), "line 2: field digest: it is there beside the effects"},
		"readings twice":     {header + strings.Replace(boot, `"view"`, `"now":{"boot":1,"mono":1},"view"`, 1), "line 2: field now: a step has it in its input"},
		"a late config":      {header + strings.Replace(strings.Replace(boot, `"kind":"boot"`, `"kind":"fire"`, 1), `"view"`, `"config":{},"view"`, 1), "line 2: field config: with the input fire"},
		"nothing lost":       {header + `{"n":1,"node":"n1","kind":"lost"}`, "line 2: field send: kind lost"},
		"a nameless breach":  {header + `{"n":1,"kind":"violation"}`, "line 2: field invariant: "},
		"an early breach":    {header + `{"n":1,"kind":"note","invariant":"live"}`, "line 2: field invariant: kind note"},
		"a note that panics": {header + `{"n":1,"kind":"note","panic":"x"}`, "line 2: field kind: note with input, effects"},
		"a thaw of no node":  {header + `{"n":1,"kind":"thaw"}`, "line 2: field node: it is missing; every thaw has one"},
		"a hash too early":   {header + `{"n":1,"kind":"note","hash":"00"}`, "line 2: field hash: "},
		"after the end":      {header + `{"n":1,"kind":"end"}` + "\n" + `{"n":2,"kind":"note"}`, "line 3: field kind: note after the end"},
		"a long line":        {header + `{"n":1,"kind":"note","says":"` + strings.Repeat("x", trace.MaxLine) + `"}`, "line 2: more than 1048576 bytes"},
		"a long last header": {strings.Repeat("x", trace.MaxHeader+1), "line 1: more than 67108864 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := all(strings.NewReader(c.text))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v\nwant: %s", err, c.want)
			}
			if _, ok := errors.AsType[*trace.Error](err); err != nil && !ok {
				t.Errorf("%T; want *trace.Error", err)
			}
		})
	}
}

func TestReadersErrorIsKept(t *testing.T) {
	cause := errors.New("the disk is gone")
	_, _, err := all(io.MultiReader(strings.NewReader(header+boot), iotest.ErrReader(cause)))
	if !errors.Is(err, cause) || err.Error() != "after line 2: the disk is gone" {
		t.Errorf("%v; want the reader's error, after line 2", err)
	}
}

// TestEncoderRefuses: the encoder writes nothing that the decoder refuses.
func TestEncoderRefuses(t *testing.T) {
	w := newWriter(t, false)
	for _, c := range []struct {
		event trace.Event
		want  string
	}{
		{trace.Event{Kind: trace.Note}, "line 2: field n: "},
		{trace.Event{N: 1, Kind: trace.Note, Node: "n3"}, "line 2: field node: "},
		{trace.Event{N: 1, Kind: trace.Note, Says: strings.Repeat("x", trace.MaxLine)}, "line 2: 1048"},
	} {
		if err := w.enc.Event(&c.event); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v; want %s…", err, c.want)
		}
	}
	long := &trace.Header{Format: 1, Protocol: "p", Source: trace.Sim, Nodes: []trace.Node{{ID: "n1"}}, Build: strings.Repeat("x", trace.MaxHeader)}
	var none strings.Builder
	if _, err := trace.NewEncoder(&none, long); err == nil || !strings.HasPrefix(err.Error(), "line 1: 67108") || none.Len() > 0 {
		t.Errorf("%v; want line 1: 67108…, and nothing written (%d bytes)", err, none.Len())
	}
	full := errors.New("no space")
	if _, err := trace.NewEncoder(failing{full}, &trace.Header{Format: 1, Protocol: "p", Source: trace.Sim, Nodes: []trace.Node{{ID: "n1"}}}); !errors.Is(err, full) {
		t.Errorf("%v; want the writer's error", err)
	}
	if _, err := trace.NewEncoder(io.Discard, &trace.Header{Format: 1}); err == nil {
		t.Error("a header without a protocol was written")
	}
}

// TestLongHeader: a header may be longer than an event, for there is a schedule in it.
func TestLongHeader(t *testing.T) {
	h := &trace.Header{Format: 1, Protocol: "p", Source: trace.Sim, Nodes: []trace.Node{{ID: "n1"}}, Build: strings.Repeat("x", 3*trace.MaxLine)}
	var text bytes.Buffer
	enc, err := trace.NewEncoder(&text, h)
	if err != nil {
		t.Fatal(err)
	}
	if err := enc.Event(&trace.Event{N: 1, Kind: trace.Note, Says: "x"}); err != nil {
		t.Fatal(err)
	}
	got, events, err := all(&text)
	if err != nil || got.Build != h.Build || len(events) != 1 {
		t.Errorf("%d events, %v", len(events), err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestVerify replays a good trace, and each way to change one is found.
func TestVerify(t *testing.T) {
	for name, digests := range map[string]bool{"effects": false, "digests": true} {
		t.Run(name, func(t *testing.T) {
			report, err := trace.Verify(strings.NewReader(story(t, digests)), makers())
			if err != nil {
				t.Fatal(err)
			}
			if report.Steps != 7 || report.Lives != 3 || report.Events != 12 || !report.Whole || report.Header.Seed != 7 {
				t.Errorf("%+v; want 7 steps of 3 lives in 12 events", report)
			}
		})
	}
}

func TestVerifyFinds(t *testing.T) {
	text := story(t, false)
	for name, c := range map[string]struct{ old, new, want string }{
		"a message": {`"message":{"type":"token","term":1}}]},"view"`, `"message":{"type":"token","term":2}}]},"view"`,
			"line 4: event 3, do of n1: effects.sends[0].message.term: expected 1 (the machine), got 2 (the trace)"},
		"a view": {`"role":"follower"`, `"role":"leader"`,
			`view.role: expected "follower" (the machine), got "leader" (the trace)`},
		"a field too few": {`,"reason":"resigned"`, ``, `effects.orders[0].reason: expected "resigned" (the machine), got nothing (the trace)`},
		"an order too few": {`{"kind":"elected","token":1},`, ``,
			`line 6: event 5, receive of n2: effects.orders[0].kind: expected "elected" (the machine), got "lead" (the trace)`},
		"an input":     {`"from":"n1","message":{"type":"token","term":1}`, `"from":"n1","message":{"type":"token","term":3}`, "line 6: event 5, receive of n2: effects.orders[0].token: expected 3 (the machine), got 1"},
		"a saved byte": {`"durable":"AQE="`, `"durable":"AAE="`, `line 9: event 8, boot of n2: view.`},
		"a config":     {`"peer":"n1"`, `"peer":"n3"`, `effects.sends[0].to: expected "n3" (the machine), got "n1"`},
		"a bad config": {`{"peer":"n1"}`, `{}`, "line 3: field config: of n2: no peer"},
		"a panic":      {`"verb":"resign"`, `"verb":"confirm"`, "panic: expected it confirms nothing (the machine), got none (the trace)"},
		"a protocol":   {`"protocol":"token"`, `"protocol":"ring"`, `line 1: field protocol: "ring" is not known here; want one of [token]`},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(text, c.old, c.new, 1)
			if changed == text {
				t.Fatalf("%s is not in the trace:\n%s", c.old, text)
			}
			_, err := trace.Verify(strings.NewReader(changed), makers())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant: %s", err, c.want)
			}
		})
	}
}

// TestVerifyMaker: a maker that panics on its configuration is an error of the trace.
func TestVerifyMaker(t *testing.T) {
	wild := map[string]trace.Maker{"token": func(protocol.NodeID, json.RawMessage) (protocol.Machine, error) { panic("no membership") }}
	_, err := trace.Verify(strings.NewReader(header+boot), wild)
	if want := "line 2: field config: of n1: no machine can be made of it: no membership"; err == nil || err.Error() != want {
		t.Errorf("%v\nwant: %s", err, want)
	}
}

// TestVerifyPanic: a panic in the trace must be repeated by the replay.
func TestVerifyPanic(t *testing.T) {
	w := newWriter(t, false)
	w.step("n1", 1, 0, &protocol.Input{Kind: protocol.Boot})
	w.event(&trace.Event{Kind: trace.Step, Node: "n1", Life: 1, Panic: "it confirms nothing", View: &protocol.View{Role: protocol.Down},
		Input: &protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Confirm}}})
	w.event(&trace.Event{Kind: trace.Down, Node: "n1", Life: 1})
	if report, err := trace.Verify(strings.NewReader(w.buf.String()), makers()); err != nil || report.Steps != 2 {
		t.Errorf("%+v, %v; want 2 steps", report, err)
	}
	calm := strings.Replace(w.buf.String(), "confirm\"", "recover\"", 1)
	_, err := trace.Verify(strings.NewReader(calm), makers())
	if want := "panic: expected none (the machine), got it confirms nothing (the trace)"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nwant: %s", err, want)
	}
}

// TestVerifyDigest: a digest shows that effects differ, not where.
func TestVerifyDigest(t *testing.T) {
	text := story(t, true)
	var wrong protocol.Effects
	wrong.Sends = append(wrong.Sends, protocol.Send{To: "n2"})
	other, err := trace.Digest(&wrong)
	if err != nil {
		t.Fatal(err)
	}
	right, err := trace.Digest(&protocol.Effects{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = trace.Verify(strings.NewReader(strings.Replace(text, right, other, 1)), makers())
	d, ok := errors.AsType[*trace.Disagreement](err)
	if !ok || d.What != "digest" || d.Expected != right || d.Got != other || d.Line != 2 || d.N != 1 || d.Node != "n1" {
		t.Errorf("%v; want the digest of line 2", err)
	}
}

// TestVerifyLives: a life begins with its boot, once.
func TestVerifyLives(t *testing.T) {
	made := strings.Replace(header, `{"id":"n1"}`, `{"id":"n1","config":{"peer":"n2"}}`, 1)
	fire := `{"n":2,"node":"n1","life":%,"kind":"step","input":{"kind":"fire","now":{"boot":0,"mono":0}},"view":{"role":"follower"}}` + "\n"
	again := strings.Replace(boot, `"n":1,`, `"n":3,`, 1)
	for name, c := range map[string]struct{ text, want string }{
		"of itself":    {made + boot + strings.Replace(fire, "%", "0", 1), ""},
		"never booted": {made + strings.Replace(fire, "%", "0", 1), "line 2: field node: n1 has not booted in life 0"},
		"another life": {made + boot + strings.Replace(fire, "%", "1", 1), "line 3: field node: n1 has not booted in life 1"},
		"twice":        {made + boot + again, "line 3: field life: n1 boots in life 0, which has begun"},
		"over":         {made + boot + `{"n":2,"node":"n1","kind":"down"}` + "\n" + again, ""},
		"its own":      {header + strings.Replace(boot, `"view"`, `"config":{"peer":"n2"},"view"`, 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := trace.Verify(strings.NewReader(c.text), makers())
			if (c.want == "") != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v\nwant: %s", err, c.want)
			}
			if report.Whole {
				t.Error("a trace without an end is called whole")
			}
		})
	}
}

// TestChrome: the result is JSON, and has the rows, spans and arrows.
func TestChrome(t *testing.T) {
	d, err := trace.NewDecoder(strings.NewReader(story(t, false)))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := trace.Chrome(&out, d); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		TraceEvents []struct {
			Name, Ph string
			Ts, Dur  float64
			Pid, Tid int
			ID       uint64
		}
	}
	if err := json.Unmarshal([]byte(out.String()), &doc); err != nil {
		t.Fatal(err)
	}
	count, terms := map[string]int{}, map[float64]float64{}
	for _, e := range doc.TraceEvents {
		count[e.Ph]++
		if e.Name == "active with token 1" && e.Pid == 2 {
			terms[e.Ts] = e.Dur
		}
	}
	// It wins at 5 ms and is killed, boots as the leader at 6 ms and resigns at 7.
	if want := map[float64]float64{5000: 0.001, 6000: 1000}; !maps.Equal(terms, want) {
		t.Errorf("n2 is active at %v, want %v", terms, want)
	}
	for ph, want := range map[string]int{"s": 1, "f": 1, "i": 3} {
		if count[ph] != want {
			t.Errorf("%d events %q, want %d:\n%s", count[ph], ph, want, out.String())
		}
	}
	for _, want := range []string{`"name":"n2"`, `"name":"leader in term 1"`, `"name":"token from n1"`, `"name":"violation: the token is lost`, `"name":"down"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in:\n%s", want, out.String())
		}
	}
}

// FuzzDecoder: an accepted trace can be written and reads the same again; a refused one is an error
// with a line; nothing panics.
func FuzzDecoder(f *testing.F) {
	f.Add(story(f, false))
	f.Add(story(f, true))
	f.Add(header + boot)
	f.Add(groupHeader + turnStart + turnBegin + turnState)
	f.Add(recorded + stateLine("7", "1", "3") + resignLine)
	f.Add(recorded + stateLine("7", "0", "3") + fireLine[:50])
	f.Add(header + `{"n":1,"kind":"note","says":"\u0000"}`)
	f.Add(header + strings.Replace(boot, `"view"`, `"effects":{"sends":[{"to":"n1"}]},"view"`, 1))
	f.Fuzz(func(t *testing.T, text string) {
		h, events, err := all(strings.NewReader(text))
		if e, ok := errors.AsType[*trace.Error](err); err != nil && (!ok || e.Line == 0) {
			t.Fatalf("%v does not say the line", err)
		}
		if h == nil {
			return
		}
		var out strings.Builder
		enc, err := trace.NewEncoder(&out, h)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if err := enc.Event(e); err != nil {
				if strings.Contains(err.Error(), "bytes; want at most") {
					return // it was at the limit, written in a shorter way
				}
				t.Fatal(err)
			}
		}
		_, again, err := all(strings.NewReader(out.String()))
		if err != nil || len(again) != len(events) {
			t.Fatalf("%d events, then %d: %v", len(events), len(again), err)
		}
		_, _ = trace.Verify(strings.NewReader(text), makers()) // it must not panic
	})
}
