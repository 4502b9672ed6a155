package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ParseError describes an error in the text of a schedule, and its place.
type ParseError struct {
	Line, Column int    // from 1; the column counts bytes
	Field        string // such as ops[2].at; empty for the whole text
	Err          error
}

// Error implements error.
func (e *ParseError) Error() string {
	return fmt.Sprintf("schedule: line %d, column %d: %s", e.Line, e.Column, e.Says())
}

// Unwrap returns the cause.
func (e *ParseError) Unwrap() error { return e.Err }

// Says is the error without its line.
func (e *ParseError) Says() string {
	if e.Field == "" {
		return e.Err.Error()
	}
	return e.Field + ": " + e.Err.Error()
}

// text is JSON that is compared with the type that it is to be read into. Package json alone
// accepts keys in any case, takes the last of two equal ones, and does not say where an unknown one
// is.
type text struct {
	data []byte
	json *json.Decoder
	at   int // where the last token begins
}

// checkText returns an error if data is not a value of that type.
func checkText(data []byte, of reflect.Type) error {
	t := &text{data: data}
	if len(data) > MaxText {
		t.at = MaxText
		return t.wrong("", "more than %d MiB; want a schedule", MaxText>>20)
	}
	if err := t.syntax(); err != nil {
		return err
	}
	t.json = json.NewDecoder(bytes.NewReader(data))
	t.json.UseNumber()
	return t.value("", of)
}

// wrong is an error at the last token.
func (t *text) wrong(field, format string, args ...any) error {
	before := t.data[:min(t.at, len(t.data))]
	return &ParseError{
		Line: 1 + bytes.Count(before, []byte("\n")), Column: len(before) - bytes.LastIndexByte(before, '\n'),
		Field: field, Err: fmt.Errorf(format, args...),
	}
}

// syntax checks that the text is one value of JSON.
func (t *text) syntax() error {
	for i := 0; i < len(t.data); {
		r, size := utf8.DecodeRune(t.data[i:])
		if r == utf8.RuneError && size == 1 {
			t.at = i
			return t.wrong("", "it is not UTF-8")
		}
		i += size
	}
	if len(bytes.TrimSpace(t.data)) == 0 {
		return t.wrong("", "there is nothing; want a schedule")
	}
	var whole json.RawMessage
	err := json.Unmarshal(t.data, &whole)
	if err == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(t.data))
	if d.Decode(&whole) == nil {
		t.at = int(d.InputOffset())
		t.at += len(t.data[t.at:]) - len(bytes.TrimLeft(t.data[t.at:], " \t\r\n"))
		return t.wrong("", "something follows the schedule; want one alone")
	}
	e, ok := err.(*json.SyntaxError)
	switch {
	case !ok:
		return t.wrong("", "%w", err)
	case int(e.Offset) >= len(t.data) && strings.HasPrefix(e.Error(), "unexpected end"):
		t.at = len(t.data)
		return t.wrong("", "the text ends too early")
	}
	t.at = int(e.Offset) - 1
	return t.wrong("", "it is no JSON: %w", e)
}

// next is the next token. The syntax has been checked.
func (t *text) next() json.Token {
	from := int(t.json.InputOffset())
	t.at = from + len(t.data[from:]) - len(bytes.TrimLeft(t.data[from:], " \t\r\n,:"))
	token, err := t.json.Token()
	if err != nil {
		return nil
	}
	return token
}

// value reads one value, which stands at field.
func (t *text) value(field string, of reflect.Type) error {
	null := false
	switch of.Kind() {
	case reflect.Pointer:
		of, null = of.Elem(), true
	case reflect.Slice:
		null = true
	}
	if of == reflect.TypeFor[json.RawMessage]() {
		return t.any(field, t.next())
	}
	token := t.next()
	if token == nil && null {
		return nil
	}
	begin := t.at
	want := ""
	switch of.Kind() {
	case reflect.Struct:
		if token == json.Delim('{') {
			return t.object(field, of)
		}
		want = "an object"
	case reflect.Slice:
		if token == json.Delim('[') {
			for i := 0; t.json.More(); i++ {
				if err := t.value(fmt.Sprintf("%s[%d]", field, i), of.Elem()); err != nil {
					return err
				}
			}
			t.next()
			return nil
		}
		want = "a list"
	case reflect.String:
		if _, ok := token.(string); ok {
			return nil
		}
		want = "text"
	case reflect.Bool:
		if _, ok := token.(bool); ok {
			return nil
		}
		want = "true or false"
	default:
		var ok bool
		if ok, want = number(token, of); ok {
			return nil
		}
	}
	shown := ""
	switch d, _ := token.(json.Delim); d {
	case '{':
		shown = "an object"
	case '[':
		shown = "a list"
	default:
		shown = brief(t.data[begin:t.json.InputOffset()])
	}
	t.at = begin
	return t.wrong(field, "%s; want %s", shown, want)
}

// number reports whether a token is such a number, and what a correct one would be.
func number(token json.Token, of reflect.Type) (bool, string) {
	n, ok := token.(json.Number)
	var err error
	want := ""
	switch of.Kind() {
	case reflect.Uint64:
		want = "a whole number, 0 or more"
		_, err = strconv.ParseUint(string(n), 10, 64)
	case reflect.Float64:
		want = "a number"
		_, err = strconv.ParseFloat(string(n), 64)
	default:
		want = "a whole number"
		if of == reflect.TypeFor[time.Duration]() || of == reflect.TypeFor[Time]() {
			want = "a number of nanoseconds"
		}
		_, err = strconv.ParseInt(string(n), 10, 64)
	}
	return ok && err == nil, want
}

// brief is a value as shown in an error.
func brief(value []byte) string {
	const most = 40
	if len(value) <= most {
		return string(value)
	}
	return strings.ToValidUTF8(string(value[:most]), "") + "…"
}

// shown is the last token, a key, as written, without control characters.
func (t *text) shown() string {
	return brief(bytes.Trim(t.data[t.at:t.json.InputOffset()], `"`))
}

// object reads an object whose keys are the fields of a type.
func (t *text) object(field string, of reflect.Type) error {
	fields := make(map[string]reflect.Type, of.NumField())
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = f.Type
	}
	seen := make(map[string]bool)
	for t.json.More() {
		key, _ := t.next().(string)
		inner, known := fields[key]
		if !known {
			for name := range fields {
				if strings.EqualFold(name, key) {
					return t.wrong(under(field, t.shown()), "no such field; want %q", name)
				}
			}
			return t.wrong(under(field, t.shown()), "no such field")
		}
		if seen[key] {
			return t.wrong(under(field, key), "it is there twice; want it once")
		}
		seen[key] = true
		if err := t.value(under(field, key), inner); err != nil {
			return err
		}
	}
	t.next()
	return nil
}

// any reads a value of any kind, of which token is the first.
func (t *text) any(field string, token json.Token) error {
	switch token {
	case json.Delim('['):
		for i := 0; t.json.More(); i++ {
			if err := t.any(fmt.Sprintf("%s[%d]", field, i), t.next()); err != nil {
				return err
			}
		}
		t.next()
	case json.Delim('{'):
		seen := make(map[string]bool)
		for t.json.More() {
			key, _ := t.next().(string)
			if seen[key] {
				return t.wrong(under(field, t.shown()), "it is there twice; want it once")
			}
			seen[key] = true
			if err := t.any(under(field, key), t.next()); err != nil {
				return err
			}
		}
		t.next()
	}
	return nil
}

func under(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}
