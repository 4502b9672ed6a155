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

// tenure is the time for which a node led with a token, as the work that it did then
// has written it down: not longer than it was.
type tenure struct {
	node        int
	token       int64
	from, until int64
	spans       []span // of its lives, without those in which they were frozen
}

type span struct{ from, until int64 }

// tenuresOf puts together the lives of each leader, by when they began.
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

// judge has the run judged: what must never be, and then what this scenario was to
// come to.
func (s *stage) judge() {
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

// keep copies what tells how it went to where go test -artifacts keeps it: a picture,
// the history, what the nodes said and what their flight recorders hold.
func (s *stage) keep() error {
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
			continue // a disk that is gone, or a node that never was
		}
		err = errors.Join(err, e, os.WriteFile(filepath.Join(kept, strings.ReplaceAll(name, "/", "-")), text, 0o644))
	}
	s.t.Logf("kept with -artifacts: %s", kept)
	return err
}

// begun are the tenures that began between two times.
func (s *stage) begun(from, until int64) []tenure {
	var found []tenure
	for _, r := range s.tenures {
		if r.from >= from && r.from < until {
			found = append(found, r)
		}
	}
	return found
}

// led is the tenure of who led at a time, the last that had begun.
func (s *stage) led(at int64) tenure {
	for _, r := range slices.Backward(s.tenures) {
		if r.from <= at {
			return r
		}
	}
	return tenure{node: judge.Nobody}
}

// both is for how long two or more led at one time, between two times.
func (s *stage) both(from, until int64) time.Duration {
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
	alive := map[int]int{} // by tenure: how many of its lives
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

// sinceFault is how long after the faults began.
func (s *stage) sinceFault(at int64) time.Duration { return time.Duration(at - s.fault) }

// name is that of a node, with its role.
func (s *stage) name(node int) string {
	if node < 0 {
		return "nobody"
	}
	return fmt.Sprintf("%s (role %d)", s.cluster.ID(node), s.role(node))
}

// safe wants what must hold whatever happens: nothing that the judge calls a
// violation.
func (s *stage) safe() {
	for _, v := range s.report.Violations {
		s.violated = append(s.violated, fmt.Sprintf("%s: %s", v.Check, v.Text))
	}
}

// must notes what may not be, however busy the machine is: two at one time, a token
// that falls, a tenure of who cannot have a majority, something that was not refused.
// Of what only comes too late, or not, [stage.want] takes note.
func (s *stage) must(ok bool, format string, args ...any) bool {
	if !ok {
		s.violated = append(s.violated, fmt.Sprintf(format, args...))
	}
	return ok
}

// noneBut wants only such roles to begin to lead while the links are cut: no others
// see a majority. One who was elected before may yet begin in the first moments.
func (s *stage) noneBut(whom string, may func(role int) bool) {
	for _, r := range s.begun(s.fault+int64(2*promise), s.heal) {
		s.must(may(s.role(r.node)), "%s begins to lead %v after the links were cut; want %s", s.name(r.node), shown(s.sinceFault(r.from)), whom)
	}
}

// overlaps are the checks that find two leaders at one time.
func overlaps() []string {
	return []string{judge.CheckOverlap, judge.CheckMutex, judge.CheckFenced}
}

// fenced wants what must hold even where two may lead, and have a lease: that the
// register accepted no stale write, and all else. Where there are no leases a leader may also begin
// late, when one with a greater token has begun before.
func (s *stage) fenced() {
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

// undisturbed wants the leader of the beginning to lead all the time.
func undisturbed(s *stage) {
	s.safe()
	s.available()
	s.steady(s.fault, s.end)
	s.say("%s leads all the time with token %d", s.name(s.cast[0]), s.led(s.fault).token)
}

// available wants somebody to lead whenever a majority was connected and well, but
// for the time that an election takes.
func (s *stage) available() {
	s.want(s.report.Longest <= soon, "nobody led for %v, though a majority was connected and well; want %v at most", shown(s.report.Longest), soon)
}

// steady wants the leader of the beginning to lead from one time to another.
func (s *stage) steady(from, until int64) {
	old := s.led(from)
	s.want(old.node == s.cast[0] && old.until >= until, "%s leads until %v after the faults began; want %s for all of %v",
		s.name(old.node), shown(s.sinceFault(old.until)), s.name(s.cast[0]), shown(s.sinceFault(until)))
	if others := s.begun(from, until); len(others) > 0 {
		s.want(false, "%s led, %v after the faults began; want nobody else to", s.names(others), shown(s.sinceFault(others[0].from)))
	}
}

func (s *stage) names(all []tenure) string {
	var names []string
	for _, r := range all {
		names = append(names, fmt.Sprintf("%s with token %d", s.name(r.node), r.token))
	}
	return strings.Join(names, ", ")
}

// handedOn wants one other to lead, soon, when the tenure of the old one is over.
func handedOn(s *stage) {
	s.safe()
	s.available()
	s.oneAfter(s.fault, 0, soon)
}

// oneAfter wants exactly one other to lead after a time, not before so long and
// not later than that, and returns both.
func (s *stage) oneAfter(since int64, least, most time.Duration) (old, next tenure) {
	old = s.led(since)
	all := s.begun(since, s.end)
	if len(all) == 0 {
		s.want(false, "nobody led after %s", s.name(old.node))
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

// stale wants the old leader to lead beside its successor for half of the cut at
// least, and not for long after it.
func stale(s *stage) {
	s.fenced()
	cut := time.Duration(s.heal - s.fault)
	old := s.led(s.fault)
	s.want(old.node == s.cast[0] && old.until > s.heal-int64(classicBeat), "%s leads until %v; want %s until the healing after %v", s.name(old.node), shown(s.sinceFault(old.until)), s.name(s.cast[0]), shown(cut))
	both := s.both(s.fault, s.heal)
	s.want(both >= cut/2, "two lead for %v; want half of %v at least", shown(both), shown(cut))
	s.say("two lead at one time for %v of %v; %d stale writes are refused", shown(both), shown(cut), s.report.StaleRefused)
}

// split wants two leaders at one time for half of the cut at least, and the one
// that led before, the greatest, to be the only one in the end. Nothing else is
// asked: where two may have one token, no register can tell them apart.
func split(s *stage) {
	cut := time.Duration(s.heal - s.fault)
	both := s.both(s.fault, s.heal)
	s.want(both >= cut/2, "two lead for %v; want half of %v at least", shown(both), shown(cut))
	last := s.led(s.end)
	s.want(last.node == s.cast[0], "%s leads in the end; want %s", s.name(last.node), s.name(s.cast[0]))
	s.say("two lead at one time for %v of %v", shown(both), shown(cut))
}

// deposed wants the leader to lead alone through the cut, and no longer.
func deposed(s *stage) {
	s.fenced()
	old := s.led(s.fault)
	s.want(old.node == s.cast[0] && old.until >= s.heal, "%s leads until %v; want %s until the healing", s.name(old.node), shown(s.sinceFault(old.until)), s.name(s.cast[0]))
	s.want(len(s.begun(s.fault, s.heal)) == 0, "%s led in the cut", s.names(s.begun(s.fault, s.heal)))
	after := s.begun(s.heal, s.end)
	s.want(len(after) > 0, "nobody is elected after the healing; want the leader to be deposed")
	if len(after) > 0 {
		s.say("%s leads alone through the cut with token %d; %v after the healing %s leads", s.name(old.node), old.token, shown(time.Duration(after[0].from-s.heal)), s.names(after[:1]))
	}
}

// turmoil wants leaders to depose each other for as long as the cut lasts.
func turmoil(s *stage) {
	s.fenced()
	all := s.begun(s.fault, s.heal)
	s.want(len(all) >= 3, "%d leaders in %v; want 3 or more", len(all), shown(time.Duration(s.heal-s.fault)))
	var longest int64
	for _, r := range all {
		longest = max(longest, min(r.until, s.heal)-r.from)
	}
	s.say("%d leaders in %v; the longest of them leads for %v", len(all), shown(time.Duration(s.heal-s.fault)), shown(time.Duration(longest)))
}

// toAndFro wants turmoil between two roles and nobody else.
func toAndFro(a, b int) func(*stage) {
	return func(s *stage) {
		turmoil(s)
		for _, r := range s.begun(s.fault, s.heal) {
			s.want(s.role(r.node) == a || s.role(r.node) == b, "%s leads; want none but the two that do not see each other", s.name(r.node))
		}
	}
}

// shown is a time for people.
func shown(d time.Duration) time.Duration {
	if d.Abs() < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
