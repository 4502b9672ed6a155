package lines

import (
	"log/slog"
	"testing"
	"time"
)

func TestRounded(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                     "0s",
		999:                                   "999ns",
		58039044:                              "58ms",
		137283847:                             "137ms",
		-137283847:                            "-137ms",
		4897654321:                            "4.9s",
		time.Minute + 30*time.Millisecond:     "1m0s",
		26*time.Hour + 12345*time.Millisecond: "26h0m12s",
	} {
		if got := rounded(slog.DurationValue(d)).String(); got != want {
			t.Errorf("%v is rounded to %s; want %s", d, got, want)
		}
	}
	if got := rounded(slog.StringValue("1.23456s")).String(); got != "1.23456s" {
		t.Errorf("a text became %q", got)
	}
}
