package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/electd/elect/cmd/elect/internal/printable"
)

// File is a configuration of elect agent that was read.
type File struct {
	Agent
	*Document
}

// Document knows the places of the fields of a configuration that was read.
type Document struct {
	name   string
	places map[string]place
}

// place is where a field is; lines and columns count from 1.
type place struct{ line, column int }

// Error is one thing that is wrong.
type Error struct {
	File         string
	Line, Column int    // 0 is not known
	Field        string // such as elections[0].hooks.fence.limit; empty for the whole file
	Text         string // what is wrong; want what would be right
}

// Error is one line.
func (e *Error) Error() string {
	at := e.File
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line)
	}
	if e.Column > 0 {
		at += ":" + strconv.Itoa(e.Column)
	}
	if e.Field != "" {
		at += ": " + e.Field
	}
	return printable.Line(at+": "+e.Text, maxLine)
}

// Errorf is an error at the place of a field, or of the nearest one around it that is there.
func (f *Document) Errorf(field, format string, args ...any) error {
	e := &Error{File: f.name, Field: field, Text: fmt.Sprintf(format, args...)}
	for at := field; ; {
		if p, ok := f.places[at]; ok {
			e.Line, e.Column = p.line, p.column
			return e
		}
		i := strings.LastIndexAny(at, ".[")
		if i < 0 {
			return e
		}
		at = at[:i]
	}
}

// Has reports whether a field is there.
func (f *Document) Has(field string) bool {
	_, ok := f.places[field]
	return ok
}

// Read reads a configuration of elect agent. The error joins an [Error] for each thing that is wrong. name is for
// errors.
func Read(name string, text []byte) (*File, error) {
	f := &File{}
	var err error
	if f.Document, err = ReadInto(name, text, &f.Agent); err != nil {
		return nil, err
	}
	return f, nil
}

// ReadInto reads a configuration into the struct at which into points, by the tags of its fields: those of [Agent] are
// an example. The errors are those of [Read].
func ReadInto(name string, text []byte, into any) (*Document, error) {
	f := &Document{name: name, places: map[string]place{}}
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	var doc, more yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, f.Errorf("", "it is empty; want %s:", mostWanted(reflect.TypeOf(into).Elem()))
	case err != nil:
		return nil, f.syntax(string(text), err)
	}
	if err := d.Decode(&more); err == nil {
		return nil, &Error{File: name, Line: more.Line, Column: more.Column, Text: "there is a second document; want one"}
	} else if !errors.Is(err, io.EOF) {
		return nil, f.syntax(string(text), err)
	}
	r := &reader{f: f}
	r.value(doc.Content[0], "", reflect.ValueOf(into).Elem(), "")
	if r.errs != nil {
		return nil, errors.Join(r.errs...)
	}
	return f, nil
}

// mostWanted is the first field that a configuration must have.
func mostWanted(t reflect.Type) string {
	fields := fieldsOf(t)
	for _, f := range fields {
		if f.tag.Get("required") != "" {
			return f.key
		}
	}
	return fields[0].key
}

// syntax gives an error of the parser, "yaml: line 3: …", its place.
func (f *Document) syntax(source string, err error) error {
	e := &Error{File: f.name, Text: strings.TrimPrefix(err.Error(), "yaml: ") + "; want YAML"}
	if rest, ok := strings.CutPrefix(e.Text, "line "); ok {
		if n, text, ok := strings.Cut(rest, ": "); ok {
			if line, err := strconv.Atoi(n); err == nil {
				e.Line, e.Text = line, text
				lines := strings.Split(source, "\n")
				for at := max(line, 1); at <= min(line+1, len(lines)); at++ { // the parser's line is that before it at times
					if strings.HasPrefix(strings.TrimLeft(lines[at-1], " "), "\t") {
						e.Line, e.Text = at, "a tab indents it; want spaces"
						break
					}
				}
			}
		}
	}
	return e
}

// reader fills values from nodes.
type reader struct {
	f      *Document
	errs   []error
	depth  int
	values int
}

// maxLine is the length of an error, in bytes.
const maxLine = 1000

// What a reader takes at most. An alias costs a few bytes, and may stand for a thousand values, or a thousand errors.
const (
	maxValues = 100_000
	maxErrors = 100
)

// enough reports whether no further error is told.
func (r *reader) enough() bool { return len(r.errs) > maxErrors }

func (r *reader) fail(n *yaml.Node, field, format string, args ...any) {
	switch {
	case r.enough():
		return
	case len(r.errs) == maxErrors:
		r.errs = append(r.errs, &Error{File: r.f.name, Text: fmt.Sprintf("more than %d things are wrong; want these to be right first", maxErrors)})
		return
	}
	r.errs = append(r.errs, &Error{File: r.f.name, Line: n.Line, Column: n.Column, Field: field, Text: fmt.Sprintf(format, args...)})
}

// value fills v, which has the tags of its field, from n.
func (r *reader) value(n *yaml.Node, field string, v reflect.Value, tag reflect.StructTag) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if r.depth > 32 { // an alias may contain itself
		r.fail(n, field, "it is nested too deeply; want fewer levels")
		return
	}
	r.depth++
	defer func() { r.depth-- }()
	if r.enough() {
		return
	}
	if r.values++; r.values >= maxValues {
		if r.values == maxValues {
			r.fail(n, field, "there are more than %d values up to here, aliases resolved; want fewer", maxValues)
		}
		return
	}
	r.f.places[field] = place{n.Line, n.Column}
	switch t := v.Type(); {
	case t == reflect.TypeFor[time.Duration]():
		r.duration(n, field, v)
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		r.mapping(n, field, v.Elem())
	case t.Kind() == reflect.Struct:
		r.mapping(n, field, v)
	case t.Kind() == reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			such := ""
			if words := strings.Fields(n.Value); n.Kind == yaml.ScalarNode && len(words) > 0 && len(n.Value) <= 40 {
				such = ", such as [" + strings.Join(words, ", ") + "]"
			}
			r.fail(n, field, "it is %s; want a list%s", described(n), such)
			return
		}
		v.Set(reflect.MakeSlice(t, len(n.Content), len(n.Content)))
		for i, c := range n.Content {
			r.value(c, fmt.Sprintf("%s[%d]", field, i), v.Index(i), element(tag))
		}
		if tag.Get("required") != "" && len(n.Content) == 0 {
			r.fail(n, field, "it is empty; want at least one")
		}
	case t.Kind() == reflect.Map:
		if n.Kind != yaml.MappingNode {
			r.fail(n, field, "it is %s; want a mapping", described(n))
			return
		}
		v.Set(reflect.MakeMap(t))
		r.pairs(n, field, func(key, value *yaml.Node) {
			one := reflect.New(t.Elem()).Elem()
			r.value(value, field+"."+key.Value, one, "")
			v.SetMapIndex(reflect.ValueOf(key.Value), one)
		})
	default:
		r.scalar(n, field, v, tag)
	}
}

// mapping fills the struct v.
func (r *reader) mapping(n *yaml.Node, field string, v reflect.Value) {
	fields := fieldsOf(v.Type())
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		for _, f := range fields {
			if f.tag.Get("short") != "" {
				r.value(n, join(field, f.key), v.Field(f.index), f.tag)
				return
			}
		}
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n, field, "it is %s; want a mapping with %s", described(n), keys(fields))
		return
	}
	seen := map[string]bool{}
	r.pairs(n, field, func(key, value *yaml.Node) {
		i := slices.IndexFunc(fields, func(f part) bool { return f.key == key.Value })
		if i < 0 {
			r.fail(key, join(field, key.Value), "there is no such field; want %s", keys(fields))
			return
		}
		seen[key.Value] = true
		r.value(value, join(field, key.Value), v.Field(fields[i].index), fields[i].tag)
	})
	for _, f := range fields {
		if f.tag.Get("required") != "" && !seen[f.key] {
			r.fail(n, join(field, f.key), "it is missing; want %s", lower(f.tag.Get("doc")))
		}
	}
}

// pairs calls do for each key and value of a mapping.
func (r *reader) pairs(n *yaml.Node, field string, do func(key, value *yaml.Node)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content) && !r.enough(); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			r.fail(key, field, "a key is %s; want text", described(key))
			continue
		}
		if line, again := seen[key.Value]; again {
			r.fail(key, join(field, key.Value), "it is there twice, first on line %d; want it once", line)
			continue
		}
		seen[key.Value] = key.Line
		do(key, n.Content[i+1])
	}
}

func (r *reader) scalar(n *yaml.Node, field string, v reflect.Value, tag reflect.StructTag) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		r.fail(n, field, "it is %s; want %s", described(n), map[bool]string{true: "text", false: "a number"}[v.Kind() == reflect.String])
		return
	}
	if v.Kind() == reflect.Bool {
		if n.Tag != "!!bool" {
			r.fail(n, field, "%q is no truth value; want true or false", n.Value)
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
		return
	}
	if v.Kind() == reflect.Int {
		most, _ := strconv.Atoi(tag.Get("max"))
		i, err := strconv.Atoi(n.Value)
		if err != nil || i < 0 || i > most {
			r.fail(n, field, "%q is no number from 0 to %d; want one", n.Value, most)
			return
		}
		v.SetInt(int64(i))
		return
	}
	if allowed := tag.Get("enum"); allowed != "" && !slices.Contains(strings.Split(allowed, ","), n.Value) {
		r.fail(n, field, "%q is unknown; want %s", n.Value, strings.ReplaceAll(allowed, ",", " or "))
		return
	}
	if form := tag.Get("pattern"); form != "" && !regexp.MustCompile(form).MatchString(n.Value) {
		r.fail(n, field, "it is %s; want %s", described(n), tag.Get("want"))
		return
	}
	if strings.TrimSpace(n.Value) == "" && tag.Get("doc") != "" {
		r.fail(n, field, "it is blank; want %s, or the field left out", lower(tag.Get("doc")))
		return
	}
	if strings.ContainsRune(n.Value, 0) {
		r.fail(n, field, "it has a zero byte; want text without")
		return
	}
	v.SetString(n.Value)
}

func (r *reader) duration(n *yaml.Node, field string, v reflect.Value) {
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || d < time.Millisecond {
		r.fail(n, field, "%q is no time of 1ms or more; want one such as 30s, 500ms or 1m30s", n.Value)
		return
	}
	v.SetInt(int64(d))
}

// element is the tag of the elements of a list.
func element(tag reflect.StructTag) reflect.StructTag {
	if enum := tag.Get("enum"); enum != "" {
		return reflect.StructTag(`enum:"` + enum + `"`)
	}
	return ""
}

// part is a field of a struct, by its key.
type part struct {
	key   string
	index int
	tag   reflect.StructTag
	typ   reflect.Type
}

func fieldsOf(t reflect.Type) (all []part) {
	for i := range t.NumField() {
		f := t.Field(i)
		all = append(all, part{f.Tag.Get("key"), i, f.Tag, f.Type})
	}
	return all
}

func keys(fields []part) string {
	names := map[string]bool{}
	for _, f := range fields {
		names[f.key] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}

// described is what a node is, for people.
func described(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "empty"
	}
	return fmt.Sprintf("%.40q", n.Value)
}

// lower is a sentence of documentation as a part of another one.
func lower(doc string) string {
	first, _, _ := strings.Cut(doc, ".")
	if len(first) > 1 && first[1] >= 'a' && first[1] <= 'z' || strings.HasPrefix(first, "A ") {
		first = strings.ToLower(first[:1]) + first[1:]
	}
	return strings.TrimSuffix(first, ".")
}
