package fence_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/electd/elect/fence"
)

// All messages of a leader come before all of the next one's.
func TestSequencesAreOrdered(t *testing.T) {
	ordered := []fence.Sequence{
		{},
		{Token: 1, Position: 1},
		{Token: 1, Position: 2},
		{Token: 1, Position: 1<<64 - 1},
		{Token: 2, Position: 1},
		{Token: fence.MaxToken, Position: 1},
	}
	if !slices.IsSortedFunc(ordered, fence.Sequence.Compare) {
		t.Error("not in order")
	}
	for i, a := range ordered {
		for j, b := range ordered {
			got := a.Compare(b)
			if got != -b.Compare(a) || (got == 0) != (i == j) || (got < 0) != (i < j) {
				t.Errorf("%v against %v is %d", a, b, got)
			}
		}
	}
}

func TestParseSequence(t *testing.T) {
	for text, want := range map[string]fence.Sequence{
		"42/7": {Token: 42, Position: 7},
		"1/1":  {Token: 1, Position: 1},
		"9223372036854775807/18446744073709551615": {Token: fence.MaxToken, Position: 1<<64 - 1},
		// refused:
		"":                        {},
		"42":                      {},
		"/":                       {},
		"42/":                     {},
		"/7":                      {},
		"42/0":                    {},
		"0/7":                     {},
		"042/7":                   {},
		"42/07":                   {},
		"42/+7":                   {},
		"42/-7":                   {},
		"42/7/7":                  {},
		"42 / 7":                  {},
		"42/18446744073709551616": {},
		"281474976710656/1":       {},
	} {
		got, err := fence.ParseSequence(text)
		if got != want || (err == nil) != (want != fence.Sequence{}) || err != nil && !errors.Is(err, fence.ErrToken) {
			t.Errorf("ParseSequence(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, long := range []string{strings.Repeat("x", 1<<20), "1/" + strings.Repeat("9", 1<<20)} {
		if _, err := fence.ParseSequence(long); err == nil || len(err.Error()) > 250 {
			t.Errorf("ParseSequence of a megabyte: %.300v", err)
		}
	}
}

// FuzzParseSequence: there is one text for each sequence.
func FuzzParseSequence(f *testing.F) {
	for _, seed := range []string{"", "/", "42/7", "42/07", "042/7", "1/18446744073709551616", "1/1/1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := fence.ParseSequence(text)
		if err != nil {
			if s != (fence.Sequence{}) || !errors.Is(err, fence.ErrToken) {
				t.Fatalf("ParseSequence(%q) = %v, %v", text, s, err)
			}
			return
		}
		if s.String() != text || !s.Token.Valid() || s.Position == 0 {
			t.Fatalf("ParseSequence(%q) = %v", text, s)
		}
	})
}

func TestStaleError(t *testing.T) {
	var err error = &fence.StaleError{Shown: 3, Highest: 7}
	if !errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrToken) {
		t.Errorf("%v matches the wrong sentinel", err)
	}
	if got := err.Error(); got != "stale fencing token: 3 shown, the resource has seen 7" {
		t.Errorf("it says %q", got)
	}
	if got := (&fence.StaleError{Highest: 7}).Error(); got != "stale fencing token: none shown, the resource is guarded by token 7" {
		t.Errorf("without a token it says %q", got)
	}
}
