package lines

import (
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestExcept: what the caller tells in its own words is left out, and shown where
// everything is.
func TestExcept(t *testing.T) {
	for verbose, want := range map[bool]int{false: 1, true: 2} {
		r, f, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		w := New(f, Form{})
		log := w.Logger(verbose, "told").With("a", 1)
		log.Warn("told")
		log.Warn("other")
		w.Close()
		_ = f.Close()
		text, _ := io.ReadAll(r)
		if got := len(slices.Collect(strings.Lines(string(text)))); got != want {
			t.Errorf("verbose %v: %d lines: %s", verbose, got, text)
		}
	}
}

// TestRounded: times are rounded for people, and nothing else is.
func TestRounded(t *testing.T) {
	for want, v := range map[string]slog.Value{
		"58ms":     slog.DurationValue(58039044),
		"1.23456s": slog.StringValue("1.23456s"),
	} {
		if got := rounded(v).String(); got != want {
			t.Errorf("%v became %s; want %s", v, got, want)
		}
	}
}
