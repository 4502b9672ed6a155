//go:build linux

package groups

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/register"
)

// The checks.
const (
	CheckOverlap = "overlap" // no two lives of one key overlap
	CheckToken   = "token"   // the tokens of a key rise, in the order in which lives began
	CheckStale   = "stale"   // a register refuses a write whose token it has told to be overtaken
	CheckLive    = "live"    // every key is held again after the last fault, in time
	CheckProcess = "process" // members end only when they are told to, and then they do
)

// Violation is a promise that was broken.
type Violation struct{ Check, Text string }

// Report is what came of a storm.
type Report struct {
	Violations []Violation
	Length     time.Duration
	Faults     map[string]int
	Lives      int // of keys
	Writes     int // to registers
	Refused    int // of these: of holders that were overtaken
	Terms      int // of coordinators

	// Silent are keys of processes that died without a witness, and Spoken of those whose keeper lived on. Killed counts
	// both by the parts that were killed, and Fenced those whose keeper has killed them in time.
	Silent, Spoken Takeovers
	Killed         map[string]int
	Fenced         int
	// Deaths are those of coordinators, and Living the keys that living members held then. Interrupted are those of them
	// that a member then lost because it was not renewed. The quiet ones are deaths with no other fault within three
	// promises before and after them.
	Deaths, Living, Interrupted                int
	QuietDeaths, QuietLiving, QuietInterrupted int
	// Settled is how long it took after the last fault until all keys were held.
	Settled time.Duration

	promise time.Duration
}

// Takeovers are how long keys of a process that died were without a holder, in order: of a member's while the
// coordinator lives, and of the coordinator's.
type Takeovers struct{ Member, Coordinator []time.Duration }

// String is the report as text.
func (r *Report) String() string {
	var b strings.Builder
	if len(r.Violations) == 0 {
		b.WriteString("violations    none\n")
	}
	for i, v := range r.Violations {
		if i == 20 {
			fmt.Fprintf(&b, "              and %d more\n", len(r.Violations)-i)
			break
		}
		fmt.Fprintf(&b, "VIOLATION     %s: %s\n", v.Check, v.Text)
	}
	total, names := counts(r.Faults)
	fmt.Fprintf(&b, "faults        %d in %v: %s\n", total, r.Length.Round(time.Second), names)
	total, names = counts(r.Killed)
	fmt.Fprintf(&b, "killed        %d: %s; and %d by their keepers\n", total, names, r.Fenced)
	fmt.Fprintf(&b, "keys          %d, held %d times; %d terms of coordinators; all were held %v after the last fault\n", keys, r.Lives, r.Terms, r.Settled.Round(time.Millisecond))
	fmt.Fprintf(&b, "registers     %d writes, %d of them of overtaken holders, and refused\n", r.Writes, r.Refused)
	fmt.Fprintf(&b, "takeovers     of %s of members that died, and of %s of coordinators; with a witness of %s, and of %s\n",
		spread(r.Silent.Member), spread(r.Silent.Coordinator), spread(r.Spoken.Member), spread(r.Spoken.Coordinator))
	fmt.Fprintf(&b, "interrupted   %d of %d keys of living members, by %d deaths of coordinators; %d of %d by the %d without another fault near\n",
		r.Interrupted, r.Living, r.Deaths, r.QuietInterrupted, r.QuietLiving, r.QuietDeaths)
	return b.String()
}

// counts are the sum and the list of counts.
func counts(of map[string]int) (total int, list string) {
	var names []string
	for name, n := range of {
		total, names = total+n, append(names, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(names)
	return total, strings.Join(names, ", ")
}

// spread is a sorted list of times in a few words.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "no keys"
	}
	return fmt.Sprintf("%d keys (median %v, last %v)", len(all), all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond))
}

// told is a line of a member's events, as the worker writes it.
type told struct {
	At     int64        `json:"at"`
	Kind   string       `json:"kind"`
	Node   int64        `json:"node"`
	Key    string       `json:"key"`
	Reason elect.Reason `json:"reason"`
}

// Judge judges the storm in a directory.
func Judge(dir string) (*Report, error) {
	acts, err := read[act](filepath.Join(dir, FaultsFile))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "ledger")
	if _, err := os.Stat(path); err != nil { // opening it would make one
		return nil, err
	}
	ledger, err := lives.Open(path)
	if err != nil {
		return nil, err
	}
	all := ledger.Lives()
	if err := ledger.Close(); err != nil {
		return nil, err
	}
	ops, err := register.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var events []told
	files, err := filepath.Glob(filepath.Join(dir, "events", "*.ndjson"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		some, err := read[told](file)
		if err != nil {
			return nil, err
		}
		events = append(events, some...)
	}
	return judge(acts, all, ops, events), nil
}

// read reads lines of JSON. One that does not end is of a process that was killed.
func read[T any](path string) (all []T, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return all, nil
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, v)
	}
}

func judge(acts []act, all []lives.Life, ops []register.Operation, events []told) *Report {
	r := &Report{Faults: map[string]int{}, Killed: map[string]int{}, Lives: len(all)}
	r.storm(acts)
	from := int64(0)
	if len(acts) > 0 {
		from = acts[0].At
	}
	byKey := map[int64][]lives.Life{}
	for _, l := range all {
		byKey[l.Key] = append(byKey[l.Key], l)
	}
	for key, lives := range byKey {
		slices.SortFunc(lives, compare)
		r.sweep(key, lives, from)
	}
	r.stale(ops, from)
	for _, e := range events {
		if e.Kind == "coordinates" {
			r.Terms++
		}
	}
	for _, a := range acts {
		if a.What == killed {
			r.death(a, acts, byKey, events)
		}
	}
	for _, all := range [][]time.Duration{r.Silent.Member, r.Silent.Coordinator, r.Spoken.Member, r.Spoken.Coordinator} {
		slices.Sort(all)
	}
	return r
}

func compare(a, b lives.Life) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Last, b.Last), cmp.Compare(a.Token, b.Token))
}

func (r *Report) found(check, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{check, fmt.Sprintf(format, args...)})
}

// storm judges what the harness has seen.
func (r *Report) storm(acts []act) {
	var first, last, end int64
	for _, a := range acts {
		switch a.What {
		case began:
			first = a.At
			for _, s := range Setups() {
				if s.Name == a.Text {
					r.promise = s.promise
				}
			}
		case calm:
			last = a.At
		case led:
			end = a.At
		case unled:
			r.found(CheckLive, "%s", a.Text)
		case crashed:
			r.found(CheckProcess, "%s has ended and was not told to: %s", name(a.Node), a.Text)
		case stuck:
			r.found(CheckProcess, "%s was told to end and does not", name(a.Node))
		case killed:
			r.Killed[a.Text]++
		case fenced:
			r.Fenced++
		case healed:
		default:
			r.Faults[a.What]++
		}
	}
	if last == 0 && len(acts) > 0 { // it goes on, or was interrupted
		last = acts[len(acts)-1].At
	}
	r.Length = time.Duration(last - first)
	if end != 0 {
		r.Settled = time.Duration(end - last)
	}
}

// sweep judges the lives of one key, in the order of their beginnings.
func (r *Report) sweep(key int64, all []lives.Life, from int64) {
	var latest, highest *lives.Life
	for i := range all {
		l := &all[i]
		if latest != nil && l.Start <= latest.Last {
			r.found(CheckOverlap, "key %d: %s with token %v held it %v after %s with token %v had begun to, at %v", key, name(int(latest.Node)), elect.Token(latest.Token),
				time.Duration(latest.Last-l.Start), name(int(l.Node)), elect.Token(l.Token), time.Duration(l.Start-from))
		}
		if highest != nil && l.Token <= highest.Token {
			r.found(CheckToken, "key %d: %s with token %v began after %s with token %v, at %v", key, name(int(l.Node)), elect.Token(l.Token),
				name(int(highest.Node)), elect.Token(highest.Token), time.Duration(l.Start-from))
		}
		if latest == nil || l.Last > latest.Last {
			latest = l
		}
		if highest == nil || l.Token > highest.Token {
			highest = l
		}
	}
}

// stale judges what registers have accepted: nothing with a token below one that an answer had told before the call.
func (r *Report) stale(ops []register.Operation, from int64) {
	byKey := map[int64][]register.Operation{}
	for _, o := range ops {
		r.Writes++
		if o.Result == register.Stale {
			r.Refused++
		}
		byKey[o.Key] = append(byKey[o.Key], o)
	}
	for key, calls := range byKey { // by the time of the call
		ends := slices.DeleteFunc(slices.Clone(calls), func(o register.Operation) bool {
			return o.Return == 0 || o.Result != register.OK && o.Result != register.Stale
		})
		slices.SortFunc(ends, func(a, b register.Operation) int { return cmp.Compare(a.Return, b.Return) })
		var highest int64
		for _, o := range calls {
			for len(ends) > 0 && ends[0].Return < o.Call {
				highest = max(highest, ends[0].Highest)
				ends = ends[1:]
			}
			if o.Result == register.OK && o.Token < highest {
				r.found(CheckStale, "key %d: a write with token %v at %v was accepted after token %v", key, elect.Token(o.Token), time.Duration(o.Call-from), elect.Token(highest))
			}
		}
	}
}

// death measures what came of one.
func (r *Report) death(dead act, acts []act, byKey map[int64][]lives.Life, events []told) {
	near := int64(3 * r.promise)
	killedToo := func(node int64) bool { // and so its keys tell nothing of the coordinator's death alone
		return slices.ContainsFunc(acts, func(a act) bool { return a.What == killed && a.Node == int(node) && abs(a.At-dead.At) < near })
	}
	if slices.ContainsFunc(acts, func(a act) bool { return a.What == "kill-all" && abs(a.At-dead.At) < int64(time.Second/10) }) {
		return // there is nobody who could take over
	}
	quiet := !slices.ContainsFunc(acts, func(a act) bool {
		return abs(a.At-dead.At) < near && a.What != killed && a.What != "kill-coordinator" && !(a.What == healed && a.Text == "kill-coordinator")
	})
	free := &r.Silent
	if dead.Witness {
		free = &r.Spoken
	}
	alive, interrupted := 0, 0
	lost := map[int64]bool{} // by members that were not renewed
	for _, e := range events {
		if e.Kind == "ended" && e.At > dead.At && e.At < dead.At+int64(r.promise) && (e.Reason == elect.ReasonExpired || e.Reason == elect.ReasonStoreUnreachable) {
			var key int64
			if _, err := fmt.Sscan(e.Key, &key); err == nil {
				lost[key] = true
			}
		}
	}
	for key, all := range byKey {
		for i, l := range all {
			switch held := l.Start < dead.At && l.Last > dead.At-int64(100*time.Millisecond); {
			case !held:
			case int(l.Node) == dead.Node && l.Pid == int64(dead.Pid):
				if i+1 == len(all) {
					break // never again, which the end of the storm judges
				}
				if took := time.Duration(all[i+1].Start - dead.At); dead.Coordinator {
					free.Coordinator = append(free.Coordinator, took)
				} else {
					free.Member = append(free.Member, took)
				}
			case l.Last > dead.At && !killedToo(l.Node):
				alive++
				if lost[key] {
					interrupted++
				}
			}
		}
	}
	if !dead.Coordinator {
		return
	}
	r.Deaths, r.Living, r.Interrupted = r.Deaths+1, r.Living+alive, r.Interrupted+interrupted
	if quiet {
		r.QuietDeaths, r.QuietLiving, r.QuietInterrupted = r.QuietDeaths+1, r.QuietLiving+alive, r.QuietInterrupted+interrupted
	}
}

func abs(n int64) int64 { return max(n, -n) }
