package page

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"

	"github.com/electd/elect/internal/long"
)

// TestRate measures how many events a second of a processor the machines compute in the browser, with all that is recorded
// of them for the page, and how long the first answers take. The figures depend on the machine and are
// not judged; that each run has the same events is.
func TestRate(t *testing.T) {
	long.Full(t, "it computes long runs in a browser")
	if runtime.GOOS != "linux" {
		t.Skip("NOT CHECKED: how long a thread has computed is read as Linux tells it")
	}
	chromium(t)
	s := serve(t, http.Dir(write(t)))
	load, _ := os.ReadFile("/proc/loadavg")
	for _, world := range []string{
		`{"protocol": "quorum", "nodes": 5, "seconds": 600}`,
		`{"protocol": "quorum", "nodes": 5, "seconds": 600, "profile": "swarm", "seed": 1}`,
	} {
		b := open(t, s.URL)
		b.must(chromedp.Navigate(s.URL + under + "#start"))
		b.until("elect.call('catalogue').then(() => true)")
		all := 0. // events
		machines := thread(b, "DedicatedWorker")
		grown := func() (events float64, took time.Duration) {
			before := machines()
			events = eval[float64](b, fmt.Sprintf(`(async () => {
				let o = await elect.call("open", %s);
				while (!o.over) o = await elect.call("grow", {events: 50_000});
				return o.events;
			})()`, world))
			return events, machines() - before
		}
		eval[any](b, `elect.call("open", {protocol: "quorum", nodes: 5, seconds: 10}).then(() => elect.call("grow", {events: 1000}))`)
		var first []time.Duration
		for event := range 3 {
			before := machines()
			eval[any](b, fmt.Sprintf("elect.call('state', {event: %d})", 100+event))
			first = append(first, (machines() - before).Round(100*time.Microsecond))
		}
		var rates []int
		for range 5 {
			events, took := grown()
			if all == 0 {
				all = events
			}
			if events != all {
				t.Errorf("%s: %.0f events; want %.0f as before", world, events, all)
			}
			rates = append(rates, int(events/took.Seconds()))
		}
		t.Logf("%s: %d events a second of a processor (median of %v); the first answers with a state took %v; load %s",
			world, slices.Sorted(slices.Values(rates))[len(rates)/2], rates, first, load)
	}
}

// thread returns a function that says how long the one thread of the browser whose name begins so has computed.
func thread(b *tab, name string) func() time.Duration {
	b.t.Helper()
	var pids []int64
	b.must(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		r, err := cdp.Call(ctx, chromedp.FromContext(b.ctx).Browser, systeminfo.GetProcessInfo, cdp.Empty{})
		if err != nil {
			return err
		}
		for _, p := range r.ProcessInfo {
			pids = append(pids, p.ID)
		}
		return nil
	}))
	var found []string
	for _, pid := range pids {
		names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
		for _, path := range names {
			if is, err := os.ReadFile(path); err == nil && bytes.HasPrefix(is, []byte(name)) {
				found = append(found, filepath.Join(filepath.Dir(path), "schedstat"))
			}
		}
	}
	if len(found) != 1 {
		b.t.Fatalf("the browser's processes %d have the threads %q that are named %s; want one", pids, found, name)
	}
	return func() time.Duration {
		b.t.Helper()
		text, err := os.ReadFile(found[0])
		if err != nil {
			b.t.Fatal(err)
		}
		first, _, _ := bytes.Cut(text, []byte(" "))
		ns, err := strconv.ParseInt(string(first), 10, 64)
		if err != nil {
			b.t.Fatal(err)
		}
		return time.Duration(ns)
	}
}
