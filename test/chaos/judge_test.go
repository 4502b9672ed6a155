//go:build linux

package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/lives"
)

// tenure is the time for which a node led with a token, by the records of its work: no longer than
// it led.
type tenure struct {
	node        int
	token       int64
	from, until int64
	spans       []span // of its lives, without those in which they were frozen
}

type span struct{ from, until int64 }

// tenuresOf combines the lives of each leader, by when they began.
func tenuresOf(all []lives.Life) []tenure {
	type key struct{ node, token int64 }
	by := map[key]*tenure{}
	for _, l := range all {
		k := key{l.Node, l.Token}
		if by[k] == nil {
			by[k] = &tenure{node: int(l.Node), token: l.Token, from: l.Start, until: l.Last}
		}
		r := by[k]
		r.from, r.until = min(r.from, l.Start), max(r.until, l.Last)
		if l.Resumed-l.Paused > int64(promise/2) {
			r.spans = append(r.spans, span{l.Start, l.Paused}, span{l.Resumed, l.Last})
		} else {
			r.spans = append(r.spans, span{l.Start, l.Last})
		}
	}
	var tenures []tenure
	for _, r := range by {
		tenures = append(tenures, *r)
	}
	slices.SortFunc(tenures, func(a, b tenure) int { return cmp.Compare(a.from, b.from) })
	return tenures
}

// judge checks the run: what must never happen, and then what is expected of this scenario.
func (s *trial) judge() {
	s.t.Helper()
	s.strain = s.strained()
	s.does(s.cluster.Close())
	s.does(s.history.Close())
	s.tenures = tenuresOf(s.ledger.Lives())
	report, err := judge.Judge(s.dir, judge.Options{})
	s.does(err)
	s.report = report
	switch {
	case s.ruin == "":
		s.part.judge(s)
	case s.part.protocol == "" && !s.scenario.clocks:
		s.safe()
	default:
		s.fenced()
	}
	s.want(s.ruin == "", "given up: %s", s.ruin)
	s.t.Log(s.strain)
	if len(s.missed) > 0 || len(s.violated) > 0 && s.mutant == "" {
		s.lastWords()
		if err := s.keep(); err != nil {
			s.t.Logf("not all of it is kept: %v", err)
		}
	}
}

// keep copies the evidence of a run to where go test -artifacts keeps it: a picture, the history,
// the output of the nodes and their flight recorders.
func (s *trial) keep() error {
	kept := s.t.ArtifactDir()
	err := s.report.WriteHTML(filepath.Join(kept, "report.html"))
	var files []string
	for i := range s.size {
		files = append(append(files, s.cluster.Log(i)), s.cluster.Flight(i)...)
	}
	for _, file := range append(files, filepath.Join(s.dir, judge.HistoryFile)) {
		name, outside := strings.CutPrefix(file, s.dir+"/")
		text, e := os.ReadFile(file)
		if !outside || errors.Is(e, fs.ErrNotExist) {
			continue // a lost disk, or a node that was never started
		}
		err = errors.Join(err, e, os.WriteFile(filepath.Join(kept, strings.ReplaceAll(name, "/", "-")), text, 0o644))
	}
	s.t.Logf("kept with -artifacts: %s", kept)
	return err
}

// begun are the tenures that began between two times.
func (s *trial) begun(from, until int64) []tenure {
	var found []tenure
	for _, r := range s.tenures {
		if r.from >= from && r.from < until {
			found = append(found, r)
		}
	}
	return found
}

// led is the tenure at a time: the last that had begun.
func (s *trial) led(at int64) tenure {
	for _, r := range slices.Backward(s.tenures) {
		if r.from <= at {
			return r
		}
	}
	return tenure{node: judge.NoNode}
}

// both is how long two or more led at one time, between two times.
func (s *trial) both(from, until int64) time.Duration {
	type turn struct {
		at     int64
		tenure int
		begin  bool
	}
	var turns []turn
	for i, r := range s.tenures {
		for _, p := range r.spans {
			if p.from, p.until = max(p.from, from), min(p.until, until); p.from < p.until {
				turns = append(turns, turn{p.from, i, true}, turn{p.until, i, false})
			}
		}
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.at, b.at) })
	alive := map[int]int{} // by tenure: the number of its lives
	var sum, last int64
	for _, t := range turns {
		if len(alive) > 1 {
			sum += t.at - last
		}
		last = t.at
		if t.begin {
			alive[t.tenure]++
		} else if alive[t.tenure]--; alive[t.tenure] == 0 {
			delete(alive, t.tenure)
		}
	}
	return time.Duration(sum)
}

// sinceFault is the time since the faults began.
func (s *trial) sinceFault(at int64) time.Duration { return time.Duration(at - s.fault) }

// name is a node's name, with its role.
func (s *trial) name(node int) string {
	if node < 0 {
		return "no node"
	}
	return fmt.Sprintf("%s (role %d)", s.cluster.ID(node), s.role(node))
}

// safe expects what must always hold: no violation by the judge.
func (s *trial) safe() {
	for _, v := range s.report.Violations {
		s.violated = append(s.violated, fmt.Sprintf("%s: %s", v.Check, v.Text))
	}
}

// must records what must not happen, even on a busy computer: two leaders at one time, a token that
// falls, a tenure without a majority, a missing refusal. For delays and missing events use
// [trial.want].
func (s *trial) must(ok bool, format string, args ...any) {
	if !ok {
		s.violated = append(s.violated, fmt.Sprintf(format, args...))
	}
}

// noneBut expects only the given roles to begin to lead while the links are cut: no others see a
// majority. A node that was elected before may still begin in the first moments.
func (s *trial) noneBut(whom string, may func(role int) bool) {
	for _, r := range s.begun(s.fault+int64(2*promise), s.heal) {
		s.must(may(s.role(r.node)), "%s begins to lead %v after the links were cut; want %s", s.name(r.node), shown(s.sinceFault(r.from)), whom)
	}
}

// overlaps are the checks that find two leaders at one time.
func overlaps() []string {
	return []string{judge.CheckOverlap, judge.CheckMutex, judge.CheckFenced}
}

// fenced expects what must hold even where two may lead, and have a lease: the register accepted no
// stale write, and everything else holds. Without leases a leader may also begin late, when one
// with a greater token has begun before.
func (s *trial) fenced() {
	but := append(overlaps(), judge.CheckLease)
	if s.part.protocol != "" {
		but = append(but, judge.CheckToken)
	}
	for _, v := range s.report.Violations {
		if !slices.Contains(but, v.Check) {
			s.violated = append(s.violated, fmt.Sprintf("%s: %s", v.Check, v.Text))
		}
	}
	if s.report.StaleAccepted > 0 {
		s.violated = append(s.violated, fmt.Sprintf("%d stale writes were accepted", s.report.StaleAccepted))
	}
}

// undisturbed expects the first leader to lead all the time.
func undisturbed(s *trial) {
	s.safe()
	s.available()
	s.steady(s.fault, s.end)
	s.say("%s leads all the time with token %d", s.name(s.roles[0]), s.led(s.fault).token)
}

// available expects a leader whenever a majority was connected and well, except for the time of an
// election.
func (s *trial) available() {
	s.want(s.report.Longest <= soon, "there was no leader for %v, though a majority was connected and well; want %v at most", shown(s.report.Longest), soon)
}

// steady expects the first leader to lead from one time to another.
func (s *trial) steady(from, until int64) {
	old := s.led(from)
	s.want(old.node == s.roles[0] && old.until >= until, "%s leads until %v after the faults began; want %s for all of %v",
		s.name(old.node), shown(s.sinceFault(old.until)), s.name(s.roles[0]), shown(s.sinceFault(until)))
	if others := s.begun(from, until); len(others) > 0 {
		s.want(false, "%s led, %v after the faults began; want no other to", s.names(others), shown(s.sinceFault(others[0].from)))
	}
}

func (s *trial) names(all []tenure) string {
	var names []string
	for _, r := range all {
		names = append(names, fmt.Sprintf("%s with token %d", s.name(r.node), r.token))
	}
	return strings.Join(names, ", ")
}

// handedOn expects one other leader, soon, when the old tenure is over.
func handedOn(s *trial) {
	s.safe()
	s.available()
	s.oneAfter(s.fault, 0, soon)
}

// oneAfter expects exactly one other leader after a time, within these limits, and returns both
// tenures.
func (s *trial) oneAfter(since int64, least, most time.Duration) (old, next tenure) {
	old = s.led(since)
	all := s.begun(since, s.end)
	if len(all) == 0 {
		s.want(false, "no node led after %s", s.name(old.node))
		return old, old
	}
	next = all[0]
	took := time.Duration(next.from - since)
	s.want(next.node != old.node, "%s leads again; want another", s.name(next.node))
	s.want(took >= least && took <= most, "%s leads after %v; want %v to %v", s.name(next.node), shown(took), shown(least), shown(most))
	s.must(old.until < next.from, "%s leads until %v after %s began", s.name(old.node), shown(time.Duration(old.until-next.from)), s.name(next.node))
	s.want(len(all) == 1, "then %s led; want %s to lead on", s.names(all[1:]), s.name(next.node))
	s.say("the tenure of %s ends after %v, that of %s begins after %v, and goes on", s.name(old.node), shown(time.Duration(old.until-since)), s.name(next.node), shown(took))
	return old, next
}

// stale expects the old leader to lead beside its successor for at least half of the cut, and not
// for long after it.
func stale(s *trial) {
	s.fenced()
	cut := time.Duration(s.heal - s.fault)
	old := s.led(s.fault)
	s.want(old.node == s.roles[0] && old.until > s.heal-int64(classicBeat), "%s leads until %v; want %s until the healing after %v", s.name(old.node), shown(s.sinceFault(old.until)), s.name(s.roles[0]), shown(cut))
	both := s.both(s.fault, s.heal)
	s.want(both >= cut/2, "two lead for %v; want half of %v at least", shown(both), shown(cut))
	s.say("two lead at one time for %v of %v; %d stale writes are refused", shown(both), shown(cut), s.report.StaleRefused)
}

// split expects two leaders at one time for at least half of the cut, and the first one, which has
// the greatest id, as the only one in the end. It checks nothing else: where two may have one
// token, no register can distinguish them.
func split(s *trial) {
	cut := time.Duration(s.heal - s.fault)
	both := s.both(s.fault, s.heal)
	s.want(both >= cut/2, "two lead for %v; want half of %v at least", shown(both), shown(cut))
	last := s.led(s.end)
	s.want(last.node == s.roles[0], "%s leads in the end; want %s", s.name(last.node), s.name(s.roles[0]))
	s.say("two lead at one time for %v of %v", shown(both), shown(cut))
}

// deposed expects the leader to lead alone through the cut, and no longer.
func deposed(s *trial) {
	s.fenced()
	old := s.led(s.fault)
	s.want(old.node == s.roles[0] && old.until >= s.heal, "%s leads until %v; want %s until the healing", s.name(old.node), shown(s.sinceFault(old.until)), s.name(s.roles[0]))
	s.want(len(s.begun(s.fault, s.heal)) == 0, "%s led in the cut", s.names(s.begun(s.fault, s.heal)))
	after := s.begun(s.heal, s.end)
	s.want(len(after) > 0, "no node is elected after the healing; want the leader to be deposed")
	if len(after) > 0 {
		s.say("%s leads alone through the cut with token %d; %v after the healing %s leads", s.name(old.node), old.token, shown(time.Duration(after[0].from-s.heal)), s.names(after[:1]))
	}
}

// turmoil expects leaders to depose each other as long as the cut lasts.
func turmoil(s *trial) {
	s.fenced()
	all := s.begun(s.fault, s.heal)
	s.want(len(all) >= 3, "%d leaders in %v; want 3 or more", len(all), shown(time.Duration(s.heal-s.fault)))
	var longest int64
	for _, r := range all {
		longest = max(longest, min(r.until, s.heal)-r.from)
	}
	s.say("%d leaders in %v; the longest of them leads for %v", len(all), shown(time.Duration(s.heal-s.fault)), shown(time.Duration(longest)))
}

// toAndFro expects turmoil between two roles and no others.
func toAndFro(a, b int) func(*trial) {
	return func(s *trial) {
		turmoil(s)
		for _, r := range s.begun(s.fault, s.heal) {
			s.want(s.role(r.node) == a || s.role(r.node) == b, "%s leads; want none but the two that do not see each other", s.name(r.node))
		}
	}
}

// shown is a rounded duration.
func shown(d time.Duration) time.Duration {
	if d.Abs() < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
