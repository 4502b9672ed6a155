package main

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/electd/elect"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

// form is the value of --output of the verbs that ask: an output, or yaml, which is
// the same document as json.
type form string

func (f *form) String() string { return string(*f) }
func (f *form) Type() string   { return "format" }
func (f *form) Set(text string) error {
	if text != "table" && text != "json" && text != "yaml" {
		return exit.Usagef("want table, json or yaml")
	}
	*f = form(text)
	return nil
}

func (f *form) flag(set *pflag.FlagSet) {
	*f = "table"
	set.VarP(f, "output", "o", "`FORMAT` of the answer: table, for people, or json or yaml, which are stable")
}

// write writes an answer, the whole of it.
func (f form) write(w io.Writer, v any, table func(io.Writer) error) error {
	switch f {
	case "json":
		return cli.WriteJSON(w, v)
	case "yaml":
		return writeYAML(w, v)
	}
	return table(w)
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
	// Warnings are what nodes say of their certificates, and what is to be said of the
	// one that was asked with; status of one election only.
	Warnings []string `json:"warnings,omitempty"`
	Private  bool     `json:"private,omitempty"` // the place is this user's own
}

// leaderText is who leads, for people. Of one that proves no lease others may think
// differently.
func leaderText(l *elect.Leader) string {
	if l.NoLease {
		return l.ID + " (no lease)"
	}
	return l.ID
}

func (p *place) view(s elect.State) view {
	v := view{Election: p.shown(), Name: p.name, Leader: s.Leader, Stale: s.Stale, Private: p.private()}
	if s.Cause != nil {
		v.Cause = cli.OneLine(s.Cause.Error())
	}
	return v
}

// writeYAML writes the document that writeJSON writes, in YAML: with the same fields
// in the same order.
func writeYAML(w io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var document yaml.Node // JSON is YAML
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return err
	}
	inBlocks(&document)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	return errors.Join(e.Encode(&document), e.Close())
}

// inBlocks writes a node as people do, on lines and without quotes. What does not
// begin like a word, or is a truth value to old readers, keeps its quotes: to them
// 12:30 is a number.
func inBlocks(n *yaml.Node) {
	word := func(s string) bool { return s != "" && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z') }
	truth := []string{"y", "n", "yes", "no", "on", "off"}
	if n.Kind != yaml.ScalarNode || word(n.Value) && !slices.Contains(truth, strings.ToLower(n.Value)) {
		n.Style = 0
	}
	for _, c := range n.Content {
		inBlocks(c)
	}
}

// timestamp is a wall clock's time for people.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.RFC3339)
}
