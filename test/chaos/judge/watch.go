//go:build linux

package judge

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// observation is one state that a watcher saw.
type observation struct {
	at     int64
	token  int64 // 0: there is no leader
	leader string
	stale  bool // the back end did not answer: it is the last known state
}

// watcher is one that watched.
type watcher struct {
	name  string
	saw   []observation
	from  int64 // when it was started; 0: not known
	until int64 // when it ended, or the end of the run
	gone  bool  // before the end
}

// seenLine is a line of the worker's watch, which has At, or of elect watch -o json.
type seenLine struct {
	At     int64     `json:"at"`
	Time   time.Time `json:"time"`
	Stale  bool      `json:"stale"`
	Leader *struct {
		ID    string          `json:"id"`
		Token json.RawMessage `json:"token"` // digits, in a string or not
	} `json:"leader"`
}

// watchers reads what they wrote.
func (r *run) watchers() ([]watcher, error) {
	paths, err := filepath.Glob(filepath.Join(r.dir, "watch", "*.ndjson"))
	if err != nil {
		return nil, err
	}
	gone := map[string]int64{}
	begun := map[string]int64{}
	var wall time.Time
	var wallAt int64
	for _, e := range r.events {
		switch e.Kind {
		case Unwatched:
			gone[e.Text] = e.At
		case Watched:
			begun[e.Text] = e.At
		case Run:
			wall, wallAt = e.Wall, e.At
		}
	}
	var all []watcher
	for _, path := range paths {
		w := watcher{name: strings.TrimSuffix(filepath.Base(path), ".ndjson"), until: r.to}
		if at, ok := gone[w.name]; ok {
			w.until, w.gone = at, true
		}
		for name, at := range begun {
			if w.name == name || strings.HasPrefix(w.name, name+"-") {
				w.from = at
				delete(begun, name)
			}
		}
		err := readLines(path, func(_ int, line []byte) error {
			var s seenLine
			if err := json.Unmarshal(line, &s); err != nil {
				return err
			}
			g := observation{at: s.At, stale: s.Stale}
			if g.at == 0 {
				if s.Time.IsZero() || wall.IsZero() {
					return fmt.Errorf("a state without at, and time or the run's wall is not known")
				}
				g.at = wallAt + int64(s.Time.Sub(wall))
			}
			if s.Leader != nil {
				token, err := strconv.ParseInt(strings.Trim(string(s.Leader.Token), `"`), 10, 64)
				if err != nil && len(s.Leader.Token) > 0 { // a protocol without tokens has none
					return fmt.Errorf("token: %w", err)
				}
				g.token, g.leader = token, s.Leader.ID
			}
			w.saw = append(w.saw, g)
			return nil
		})
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	for name, at := range begun { // what is not there has seen nothing
		all = append(all, watcher{name: name, from: at, until: r.to})
	}
	return all, nil
}

// watched checks that watchers saw what they must: no token that falls; each leader that led for
// longer than Options.Seen while a majority was connected and well, within that time; and the
// leader at the end.
func (r *run) watched(found *findings, report *Report) error {
	all, err := r.watchers()
	if err != nil {
		return err
	}
	var final *Event
	for i := range r.events {
		if r.events[i].Kind == Final {
			final = &r.events[i]
		}
	}
	able := r.majorities()
	for _, w := range all {
		report.Watchers++
		report.Observations += len(w.saw)
		add := func(at int64, format string, args ...any) {
			found.add(Violation{Check: CheckWatch, At: at, Node: NoNode, Text: w.name + " " + fmt.Sprintf(format, args...)})
		}
		var highest int64
		for _, g := range w.saw {
			if g.at > r.to {
				break
			}
			if g.token != 0 && g.token < highest {
				add(g.at, "saw token %d of %s at %s, after it had seen %d", g.token, g.leader, r.since(g.at), highest)
			}
			highest = max(highest, g.token)
		}
		r.sawLasting(w, able, add)
		if final == nil || w.gone {
			continue
		}
		i, _ := slices.BinarySearchFunc(w.saw, r.to+1, func(g observation, at int64) int {
			if g.at < at {
				return -1
			}
			return 1
		})
		switch {
		case i == 0:
			add(r.to, "has seen nothing")
		case w.saw[i-1].token != final.Token || w.saw[i-1].stale:
			add(r.to, "saw last %s, at %s; in the end %s led with token %d", w.saw[i-1].words(), r.since(w.saw[i-1].at), nodeName(final.Node), final.Token)
		}
	}
	return nil
}

func (g *observation) words() string {
	switch {
	case g.stale && g.token == 0:
		return "that it cannot tell"
	case g.stale:
		return fmt.Sprintf("that it cannot tell since %s led with token %d", g.leader, g.token)
	case g.token == 0:
		return "that there is no leader"
	}
	return fmt.Sprintf("%s with token %d", g.leader, g.token)
}

// running is the time at which the harness, and so the computer and the watchers, have run for that
// long since another time.
func (r *run) running(since int64, long time.Duration) int64 {
	to := since + int64(long)
	for {
		with := since + int64(long) + overlap(r.stalls, span{since, to})
		if with == to {
			return to
		}
		to = with
	}
}

// sawLasting checks that a watcher saw the long leaders. A watcher that stood still with the
// computer has that much more time.
func (r *run) sawLasting(w watcher, able map[nodes][]span, add func(at int64, format string, args ...any)) {
	from := w.from
	switch {
	case from != 0:
	case len(w.saw) > 0:
		from = w.saw[0].at
	default:
		return
	}
	first := map[int64]int64{} // token → when it was seen
	for _, g := range w.saw {
		if _, ok := first[g.token]; !ok && !g.stale {
			first[g.token] = g.at
		}
	}
	for i, g := range r.tenures {
		since := max(g.start, w.from)
		by := r.running(since, r.options.Seen)
		if g.last <= by || by > w.until || by > r.to || since < from {
			continue
		}
		if i+1 < len(r.tenures) && r.tenures[i+1].start <= by {
			continue // an overlap, which other checks report
		}
		if !covered(able, span{since, by}) {
			continue
		}
		if at, ok := first[g.token]; !ok || at > by {
			add(by, "did not see within %v that %v led from %s to %s", r.options.Seen, &g, r.since(g.start), r.since(g.last))
		}
	}
}

// covered reports whether one set was able to elect throughout.
func covered(able map[nodes][]span, s span) bool {
	for _, spans := range able {
		i, _ := slices.BinarySearchFunc(spans, s.from+1, func(a span, at int64) int {
			if a.to < at {
				return -1
			}
			return 1
		})
		if i < len(spans) && spans[i].from <= s.from && spans[i].to >= s.to {
			return true
		}
	}
	return false
}
