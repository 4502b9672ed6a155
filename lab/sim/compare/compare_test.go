package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/race"
	"github.com/electd/elect/lab/sim"
)

// written is a report in all its forms.
func written(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(r); err != nil {
		t.Fatal(err)
	}
	if err := r.Table(&b); err != nil {
		t.Fatal(err)
	}
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The report is the same to the byte for any number of jobs.
func TestSameReport(t *testing.T) {
	var want string
	for _, jobs := range []int{1, 3, 8} {
		var most atomic.Uint64
		r, err := Run(t.Context(), Options{
			Protocols: []string{"quorum", "queue", "raft", "bully"}, Seeds: 20, First: 5, For: 20 * time.Second, Jobs: jobs,
			Progress: func(done, all uint64) {
				if all != 80 || done > all {
					t.Errorf("progress %d of %d; want 80", done, all)
				}
				most.Store(max(most.Load(), done))
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.Interrupted || most.Load() == 0 {
			t.Errorf("%d jobs: interrupted %t, progress up to %d", jobs, r.Interrupted, most.Load())
		}
		got := written(t, r)
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%d jobs: another report:\n%s", jobs, got)
		}
	}
}

// What the report says of one run is what the run came to.
func TestOneRun(t *testing.T) {
	o := Options{Protocols: []string{"raft", "lease"}, Seeds: 1, First: 6}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	schedules, err := Schedules(o)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range schedules {
		w, err := sim.New(named(t, s.Protocol), s)
		if err != nil {
			t.Fatal(err)
		}
		w.Run()
		st, l := &w.Result().Stats, &r.Lines[i]
		if l.Protocol != s.Protocol || l.Runs != 1 || l.Availability != st.Availability() || l.TwoLed != millis(st.TwoLed) ||
			l.Messages != st.Messages || l.Requests != st.Asks || l.Elections != st.Elections || l.Changes != st.Changes || l.Failovers != uint64(len(st.Takeovers)) ||
			l.StaleOffered != st.StaleOffered || l.StaleAccepted != st.StaleAccepted || l.StaleRefused != st.StaleRefused || l.Writes != st.Writes {
			t.Errorf("%s: %+v; the run came to %+v", s.Protocol, l, st)
		}
		if want := float64(st.Electing) / float64(st.Elections); *l.PerElection != want {
			t.Errorf("%s: %v messages an election; want %v", s.Protocol, *l.PerElection, want)
		}
		if want := float64(st.Messages+st.Asks) / 60; l.PerSecond != want {
			t.Errorf("%s: %v messages a second; want %v", s.Protocol, l.PerSecond, want)
		}
	}
	// The same, of a schedule.
	base, err := sim.Generate(named(t, "quorum"), 6, sim.Options{Nodes: 5, Spares: -1, Faults: time.Minute, Settle: -1, Config: json.RawMessage("{}")})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Run(t.Context(), Options{Protocols: o.Protocols, Schedule: base})
	if err != nil {
		t.Fatal(err)
	}
	again.Drawn = r.Drawn
	if a, b := written(t, again), written(t, r); a != b {
		t.Errorf("a schedule by itself comes to\n%s; want\n%s", a, b)
	}
	if got := r.Command(); got != "electlab sim compare --protocol raft,lease --seed 6 --seeds 1 --nodes 5 --profile swarm --for 1m0s" {
		t.Errorf("the command is %q", got)
	}
}

// A protocol without two leaders at one time has a leader for no longer than quorum: with each
// protocol's defaults, and when all detect a silent leader equally soon.
func TestQuorumIsAhead(t *testing.T) {
	if race.Enabled {
		t.Skip("TestSameReport has several workers, too, and fewer runs")
	}
	for _, detection := range []time.Duration{0, time.Second} {
		r, err := Run(t.Context(), Options{Protocols: []string{"quorum", "lease", "queue", "queue-zookeeper", "raft-checkquorum", "blazingmq", "bully"}, Seeds: long.Or[uint64](100, 20), Detection: detection, Jobs: 2})
		if err != nil {
			t.Fatal(err)
		}
		first := &r.Lines[0]
		if first.TwoLed != 0 || first.StaleAccepted != 0 {
			t.Errorf("quorum had two leaders for %v ms, and %d stale writes were accepted", first.TwoLed, first.StaleAccepted)
		}
		for i := range r.Lines[1:] {
			if l := &r.Lines[1+i]; l.TwoLed == 0 && l.Availability > first.Availability {
				t.Errorf("detection %v: %s has a leader for %v of the time, without two leaders; quorum for %v", detection, l.Protocol, l.Availability, first.Availability)
			}
			if l := &r.Lines[1+i]; l.Violation != nil {
				t.Errorf("detection %v: %s: %+v", detection, l.Protocol, l.Violation)
			}
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, err := Run(ctx, Options{Protocols: []string{"quorum", "raft"}, Seeds: 1 << 40, For: 5 * time.Second, Jobs: 2, Progress: func(done, _ uint64) {
		if done >= 20 {
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	runs := r.Lines[0].Runs + r.Lines[1].Runs
	if !r.Interrupted || runs < 20 || runs > 24 {
		t.Errorf("interrupted %t after %d runs; want after about 20", r.Interrupted, runs)
	}
	if text := written(t, r); !strings.Contains(text, "\ninterrupted after 2") || !strings.Contains(text, "It was interrupted") || !strings.Contains(text, `"interrupted":true`) {
		t.Errorf("it does not say that it was interrupted:\n%s", text)
	}
}

// A protocol that violates what it must hold is named, with the smallest seed, for any number of
// jobs.
func TestViolation(t *testing.T) {
	var want string
	for _, jobs := range []int{1, 3} {
		c, err := newComparison(Options{Protocols: []string{"quorum", "raft"}, Seeds: 12, Jobs: jobs, Profile: "partitions"})
		if err != nil {
			t.Fatal(err)
		}
		c.contenders[1].protocol.Expect = nil // as if it promised exclusion
		r, err := c.compare(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v := r.Violations()
		if len(v) != 1 || v[0].Protocol != "raft" || v[0].Violated < 2 || v[0].Violation.Invariant != sim.Exclusive {
			t.Fatalf("violations %+v; want raft's", v)
		}
		got := written(t, r)
		if want == "" {
			want = got
		}
		if got != want || !strings.Contains(got, "raft VIOLATED what it must hold in ") {
			t.Errorf("%d jobs: another report, or none of the violation:\n%s", jobs, got)
		}
	}
}

func TestRefused(t *testing.T) {
	schedule := base("quorum")
	for _, test := range []struct {
		wrong string
		o     Options
	}{
		{`protocol "paxos"; want some of: quorum, lease`, Options{Protocols: []string{"paxos"}}},
		{"raft is there twice", Options{Protocols: []string{"raft", "raft"}}},
		{"-1 jobs", Options{Jobs: -1}},
		{"a detection time of -1s", Options{Detection: -time.Second}},
		{"a detection time of 1ms: ", Options{Detection: time.Millisecond}},
		{"faults for -1s", Options{For: -time.Second}},
		{"profile \"calm\"", Options{Profile: "calm"}},
		{"nodes", Options{Nodes: 1001}},
		{"the greatest seed is", Options{Seeds: 2, First: math.MaxUint64}},
		{"want at most", Options{Seeds: math.MaxUint64}},
		{"a schedule together with seeds", Options{Schedule: schedule, Seeds: 2}},
		{"a schedule together with seeds", Options{Schedule: schedule, For: time.Second}},
	} {
		if _, err := Run(t.Context(), test.o); err == nil || !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%+v: error %v; want %q", test.o, err, test.wrong)
		}
	}
}

// The page refers to nothing outside, and shows every protocol and figure.
func TestHTML(t *testing.T) {
	r, err := Run(t.Context(), Options{Seeds: 3, For: 10 * time.Second, Detection: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if found := regexp.MustCompile(`(?i)<script|<link|<img|\bsrc=|\bhref=|@import|url\(`).FindString(page); found != "" {
		t.Errorf("the page refers to something: %s", found)
	}
	if found := regexp.MustCompile(`https?://[^"]*`).FindAllString(strings.ReplaceAll(page, "http://www.w3.org/2000/svg", ""), -1); len(found) > 0 {
		t.Errorf("the page has addresses: %v", found)
	}
	for _, l := range r.Lines {
		if strings.Count(page, l.Protocol) < 7 {
			t.Errorf("%s is in the page %d times", l.Protocol, strings.Count(page, l.Protocol))
		}
	}
	for _, tag := range []string{"html", "head", "body", "main", "style", "table", "thead", "tbody", "tr", "td", "figure", "svg", "dl", "dt", "dd", "ul", "li", "p", "pre", "h2"} {
		begins := len(regexp.MustCompile("<"+tag+"[ >]").FindAllString(page, -1))
		if ends := strings.Count(page, "</"+tag+">"); begins == 0 || begins != ends {
			t.Errorf("%d of <%s>, %d of </%[2]s>", begins, tag, ends)
		}
	}
	ids := regexp.MustCompile(` id="([^"]+)"`).FindAllString(page, -1)
	if slices.Sort(ids); len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Errorf("ids are not unique: %v", ids)
	}
}

// Quantiles are those of the times, to within a thousandth, however they were added.
func TestHistogram(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var a, b histogram
	var all []time.Duration
	for i := range 10_000 {
		d := time.Duration(math.Exp(float64(r.IntN(36_000))/1000)) * time.Nanosecond
		all = append(all, d)
		if i%3 == 0 {
			a.add(d)
		} else {
			b.add(d)
		}
	}
	slices.Sort(all)
	b.join(&a)
	for _, q := range []uint64{1, 10, 333, 500, 900, 990, 999, 1000} {
		want := all[(len(all)*int(q)+999)/1000-1]
		got, ok := b.quantile(q)
		if off := (got - want).Abs(); !ok || off > want/1000+time.Microsecond {
			t.Errorf("quantile %d: %v, %t; want %v", q, got, ok, want)
		}
	}
	if got, _ := b.quantile(1000); got != all[len(all)-1] {
		t.Errorf("the longest is %v; want %v", got, all[len(all)-1])
	}
	if _, ok := new(histogram).quantile(500); ok {
		t.Error("a quantile of nothing")
	}
	for i := range buckets {
		if got := bucket(value(i)); got != i {
			t.Fatalf("the middle of bucket %d is in bucket %d", i, got)
		}
	}
	if got := bucket(math.MaxInt64); got != buckets-1 {
		t.Errorf("the longest time is in bucket %d; want the last, %d", got, buckets-1)
	}
}

func TestDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0004: "0", 0.5: "0.5", 1: "1", 9.8765: "9.877", 98.765: "98.77", 987.68: "987.7", 9876.5: "9,876", 1234567.8: "1,234,568", 12: "12", 999.96: "1,000"} {
		if got := digits(v); got != want {
			t.Errorf("%v is written %s; want %s", v, got, want)
		}
	}
}
