package runner

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/electd/elect"
)

// Schedule is a time of day at which a leader hands over.
type Schedule struct {
	Hour, Minute int
	Days         []time.Weekday // empty: all
	Zone         *time.Location
	To           string // the next leader; empty is the best candidate
}

// Next is the first such time after now. On a day on which the clocks skip the time of day it is as if they had not been
// set, so that 02:30 is shown as 03:30; on one on which they show it twice it is the first time.
func (s *Schedule) Next(now time.Time) time.Time {
	now = now.In(s.Zone)
	for day := -1; ; day++ { // from yesterday: what is skipped there may be today
		noon := time.Date(now.Year(), now.Month(), now.Day()+day, 12, 0, 0, 0, time.UTC)
		if len(s.Days) > 0 && !slices.Contains(s.Days, noon.Weekday()) {
			continue
		}
		if at := s.on(noon); at.After(now) {
			return at
		}
	}
}

// on is that time on one day. Package time leaves open what it is when the clocks are set.
func (s *Schedule) on(day time.Time) time.Time {
	shown := time.Date(day.Year(), day.Month(), day.Day(), s.Hour, s.Minute, 0, 0, time.UTC)
	at := func(near time.Time) time.Time { // with the offset of that time
		_, offset := near.In(s.Zone).Zone()
		return shown.Add(-time.Duration(offset) * time.Second)
	}
	shows := func(t time.Time) bool {
		t = t.In(s.Zone)
		return t.Hour() == s.Hour && t.Minute() == s.Minute
	}
	before, after := at(shown.Add(-16*time.Hour)), at(shown.Add(16*time.Hour)) // offsets are less than 15 h
	if !shows(before) && shows(after) {
		return after
	}
	return before
}

const (
	// look is how often the wall clock is compared, which may be set meanwhile.
	look = time.Minute

	// tooLate is after which time a handover is left out, as when the machine was asleep. Without a named successor it is
	// also how long a leader has led at least: the clock of the one before it may be that much ahead.
	tooLate = 5 * time.Minute

	transferTime = 10 * time.Second
)

// handOvers hands over at the times of Config.Transfer, until ctx ends.
func (r *run) handOvers(ctx context.Context) {
	s := r.cfg.Transfer
	for at := s.Next(time.Now()); ; {
		now := time.Now().Round(0) // the wall clock
		switch left := at.Sub(now); {
		case left > 0:
			select {
			case <-time.After(min(left, look)):
			case <-ctx.Done():
				return
			}
			if next := s.Next(now); next.Before(at) {
				at = next // the clock was set back
			}
			continue
		case left > -tooLate:
			r.handOver(ctx, at)
		}
		at = s.Next(now)
	}
}

// handOver asks for a handover, if this candidate leads.
func (r *run) handOver(ctx context.Context, at time.Time) {
	r.mu.Lock()
	token, since := r.token, r.since
	r.mu.Unlock()
	to := r.cfg.Transfer.To
	if token == 0 || to == r.cfg.ID {
		return
	}
	when := at.Format("Mon 15:04 MST")
	if led := time.Since(since); led < r.cfg.Tenure {
		r.tell(slog.LevelWarn, eventNoTransfer, token, "no handover at %s: it has led for %v, and its tenure is %v", when, led.Truncate(time.Second), r.cfg.Tenure)
		return
	}
	whom := to
	if whom == "" {
		if time.Since(since) < tooLate {
			r.tell(slog.LevelWarn, eventNoTransfer, token, "no handover at %s: it has led for less than %v, and another may just have handed over by the same setting", when, tooLate)
			return
		}
		whom = "the best candidate"
	}
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	if err := r.election.Transfer(ctx, token, to); err != nil {
		r.tell(slog.LevelWarn, eventNoTransfer, token, "no handover to %s at %s: %v", whom, when, err)
		return
	}
	r.tell(slog.LevelInfo, eventTransfer, token, "handing over to %s: it is %s", whom, when)
}

const (
	eventTransfer   elect.EventKind = "transferring"
	eventNoTransfer elect.EventKind = "not-transferred"
)
