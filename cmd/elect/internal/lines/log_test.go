package lines

import (
	"log/slog"
	"testing"
)

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
