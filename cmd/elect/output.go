package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/electd/elect"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

// form is the value of --output of the verbs that ask: an output, or yaml, which is the same document as json.
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
	set.VarP(f, "output", "o", "`FORMAT` of the answer: table for people, json or yaml (stable)")
}

// write writes a whole answer.
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
	Leader   *elect.Leader `json:"leader"` // null if there is no leader
	Stale    bool          `json:"stale"`  // the back end did not answer: leader is the last known one
	Cause    string        `json:"cause,omitempty"`
	// Warnings are the nodes' warnings about their certificates, and about the one that asked; for status of one
	// election only.
	Warnings []string `json:"warnings,omitempty"`
	Private  bool     `json:"private,omitempty"` // the place belongs to this user alone
}

// leaderText describes the leader, for people. If it proves no lease, other nodes may disagree.
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

// writeYAML writes the document that [cli.WriteJSON] writes, in YAML: with the same fields
// in the same order.
func writeYAML(w io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var b bytes.Buffer
	writeBlock(&b, d, "")
	_, err = w.Write(bytes.TrimLeft(b.Bytes(), " \n"))
	return err
}

// writeBlock writes the next value: a scalar after a space, a list or an object below, in lines that begin with
// indent.
func writeBlock(b *bytes.Buffer, d *json.Decoder, indent string) {
	token, _ := d.Token() // the text comes from json.Marshal
	open, block := token.(json.Delim)
	switch {
	case !block:
		fmt.Fprintf(b, " %s\n", scalar(token))
		return
	case !d.More():
		fmt.Fprintf(b, " %v%c\n", open, open+2) // the closing character is two after { and [
	case open == '{' && bytes.HasSuffix(b.Bytes(), []byte("-")):
		b.WriteString(" ") // the first field follows the dash
	default:
		b.WriteString("\n" + indent)
	}
	for first := true; d.More(); first = false {
		if !first {
			b.WriteString(indent)
		}
		if open == '[' {
			b.WriteString("-")
		} else {
			key, _ := d.Token()
			b.WriteString(scalar(key) + ":")
		}
		writeBlock(b, d, indent+"  ")
	}
	_, _ = d.Token() // the closing character
}

// scalar writes a string without quotes if it begins like a word and every reader takes it for a string. Old readers
// take 12:30 for a number, and on for a truth value.
func scalar(token json.Token) string {
	s, ok := token.(string)
	switch {
	case token == nil:
		return "null"
	case !ok:
		return fmt.Sprint(token)
	case regexp.MustCompile(`^[A-Za-z]([\w./@+,=?&;()-]|:[\w/]| [\w(])*$`).MatchString(s) &&
		!slices.Contains([]string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}, strings.ToLower(s)):
		return s
	}
	return strconv.Quote(s) // YAML has the same escapes
}

// timestamp is a wall clock's time for people.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.RFC3339)
}
