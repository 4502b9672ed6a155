package fencehttp_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
)

func TestFromHeader(t *testing.T) {
	for _, c := range []struct {
		values []string
		want   fencehttp.Shown
		err    error
	}{
		{[]string{"orders;42"}, fencehttp.Shown{Resource: "orders", Token: 42}, nil},
		{[]string{"a/b:c@d;0000000000000000042"}, fencehttp.Shown{Resource: "a/b:c@d", Token: 42}, nil},
		{[]string{"r;9223372036854775807"}, fencehttp.Shown{Resource: "r", Token: fence.MaxToken}, nil},
		{nil, fencehttp.Shown{}, fence.ErrMissing},
		{[]string{""}, fencehttp.Shown{}, fence.ErrToken},
		{[]string{"42"}, fencehttp.Shown{}, fence.ErrToken},
		{[]string{"r;"}, fencehttp.Shown{}, fence.ErrToken},
		{[]string{";42"}, fencehttp.Shown{}, fence.ErrResource},
		{[]string{"r;0"}, fencehttp.Shown{}, fence.ErrToken},
		{[]string{"r;-1"}, fencehttp.Shown{}, fence.ErrToken},
		{[]string{"r;9223372036854775808"}, fencehttp.Shown{}, fence.ErrToken},
		{[]string{"r; 42"}, fencehttp.Shown{}, fence.ErrToken},
		{[]string{"r ;42"}, fencehttp.Shown{}, fence.ErrResource},
		{[]string{"r;42;43"}, fencehttp.Shown{}, fence.ErrToken},
		{[]string{"r;42,r;43"}, fencehttp.Shown{}, fence.ErrToken},
		{[]string{"r;42", "r;43"}, fencehttp.Shown{}, fence.ErrToken},
		{[]string{"r;42", "r;42"}, fencehttp.Shown{}, fence.ErrToken},
		{[]string{strings.Repeat("r", 1<<20) + ";1"}, fencehttp.Shown{}, fence.ErrResource},
		{[]string{strings.Repeat("r", 1<<20)}, fencehttp.Shown{}, fence.ErrToken},
	} {
		h := http.Header{fencehttp.Header: c.values}
		got, err := fencehttp.FromHeader(h)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%.50q: %v, %v; want %v, %v", c.values, got, err, c.want, c.err)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%.50q: an error of %d characters", c.values, len(err.Error()))
		}
	}
}

// FuzzParseShown: what is accepted is valid, and is the text that is written, but for
// leading zeros.
func FuzzParseShown(f *testing.F) {
	for _, seed := range []string{"", ";", "r;1", "r;01", "a;b;1", "r;9223372036854775808", "r,s;1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := fencehttp.ParseShown(text)
		if err != nil {
			if s != (fencehttp.Shown{}) || !errors.Is(err, fence.ErrToken) && !errors.Is(err, fence.ErrResource) {
				t.Fatalf("ParseShown(%q) = %v, %v", text, s, err)
			}
			return
		}
		name, digits, _ := strings.Cut(text, ";")
		if fence.CheckShown(s.Resource, s.Token) != nil || s.String() != name+";"+strings.TrimLeft(digits, "0") {
			t.Fatalf("ParseShown(%q) = %v", text, s)
		}
		h := http.Header{}
		s.Set(h)
		if back, err := fencehttp.FromHeader(h); err != nil || back != s {
			t.Fatalf("%v, and back: %v, %v", s, back, err)
		}
	})
}
