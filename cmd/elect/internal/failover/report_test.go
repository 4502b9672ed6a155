package failover

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// spread are n times, of 1 ms to n ms, in a shuffled order.
func spread(n int) []time.Duration {
	var all []time.Duration
	for i := range n {
		all = append(all, time.Duration(i*7%n+1)*time.Millisecond) // 7 divides none of the n below
	}
	return all
}

func TestPercentiles(t *testing.T) {
	for name, c := range map[string]struct {
		took []time.Duration
		want Times
	}{
		// By nearest rank a percentile is always one of the times.
		"one":      {spread(1), Times{Min: 1, Median: 1, P90: 1, P99: 1, Max: 1}},
		"two":      {spread(2), Times{Min: 1, Median: 1, P90: 2, P99: 2, Max: 2}},
		"three":    {spread(3), Times{Min: 1, Median: 2, P90: 3, P99: 3, Max: 3}},
		"ten":      {spread(10), Times{Min: 1, Median: 5, P90: 9, P99: 10, Max: 10}},
		"hundred":  {spread(100), Times{Min: 1, Median: 50, P90: 90, P99: 99, Max: 100}},
		"thousand": {spread(1000), Times{Min: 1, Median: 500, P90: 900, P99: 990, Max: 1000}},
		"rounded": {
			[]time.Duration{1234567 * time.Nanosecond, 89 * time.Nanosecond, 567 * time.Nanosecond},
			Times{Min: 0, Median: 0.001, P90: 1.235, P99: 1.235, Max: 1.235},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := Takeover{Kill: Parent, Rounds: len(c.took), Times: c.want}
			r := newReport(&Config{})
			r.add(Parent, slices.Clone(c.took))
			if len(r.Takeovers) != 1 || r.Takeovers[0] != want {
				t.Errorf("got  %+v\nwant %+v", r.Takeovers, want)
			}
		})
	}
}

func TestReportWithoutRounds(t *testing.T) {
	r := newReport(&Config{Shown: "file:/x", Name: "n", Candidates: 3})
	r.add(Child, nil)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"takeovers":[]`, `"election":"file:/x"`, `"name":"n"`, `"candidates":3`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if strings.Contains(string(text), `"idle"`) {
		t.Errorf("nothing was measured, and idle is in %s", text)
	}
}

func TestReportForPeople(t *testing.T) {
	r := newReport(&Config{Shown: "file:/x", Candidates: 4, Memory: 64 << 20})
	r.add(Child, spread(10))
	r.add(Graceful, spread(3))
	r.Idle = &Idle{Candidates: 3, Seconds: 5, Mean: 0.0012, Max: 0.0034}
	wantRows(t, r,
		"KILLED n MIN MEDIAN P90 P99 MAX",
		"child 10 1.00 5.00 9.00 10.00 10.00",
		"graceful 3 1.00 2.00 3.00 3.00 3.00",
		"Idle: 3 candidates over 5 s took 0.0012 % of a core each, at most 0.0034 %, and the leader 0.0000 %.",
		"election file:/x, 4 candidates",
		"memory 64 MiB, all of it touched before the kill",
	)
}

// wantRows wants a report to have these rows for people. How wide columns are does
// not matter.
func wantRows(t *testing.T, r interface{ Write(io.Writer) error }, want ...string) {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(b.String()) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	for _, row := range want {
		if !slices.Contains(rows, row) {
			t.Errorf("no row %q in:\n%s", row, b.String())
		}
	}
}

func TestReportsSideBySide(t *testing.T) {
	leased, kernel := newReport(&Config{Shown: "redis://x", Candidates: 3}), newReport(&Config{Shown: "file:/x", Candidates: 3})
	leased.Lease, leased.Worst, leased.Idle = 4519, 7289, &Idle{Mean: 0.25, Leader: 0.5}
	leased.add(Child, spread(3))
	leased.add(Freeze, spread(3))
	kernel.add(Child, spread(2))
	var out strings.Builder
	if err := (Reports{leased, kernel}).Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"n CHILD PARENT GRACEFUL FREEZE MACHINE LEASE AT MOST LEADER CANDIDATE ELECTION",
		"3 2.0 – – 2.0 – 4519 7289 0.500 0.250 redis://x",
		"2 1.0 – – – – – – – – file:/x",
	} {
		if !slices.ContainsFunc(strings.Split(out.String(), "\n"), func(line string) bool { return strings.Join(strings.Fields(line), " ") == want }) {
			t.Errorf("no line %q in\n%s", want, &out)
		}
	}
}
