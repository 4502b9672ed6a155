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
		want   fence.Shown
		err    error
	}{
		{[]string{"orders;42"}, fence.Shown{Resource: "orders", Token: 42}, nil},
		{[]string{"a/b:c@d;0000000000000000042"}, fence.Shown{Resource: "a/b:c@d", Token: 42}, nil},
		{[]string{"r;9223372036854775807"}, fence.Shown{Resource: "r", Token: fence.MaxToken}, nil},
		{nil, fence.Shown{}, fence.ErrMissing},
		{[]string{""}, fence.Shown{}, fence.ErrToken},
		{[]string{"42"}, fence.Shown{}, fence.ErrToken},
		{[]string{"r;"}, fence.Shown{}, fence.ErrToken},
		{[]string{";42"}, fence.Shown{}, fence.ErrResource},
		{[]string{"r;0"}, fence.Shown{}, fence.ErrToken},
		{[]string{"r;-1"}, fence.Shown{}, fence.ErrToken},
		{[]string{"r;9223372036854775808"}, fence.Shown{}, fence.ErrToken},
		{[]string{"r; 42"}, fence.Shown{}, fence.ErrToken},
		{[]string{"r ;42"}, fence.Shown{}, fence.ErrResource},
		{[]string{"r;42;43"}, fence.Shown{}, fence.ErrToken},
		{[]string{"r;42,r;43"}, fence.Shown{}, fence.ErrToken},
		{[]string{"r;42", "r;43"}, fence.Shown{}, fence.ErrToken},
		{[]string{"r;42", "r;42"}, fence.Shown{}, fence.ErrToken},
		{[]string{strings.Repeat("r", 1<<20) + ";1"}, fence.Shown{}, fence.ErrResource},
		{[]string{strings.Repeat("r", 1<<20)}, fence.Shown{}, fence.ErrToken},
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

// FuzzHeader: what a header shows is valid, and is the text that is written, but for
// leading zeros.
func FuzzHeader(f *testing.F) {
	for _, seed := range []string{"", ";", "r;1", "r;01", "a;b;1", "r;9223372036854775808", "r,s;1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := fencehttp.FromHeader(http.Header{fencehttp.Header: {text}})
		if err != nil {
			if s != (fence.Shown{}) || !errors.Is(err, fence.ErrToken) && !errors.Is(err, fence.ErrResource) {
				t.Fatalf("FromHeader of %q = %v, %v", text, s, err)
			}
			return
		}
		name, digits, _ := strings.Cut(text, ";")
		if fence.CheckShown(s.Resource, s.Token) != nil || s.String() != name+";"+strings.TrimLeft(digits, "0") {
			t.Fatalf("FromHeader of %q = %v", text, s)
		}
		h := http.Header{}
		fencehttp.SetHeader(h, s)
		if back, err := fencehttp.FromHeader(h); err != nil || back != s {
			t.Fatalf("%v, and back: %v, %v", s, back, err)
		}
	})
}
