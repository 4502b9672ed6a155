package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// The schema that is shipped is that of the decoder.
func TestSchemaIsShipped(t *testing.T) {
	const path = "../../../../deploy/agent/elect-agent.schema.json"
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, Schema()) {
		t.Errorf("%s is not what elect agent schema prints (%v); want: elect agent schema >deploy/agent/elect-agent.schema.json", path, err)
	}
}

// sample is a value that a schema allows, with all its properties.
func sample(s map[string]any) any {
	switch s["type"] {
	case "string":
		if enum, ok := s["enum"].([]any); ok {
			return enum[len(enum)-1]
		}
		if p, _ := s["pattern"].(string); strings.Contains(p, "ns|us") {
			return "1m30s"
		} else if strings.Contains(p, "[0-5]") {
			return "23:59"
		}
		return "text"
	case "integer":
		return s["maximum"]
	case "boolean":
		return true
	case "array":
		return []any{sample(s["items"].(map[string]any))}
	}
	m := map[string]any{}
	if more, ok := s["additionalProperties"].(map[string]any); ok {
		m["KEY"] = sample(more)
	}
	properties, _ := s["properties"].(map[string]any)
	for key, of := range properties {
		m[key] = sample(of.(map[string]any))
	}
	return m
}

// The decoder takes all that the schema has, and has all that the decoder takes: each field is set by the sample, which
// is JSON and so YAML, too.
func TestSchemaIsTheDecoder(t *testing.T) {
	var s map[string]any
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(sample(s))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Read("sample", text)
	if err != nil {
		t.Fatal(err)
	}
	var unset func(v reflect.Value, at string)
	unset = func(v reflect.Value, at string) {
		switch {
		case v.IsZero():
			t.Errorf("%s is in the decoder, and not in the schema", at)
		case v.Kind() == reflect.Pointer:
			unset(v.Elem(), at)
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				unset(v.Field(i), at+"."+v.Type().Field(i).Tag.Get("key"))
			}
		case v.Kind() == reflect.Slice:
			unset(v.Index(0), at+"[0]")
		}
	}
	unset(reflect.ValueOf(f.Agent), "")
}

// What the schema forbids the decoder refuses, at its place.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"elections: [{name: a, x: 1}]":                               "f:1:23: elections[0].x: there is no such field; want address, command,",
		"elections: [{name: a}]\nid: ' '":                            "f:2:5: id: it is blank; want this candidate's id in all elections that name none, or the field left out",
		"elections: [{}]":                                            "f:1:13: elections[0].name: it is missing; want the name of the election",
		"elections: []":                                              "f:1:12: elections: it is empty; want at least one",
		"id: a":                                                      "f:1:1: elections: it is missing; want the elections in which this process is a candidate",
		"elections: [{name: a, grace: 10}]":                          `f:1:30: elections[0].grace: "10" is no time of 1ms or more; want one such as 30s, 500ms or 1m30s`,
		"elections: [{name: a, grace: -1s}]":                         `f:1:30: elections[0].grace: "-1s" is no time`,
		"elections: [{name: a, contain: x}]":                         `f:1:32: elections[0].contain: "x" is unknown; want auto or sweep or cgroup or pid`,
		"elections: [{name: a, command: x}]":                         `f:1:32: elections[0].command: it is "x"; want a list, such as [x]`,
		"elections: [{name: a, command: [[x]]}]":                     "f:1:33: elections[0].command[0]: it is a list; want text",
		"elections: [{name: a, environment: [x]}]":                   "f:1:36: elections[0].environment: it is a list; want a mapping",
		"elections: [{name: a, name: b}]":                            "f:1:23: elections[0].name: it is there twice, first on line 1; want it once",
		"elections: [{name: a, hooks: {fence: {}}}]":                 "f:1:38: elections[0].hooks.fence.run: it is missing; want text for sh -c",
		"elections: [{name: a, hooks: {fence: [x]}}]":                "f:1:38: elections[0].hooks.fence: it is a list; want a mapping with limit, retries, run",
		"elections: [{name: a, hooks: {cut: {run: x, retries: z}}}]": `f:1:54: elections[0].hooks.cut.retries: "z" is no number from 0 to 100; want one`,
		"elections: [{name: a, non-exclusive: maybe}]":               `f:1:38: elections[0].non-exclusive: "maybe" is no truth value; want true or false`,
		"elections: [{name: a, transfer: {at: 24:00}}]":              `f:1:38: elections[0].transfer.at: it is "24:00"; want a time of day such as 02:30`,
		"elections: [{name: a, transfer: {days: [so]}}]":             `f:1:41: elections[0].transfer.days[0]: "so" is unknown; want mon or tue or wed or thu or fri or sat or sun`,
		"elections: [{name: }]":                                      "f:1:20: elections[0].name: it is empty; want text",
		"elections: [{name: a}]\n---\nid: b":                         "f:2:1: there is a second document; want one",
		"elections: [{name: a}":                                      "f:1: ",
		"":                                                           "f: it is empty; want elections:",
		"elections: &e [{name: a, environment: {x: *e}}]":            "want text",
	} {
		_, err := Read("f", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

// Aliases by which a small file would stand for any number of values, or of errors, are refused soon.
func TestManyAliases(t *testing.T) {
	var values strings.Builder
	values.WriteString("elections:\n- &a\n  name: x\n  environment: {")
	for i := range 10_000 {
		fmt.Fprintf(&values, "K%d: v, ", i)
	}
	values.WriteString("}\n" + strings.Repeat("- *a\n", 100_000))
	if _, err := Read("f", []byte(values.String())); err == nil || !strings.Contains(err.Error(), "there are more than 100000 values up to here, aliases resolved; want fewer") {
		t.Errorf("%.200v", err)
	}
	errs := "elections:\n- &a {" + strings.Repeat("x: 1, ", 10_000) + "}\n" + strings.Repeat("- *a\n", 10_000)
	_, err := Read("f", []byte(errs))
	if err == nil || strings.Count(err.Error(), "\n") != maxErrors || !strings.HasSuffix(err.Error(), "f: more than 100 things are wrong; want these to be right first") {
		t.Errorf("%.200v", err)
	}
}

// A text of the file that is shown cannot write to a terminal, or make a second line.
func TestPrintable(t *testing.T) {
	_, err := Read("f", []byte(`elections: [{name: a, "\e[2J\nelect: all is right": 1}]`))
	if want := "f:1:23: elections[0]. [2J elect: all is right: there is no such field; want address,"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%q; want %q", err, want)
	}
}

// An alias stands for what it names, and a hook's text for a hook.
func TestForms(t *testing.T) {
	f, err := Read("f", []byte("elections:\n- {name: a, hooks: {fence: &h 'echo x'}}\n- {name: b, transfer: {at: 02:30}, hooks: {fence: *h, gate: {run: true, every: 2s}}}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Elections[1].Hooks; got.Fence.Run != "echo x" || got.Gate.Run != "true" || got.Gate.Every.Seconds() != 2 || f.Elections[1].Transfer.At != "02:30" {
		t.Errorf("%+v", got)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("elections: [{name: a, hooks: {fence: x}}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := Read("f", text); err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
	})
}
