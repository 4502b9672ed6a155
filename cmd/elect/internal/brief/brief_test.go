package brief

import (
	"testing"
	"time"
)

func TestRound(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                     "0s",
		999:                                   "999ns",
		999_499:                               "999µs",
		999_500:                               "1ms",
		8_039_044:                             "8.04ms",
		58_039_044:                            "58ms",
		137_283_847:                           "137ms",
		-137_283_847:                          "-137ms",
		999_600_000:                           "1s",
		4_897_654_321:                         "4.9s",
		time.Minute + 30*time.Millisecond:     "1m0s",
		26*time.Hour + 12345*time.Millisecond: "26h0m12s",
	} {
		if got := Round(d).String(); got != want {
			t.Errorf("%v is rounded to %s; want %s", d, got, want)
		}
	}
}

func TestUp(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:               "0s",
		1:               "1ns",
		1001:            "1.01µs",
		58_000_001:      "58.1ms",
		58_100_000:      "58.1ms",
		999_000_001:     "1s",
		1_000_000_001:   "1.01s",
		61_000_000_001:  "1m1.1s",
		141_000_000_001: "2m22s",
	} {
		got := Up(d)
		if got.String() != want {
			t.Errorf("%v is rounded up to %v; want %s", d, got, want)
		}
		if got < d {
			t.Errorf("%v is rounded up to %v, which is less", d, got)
		}
	}
}

func TestDown(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:               "0s",
		1_009:           "1µs",
		58_199_999:      "58.1ms",
		899_999_999:     "899ms",
		999_999_999:     "999ms",
		141_999_999_999: "2m21s",
	} {
		if got := Down(d); got.String() != want {
			t.Errorf("%v is rounded down to %v; want %s", d, got, want)
		}
	}
}
