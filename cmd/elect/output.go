package main

import (
	"encoding/json"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/exit"
)

// output is the value of --output.
type output string

func (o *output) String() string { return string(*o) }
func (o *output) Type() string   { return "format" }
func (o *output) Set(text string) error {
	if text != "table" && text != "json" {
		return exit.Usagef("want table or json")
	}
	*o = output(text)
	return nil
}

func (o *output) flag(set *pflag.FlagSet) {
	*o = "table"
	set.VarP(o, "output", "o", "`FORMAT` of the answer: table, for people, or json, which is stable")
}

// view is a state of an election as -o json shows it. Fields are added, and
// never renamed or removed.
type view struct {
	Time     time.Time     `json:"time,omitzero"` // when it was seen; watch only
	Election string        `json:"election"`
	Name     string        `json:"name"`
	Leader   *elect.Leader `json:"leader"` // null when nobody leads
	Stale    bool          `json:"stale"`  // the back end did not answer: leader is who was last known
	Cause    string        `json:"cause,omitempty"`
}

func (p *place) view(s elect.State) view {
	v := view{Election: p.shown(), Name: p.name, Leader: s.Leader, Stale: s.Stale}
	if s.Cause != nil {
		v.Cause = oneLine(s.Cause.Error())
	}
	return v
}

// writeJSON writes one line.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// timestamp is a wall clock's time for people.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.RFC3339)
}
