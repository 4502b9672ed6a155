package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Schema is the JSON schema (draft 2020-12) of a configuration of elect agent. Editors that know YAML use it, too.
func Schema() []byte { return SchemaOf[Agent]("Configuration of elect agent") }

// SchemaOf is the JSON schema of what [ReadInto] reads into a T.
func SchemaOf[T any](title string) []byte {
	s := schemaOf(reflect.TypeFor[T](), "")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = title
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(s) // maps of strings, and numbers
	return b.Bytes()
}

// schemaOf is the schema of a type, whose field has the tags.
func schemaOf(t reflect.Type, tag reflect.StructTag) map[string]any {
	s := map[string]any{}
	if doc := tag.Get("doc"); doc != "" {
		s["description"] = doc
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		s["type"], s["pattern"] = "string", `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`
	case t.Kind() == reflect.String:
		s["type"] = "string"
		if tag != "" {
			s["pattern"] = `\S`
		}
		if form := tag.Get("pattern"); form != "" {
			s["pattern"] = form
		}
		if enum := tag.Get("enum"); enum != "" {
			s["enum"] = strings.Split(enum, ",")
			delete(s, "pattern")
		}
	case t.Kind() == reflect.Bool:
		s["type"] = "boolean"
	case t.Kind() == reflect.Int:
		most, _ := strconv.Atoi(tag.Get("max"))
		s["type"], s["minimum"], s["maximum"] = "integer", 0, most
	case t.Kind() == reflect.Slice:
		s["type"], s["items"] = "array", schemaOf(t.Elem(), element(tag))
		if tag.Get("required") != "" {
			s["minItems"] = 1
		}
	case t.Kind() == reflect.Map:
		s["type"], s["additionalProperties"] = "object", schemaOf(t.Elem(), "")
	default:
		object(s, t)
	}
	return s
}

func object(s map[string]any, t reflect.Type) {
	properties, required, short := map[string]any{}, []string{}, false
	for _, f := range fieldsOf(t) {
		properties[f.key] = schemaOf(f.typ, f.tag)
		if f.tag.Get("required") != "" {
			required = append(required, f.key)
		}
		short = short || f.tag.Get("short") != ""
	}
	s["type"], s["properties"], s["additionalProperties"] = "object", properties, false
	if len(required) > 0 {
		s["required"] = required
	}
	if short {
		s["type"] = []string{"object", "string"}
		s["pattern"] = `\S` // of the short form
	}
}
