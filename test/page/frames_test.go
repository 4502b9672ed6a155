package page

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/electd/elect/internal/long"
)

// TestFrames measures how many frames a second the page shows while a run of 15 participants plays, and how long the
// page's thread computes for each. Only that is judged: how many frames come also depends on what else the machine does,
// and there is no graphics processor. At 60 a second there is a frame every 16.7 ms.
func TestFrames(t *testing.T) {
	long.Full(t, "it plays for half a minute, in a browser")
	chromium(t)
	s := serve(t, http.Dir(write(t)))
	for _, c := range []struct {
		world string
		speed string // of the page: the power of ten
		slow  bool   // at elections
	}{
		{`{"protocol": "quorum", "nodes": 15}`, "0", true},
		{`{"protocol": "quorum", "nodes": 15}`, "0", false},
		{`{"protocol": "quorum", "nodes": 15, "profile": "swarm", "seed": 1}`, "0.5", false},
		{`{"protocol": "lease", "nodes": 15}`, "0", false},
	} {
		b := app(t, s, "#"+link(fmt.Sprintf(`{"world": %s, "time": 0}`, c.world)))
		b.must(chromedp.EmulateViewport(1600, 1000))
		if n := eval[int](b, "document.querySelectorAll('.node').length"); n != 15 {
			t.Fatalf("%s: %d participants are shown; want 15", c.world, n)
		}
		eval[chromedp.Void](b, fmt.Sprintf(`(() => {
			const [speed, slow] = ["range", "checkbox"].map(kind => document.querySelector("#transport :is(.speed, .check) input[type=" + kind + "]"));
			speed.value = %q;
			speed.dispatchEvent(new Event("input"));
			if (slow.checked !== %t) slow.click();
		})()`, c.speed, c.slow))
		before := spent(b)
		b.must(chromedp.KeyEvent(" "))
		frames := eval[[]int](b, `new Promise(done => {
			const frames = [];
			let began = 0;
			const count = now => {
				began ||= now;
				const second = Math.floor((now - began) / 1000);
				if (second >= 6) return done(frames);
				while (frames.length <= second) frames.push(0);
				frames[second]++;
				requestAnimationFrame(count);
			};
			requestAnimationFrame(count);
		})`)
		spent := spent(b) - before
		b.says("#transport .play", "Pause") // it has played all the time
		all := 0
		for _, n := range frames {
			all += n
		}
		each := spent / time.Duration(all)
		load, _ := os.ReadFile("/proc/loadavg")
		t.Logf("%s, speed 10^%s, slow at elections %t: %d frames a second (median of %v), %v of the page's thread a frame, load %s",
			c.world, c.speed, c.slow, slices.Sorted(slices.Values(frames))[len(frames)/2], frames, each.Round(10*time.Microsecond), load)
		if most := time.Second / 60; each > most {
			t.Errorf("%s: each frame takes %v of the page's thread; want %v at most", c.world, each, most)
		}
	}
}

// spent is how long the page's thread has computed: its time on a processor.
func spent(b *tab) (all time.Duration) {
	b.t.Helper()
	b.must(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		if _, err := cdp.Call(ctx, target, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
			return err
		}
		r, err := cdp.Call(ctx, target, performance.GetMetrics, cdp.Empty{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(r.Metrics, func(m *performance.Metric) bool { return m.Name == "TaskDuration" })
		if i < 0 {
			return fmt.Errorf("the browser does not say how long its tasks took; want TaskDuration among %d figures", len(r.Metrics))
		}
		all = time.Duration(r.Metrics[i].Value * float64(time.Second))
		return nil
	}))
	return all
}
