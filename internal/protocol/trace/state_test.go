package trace_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/electd/elect/internal/protocol/trace"
)

const recorded = `{"format":1,"protocol":"token","source":"recorder","nodes":[{"id":"n1","config":{"peer":"n2"}}]}` + "\n"

// stateLine is the state of a machine that has the token, or not.
func stateLine(n, has, count string) string {
	state := base64.StdEncoding.EncodeToString([]byte{has[0] - '0', count[0] - '0'})
	role := `"role":"follower","term":` + count
	if has == "1" {
		role = `"role":"leader","term":` + count + `,"token":` + count + `,"elected":true,"active":true,"lease_end":9223372036854775807`
	}
	return `{"n":` + n + `,"node":"n1","life":4,"kind":"state","now":{"boot":5,"mono":5},"state":"` + state + `","view":{` + role + `}}` + "\n"
}

const (
	fireLine   = `{"n":8,"node":"n1","life":4,"kind":"step","input":{"kind":"fire","now":{"boot":6,"mono":6}},"view":{"role":"follower","term":3}}` + "\n"
	resignLine = `{"n":8,"node":"n1","life":4,"kind":"step","input":{"kind":"do","now":{"boot":6,"mono":6},"command":{"verb":"resign"}},` +
		`"effects":{"orders":[{"kind":"stop","token":3,"reason":"resigned"}],"saves":[{"number":1,"data":"AAM="}],` +
		`"sends":[{"to":"n2","after":1,"message":{"type":"token","term":4}}]},"view":{"role":"follower","term":3}}` + "\n"
)

// TestVerifyState: a life may begin with a state, and a later state is compared.
func TestVerifyState(t *testing.T) {
	boot := `{"n":6,"node":"n1","life":4,"kind":"step","input":{"kind":"boot","now":{"boot":0,"mono":0},"durable":"AQM="},"view":{"role":"leader","term":3,"token":3,"elected":true,"active":true,"lease_end":9223372036854775807}}` + "\n"
	for name, c := range map[string]struct {
		text, want string
		steps      uint64
	}{
		"a life":             {recorded + stateLine("7", "1", "3") + resignLine + stateLine("9", "0", "3"), "", 1},
		"a checkpoint":       {recorded + boot + stateLine("7", "1", "3") + resignLine, "", 2},
		"nothing else":       {recorded + stateLine("7", "1", "3"), "", 0},
		"of another life":    {recorded + strings.Replace(stateLine("7", "1", "3"), `"life":4`, `"life":3`, 1) + resignLine, "line 3: field node: n1 has not booted in life 4; a life begins with a boot or a state", 0},
		"another state":      {recorded + stateLine("7", "0", "3") + resignLine, `line 3: event 8, do of n1: effects.orders: expected nothing (the machine), got [{"kind":"stop"`, 0},
		"another checkpoint": {recorded + boot + stateLine("7", "1", "4"), "line 3: event 7, state of n1: state[1]: expected 03… of 2 bytes (the machine), got 04… of 2 bytes (the trace)", 1},
		"another view":       {recorded + strings.Replace(stateLine("7", "0", "3"), "follower", "observer", 1), `line 2: event 7, state of n1: view.role: expected "follower" (the machine), got "observer" (the trace)`, 0},
		"no state of it":     {recorded + strings.Replace(stateLine("7", "0", "3"), `"AAM="`, `"AAMA"`, 1), "line 2: field state: 3 bytes; want 2", 0},
		"a wild state":       {recorded + strings.Replace(stateLine("7", "0", "3"), `"AAM="`, `"CQM="`, 1), "line 2: field state: no machine can be in it: 9 is neither", 0},
		"a bad config":       {strings.Replace(recorded, `{"peer":"n2"}`, `{}`, 1) + stateLine("7", "0", "3"), "line 2: field config: of n1: no peer", 0},
		"booted after it":    {recorded + stateLine("5", "1", "3") + boot, "line 3: field life: n1 boots in life 4, which has begun", 0},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := trace.Verify(strings.NewReader(c.text), makers())
			if (c.want == "") != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v\nwant: %s", err, c.want)
			}
			if report.Steps != c.steps || err == nil && report.Lives != 1 {
				t.Errorf("%+v; want %d steps of one life", report, c.steps)
			}
		})
	}
}

// TestStateSays: what a line of a state must have.
func TestStateSays(t *testing.T) {
	line := stateLine("7", "0", "3")
	for name, c := range map[string]struct{ old, new, want string }{
		"no state":      {`"state":"AAM=",`, ``, "line 2: field state: kind state; every state has one, and nothing else"},
		"a note's":      {`"kind":"state"`, `"kind":"note"`, "line 2: field kind: note with input, effects"},
		"no view":       {`,"view":{"role":"follower","term":3}`, ``, "line 2: field view: it is missing; every state has one"},
		"of no node":    {`"node":"n1",`, ``, "line 2: field node: it is missing; every state has one"},
		"with an input": {`"view"`, `"input":{"kind":"fire","now":{"boot":0,"mono":0}},"view"`, "line 2: field kind: state with input, effects"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := all(strings.NewReader(recorded + strings.Replace(line, c.old, c.new, 1)))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v\nwant: %s", err, c.want)
			}
		})
	}
}

// TestTorn: the last line of a recorder's trace may end anywhere; nothing else
// may.
func TestTorn(t *testing.T) {
	whole := recorded + stateLine("7", "0", "3")
	last := strings.Replace(fireLine, `"view"`, `"says":"größer","view"`, 1) // a cut may be inside a character
	for cut := range len(last) + 1 {
		report, err := trace.Verify(strings.NewReader(whole+last[:cut]), makers())
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		complete := cut >= len(last)-1
		if report.Torn != (cut > 0 && !complete) || (report.Steps == 1) != complete || report.Whole {
			t.Errorf("cut at %d of %d: %+v", cut, len(last), report)
		}
	}
	for name, c := range map[string]struct{ text, want string }{
		"a line before the last":   {whole + last[:20] + "\n" + last, "line 3: it is no JSON: "},
		"a last line with its end": {whole + last[:20] + "\n", "line 3: it is no JSON: "},
		"not a recorder's":         {strings.Replace(whole, `"recorder"`, `"chaos"`, 1) + last[:20], "line 3: it is no JSON: "},
		"a defect":                 {whole + `{"n":8,"kind":"note","colour":"red"}`, "line 3: field colour: "},
		"the header":               {recorded[:20], "line 1: it is no JSON: "},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := trace.Verify(strings.NewReader(c.text), makers())
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || report.Torn {
				t.Errorf("%v, %+v\nwant: %s", err, report, c.want)
			}
		})
	}
}

// TestChromeState: an incarnation that begins with a state is shown as up, in that state.
func TestChromeState(t *testing.T) {
	d, err := trace.NewDecoder(strings.NewReader(recorded + stateLine("7", "1", "3") + resignLine))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := trace.Chrome(&out, d); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"name":"active with token 3"`, `"name":"leader in term 3"`, `"name":"up"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in:\n%s", want, out.String())
		}
	}
}
