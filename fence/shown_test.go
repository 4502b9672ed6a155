package fence_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/electd/elect/fence"
)

func TestParseShown(t *testing.T) {
	for _, tt := range []struct {
		text string
		want fence.Shown
		err  error
	}{
		{"orders;42", fence.Shown{Resource: "orders", Token: 42}, nil},
		{"a/b:c@d;0000000000000000042", fence.Shown{Resource: "a/b:c@d", Token: 42}, nil},
		{"r;9223372036854775807", fence.Shown{Resource: "r", Token: fence.MaxToken}, nil},
		{"", fence.Shown{}, fence.ErrToken},
		{"42", fence.Shown{}, fence.ErrToken},
		{"r;", fence.Shown{}, fence.ErrToken},
		{";42", fence.Shown{}, fence.ErrResource},
		{"r;0", fence.Shown{}, fence.ErrToken},
		{"r;-1", fence.Shown{}, fence.ErrToken},
		{"r;9223372036854775808", fence.Shown{}, fence.ErrToken},
		{"r; 42", fence.Shown{}, fence.ErrToken},
		{"r ;42", fence.Shown{}, fence.ErrResource},
		{"r;42;43", fence.Shown{}, fence.ErrToken},
		{"r;42,r;43", fence.Shown{}, fence.ErrToken},
		{strings.Repeat("r", 1<<20) + ";1", fence.Shown{}, fence.ErrResource},
		{strings.Repeat("r", 1<<20), fence.Shown{}, fence.ErrToken},
	} {
		got, err := fence.ParseShown(tt.text)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("ParseShown(%.50q) = %v, %v; want %v, %v", tt.text, got, err, tt.want, tt.err)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("ParseShown(%.50q): an error of %d characters", tt.text, len(err.Error()))
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
		s, err := fence.ParseShown(text)
		if err != nil {
			if s != (fence.Shown{}) || !errors.Is(err, fence.ErrToken) && !errors.Is(err, fence.ErrResource) {
				t.Fatalf("ParseShown(%q) = %v, %v", text, s, err)
			}
			return
		}
		name, digits, _ := strings.Cut(text, ";")
		if fence.CheckShown(s.Resource, s.Token) != nil || s.String() != name+";"+strings.TrimLeft(digits, "0") {
			t.Fatalf("ParseShown(%q) = %v", text, s)
		}
	})
}
