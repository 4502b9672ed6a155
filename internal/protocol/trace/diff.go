package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// difference finds the first place where two JSON texts are not equal, and what
// each has there. It is empty if they are equal.
func difference(path string, a, b []byte) (at, inA, inB string) {
	if bytes.Equal(a, b) {
		return "", "", ""
	}
	return differ(path, parse(a), parse(b))
}

func parse(text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(text)
	}
	return v
}

func differ(path string, a, b any) (at, inA, inB string) {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		names := maps.Clone(x)
		maps.Copy(names, y)
		for _, name := range sortedNames(names) {
			left, inX := x[name]
			right, inY := y[name]
			if !inX || !inY {
				return path + "." + name, show(left, inX), show(right, inY)
			}
			if at, inA, inB = differ(path+"."+name, left, right); at != "" {
				return at, inA, inB
			}
		}
		return "", "", ""
	case []any:
		y, ok := b.([]any)
		if !ok {
			break
		}
		for i := range max(len(x), len(y)) {
			here := fmt.Sprintf("%s[%d]", path, i)
			if i >= len(x) || i >= len(y) {
				left, right := "nothing", "nothing"
				if i < len(x) {
					left = show(x[i], true)
				} else {
					right = show(y[i], true)
				}
				return here, left, right
			}
			if at, inA, inB = differ(here, x[i], y[i]); at != "" {
				return at, inA, inB
			}
		}
		return "", "", ""
	default:
		if a == b {
			return "", "", ""
		}
	}
	return path, show(a, true), show(b, true)
}

// show is a value, short enough for a line.
func show(v any, there bool) string {
	if !there {
		return "nothing"
	}
	text, err := canonical(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	const most = 200
	if text = bytes.TrimSpace(text); len(text) > most {
		return string(bytes.ToValidUTF8(text[:most], nil)) + "…"
	}
	return string(text)
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
