package runner

import (
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/cmd/elect/internal/sdnotify"
)

func TestVigil(t *testing.T) {
	const limit, wait, grace = 10 * time.Second, 30 * time.Second, 5 * time.Second
	type said struct {
		at   time.Duration
		text string
	}
	for name, c := range map[string]struct {
		limit, wait time.Duration
		said        []said
		ill         time.Duration // 0 is never
		why         string
	}{
		"silent":               {limit: 0},
		"never fed":            {limit: limit, ill: limit, why: "no WATCHDOG=1 for 10s"},
		"fed":                  {limit: limit, said: []said{{9 * time.Second, "WATCHDOG=1"}, {18 * time.Second, "WATCHDOG=1\nSTATUS=busy"}}, ill: 28 * time.Second, why: "no WATCHDOG=1 for 10s (its status: busy)"},
		"status does not feed": {limit: limit, said: []said{{9 * time.Second, "STATUS=x"}, {9 * time.Second, "READY=1"}}, ill: limit, why: "no WATCHDOG=1"},
		"triggered":            {said: []said{{time.Second, "WATCHDOG=trigger"}}, ill: time.Second, why: "it said WATCHDOG=trigger"},
		"never ready":          {limit: limit, wait: wait, said: []said{{20 * time.Second, "WATCHDOG=1"}}, ill: wait, why: "no READY=1 within 30s"},
		"ready":                {limit: limit, wait: wait, said: []said{{29 * time.Second, "READY=1"}}, ill: 39 * time.Second, why: "no WATCHDOG=1"},
		"ready alone":          {wait: wait, said: []said{{29 * time.Second, "READY=1"}}},
		"extended":             {wait: wait, said: []said{{29 * time.Second, "EXTEND_TIMEOUT_USEC=20000000"}}, ill: 49 * time.Second, why: "no READY=1 within 20s"},
		"not shortened":        {wait: wait, said: []said{{time.Second, "EXTEND_TIMEOUT_USEC=1"}}, ill: wait, why: "no READY=1 within 30s"},
		"a limit of its own":   {said: []said{{time.Second, "WATCHDOG_USEC=2000000"}}, ill: 3 * time.Second, why: "no WATCHDOG=1 for 2s"},
		"a limit taken back":   {limit: limit, said: []said{{time.Second, "WATCHDOG_USEC=0"}}},
		"stops":                {limit: limit, said: []said{{9 * time.Second, "STOPPING=1"}}, ill: 14 * time.Second, why: "it said STOPPING=1, and has not ended within 5s"},
		"stops, unwatched":     {said: []said{{time.Second, "STOPPING=1"}}},
		"stops for longer":     {limit: limit, said: []said{{9 * time.Second, "STOPPING=1"}, {10 * time.Second, "READY=1\nEXTEND_TIMEOUT_USEC=20000000"}}, ill: 30 * time.Second, why: "has not ended within 20s"},
		"stops early":          {wait: wait, said: []said{{time.Second, "STOPPING=1"}}, ill: 6 * time.Second, why: "it said STOPPING=1"},
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			v := newVigil(begun, c.limit, c.wait, grace)
			for _, s := range append(c.said, said{time.Hour, ""}) {
				at := begun.Add(s.at)
				if due := v.due(); !due.IsZero() && due.Before(at) {
					if err := v.why(due); due.Sub(begun) != c.ill || err == nil || !strings.Contains(err.Error(), c.why) {
						t.Errorf("ill after %v: %v; want after %v: %s", due.Sub(begun), err, c.ill, c.why)
					}
					return
				}
				m, err := sdnotify.Parse([]byte(s.text))
				if err != nil {
					t.Fatal(err)
				}
				v.hear(at, m)
				if err := v.why(at); err != nil {
					if s.at != c.ill || !strings.Contains(err.Error(), c.why) {
						t.Errorf("ill after %v: %v; want after %v: %s", s.at, err, c.ill, c.why)
					}
					return
				}
			}
			if c.ill != 0 {
				t.Errorf("never ill; want after %v", c.ill)
			}
		})
	}
	v := newVigil(time.Now(), limit, 0, grace)
	v.resume(v.due())
	if v.why(v.due().Add(-1)) != nil || v.why(v.due()) == nil {
		t.Error("after a time in which this process did not run, the limit does not begin anew")
	}
}
