//go:build linux

package redis

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Write is a write of a client.
type Write struct {
	Key         string
	OK          bool // it was acknowledged
	Sent, Ended time.Time
	At          string // the server, HOST:PORT
}

// writes reads what the clients have written down: a list for each.
func (y *System) writes() (all [][]Write, err error) {
	for i := range Nodes + 1 {
		text, err := os.ReadFile(y.output(i))
		if err != nil {
			return nil, err
		}
		var of []Write
		for line := range strings.Lines(string(text)) {
			if !strings.HasSuffix(line, "\n") {
				break // it is being written
			}
			f := strings.Fields(line)
			if len(f) < 5 || f[0] != "ok" && f[0] != "no" {
				return nil, fmt.Errorf("client %d says %q; want a write", i, line)
			}
			sent, err1 := strconv.ParseInt(f[2], 10, 64)
			ended, err2 := strconv.ParseInt(f[3], 10, 64)
			if err1 != nil || err2 != nil {
				return nil, fmt.Errorf("client %d says %q; want two times", i, line)
			}
			of = append(of, Write{f[1], f[0] == "ok", time.UnixMicro(sent), time.UnixMicro(ended), f[4]})
		}
		all = append(all, of)
	}
	return all, nil
}

// Tally is what came of the rounds of one fault.
type Tally struct {
	Rounds, Switched, Troubled int
	Acked                      int // writes that were acknowledged, sent during these rounds
	Lost                       int // acknowledged writes, those of earlier rounds too, that were gone after the rounds
	Worst                      int // lost in one round, at most
	Old                        int // sent to an old master when another one had acknowledged a write, and acknowledged
	OldKept                    int // sent to an old master before that, and acknowledged after it
	Gaps                       []time.Duration
}

// Report is what came of a run, by fault; "" is all of them.
type Report map[Fault]*Tally

// Losses tells which acknowledged writes are lost, round by round.
type Losses struct{ known map[string]bool }

// Round counts those that were acknowledged until a time, are not among the keys, and were not counted before.
func (l *Losses) Round(clients [][]Write, keys map[string]bool, until time.Time) (n int) {
	if l.known == nil {
		l.known = map[string]bool{}
	}
	for _, of := range clients {
		for _, w := range of {
			if w.OK && w.Ended.Before(until) && !keys[w.Key] && !l.known[w.Key] {
				l.known[w.Key] = true
				n++
			}
		}
	}
	return n
}

// Judge counts. A client on a node that is cut off counts for what it loses, and not for how long it waits.
func Judge(rounds []Round, clients [][]Write, server func(node int) string) Report {
	r := Report{"": {}}
	for _, round := range rounds {
		if r[round.Fault] == nil {
			r[round.Fault] = &Tally{}
		}
		one := judgeRound(round, clients, server)
		for _, t := range []*Tally{r[""], r[round.Fault]} {
			t.Rounds++
			t.Acked += one.Acked
			t.Lost += round.Lost
			t.Worst = max(t.Worst, round.Lost)
			t.Old += one.Old
			t.OldKept += one.OldKept
			t.Gaps = append(t.Gaps, one.Gaps...)
			if round.Switched {
				t.Switched++
			}
			if round.Trouble != "" {
				t.Troubled++
			}
		}
	}
	return r
}

func judgeRound(round Round, clients [][]Write, server func(int) string) (t Tally) {
	old := server(round.Old)
	end := round.Whole
	if end.IsZero() {
		end = round.Mended.Add(wholeWithin)
	}
	within := func(at time.Time) bool { return !at.Before(round.Began.Add(-200*time.Millisecond)) && !at.After(end) }
	var switched time.Time
	for _, of := range clients {
		for _, w := range of {
			if w.OK && w.At != old && w.Sent.After(round.Began) && !w.Ended.After(end) && (switched.IsZero() || w.Ended.Before(switched)) {
				switched = w.Ended
			}
		}
	}
	for node, of := range clients {
		var last time.Time
		longest := time.Duration(0)
		for _, w := range of {
			if !w.OK {
				continue
			}
			if within(w.Sent) {
				t.Acked++
				if w.At == old && !switched.IsZero() && round.Switched {
					switch {
					case w.Sent.After(switched):
						t.Old++
					case w.Ended.After(switched):
						t.OldKept++
					}
				}
			}
			if within(last) {
				longest = max(longest, w.Ended.Sub(last))
			}
			last = w.Ended
		}
		if round.Fault != Cut || min(node, Nodes-1) != round.Old {
			t.Gaps = append(t.Gaps, longest)
		}
	}
	return t
}

// percentile is the value of which p per cent are no greater.
func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)*p/100, len(all)-1)]
}

// String is a table.
func (r Report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\trounds\tswitched\ttrouble\tacknowledged\tlost\tat most a round\told master after\tsent before\tp50\tp99\tmax")
	for _, f := range append(Faults(), "") {
		t := r[f]
		if t == nil {
			continue
		}
		name := string(f)
		if f == "" {
			name = "all"
		}
		ms := func(p int) time.Duration { return percentile(t.Gaps, p).Round(time.Millisecond) }
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%v\t%v\n", name, t.Rounds, t.Switched, t.Troubled, t.Acked, t.Lost, t.Worst, t.Old, t.OldKept, ms(50), ms(99), ms(100))
	}
	_ = w.Flush()
	return b.String()
}
