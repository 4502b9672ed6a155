package demo

import (
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/fence"
)

// ledger is what the log proves about the jobs that wrote it. The zero ledger is that of an empty log.
type ledger struct {
	lives    []life
	lines    int // written lines
	late     int // refused late writes of the demo
	leaked   int // late writes of the demo that were not refused
	overlaps int // how often a job tried to write although a later one had begun
	disorder int // tokens that did not rise
}

// life is one run of the job.
type life struct {
	id          string
	token       fence.Token
	pid         int
	first, last time.Duration // of its lines
	lines       int
}

// add reads one more line. The order of the lines is that of the file: each was appended in one piece. Their stamps
// are checked in addition.
func (g *ledger) add(l line) {
	switch {
	case l.Number == 0 && l.Seen != 0:
		g.late++
		return
	case l.Number == 0:
		g.leaked++
		return
	case l.Seen != 0: // a job with a successor
		g.overlaps++
		return
	}
	g.lines++
	if n := len(g.lives); n > 0 && g.lives[n-1].token == l.Token && g.lives[n-1].pid == l.PID {
		g.lives[n-1].last = l.At
		g.lives[n-1].lines++
		return
	}
	for _, earlier := range g.lives {
		switch {
		case earlier.token == l.Token && earlier.pid == l.PID:
			g.overlaps++ // another job has written in between
		case earlier.last >= l.At:
			g.overlaps++
		}
		if earlier.token >= l.Token {
			g.disorder++
		}
	}
	g.lives = append(g.lives, life{id: l.ID, token: l.Token, pid: l.PID, first: l.At, last: l.At, lines: 1})
}

// now is the last life, if any.
func (g *ledger) now() (life, bool) {
	if len(g.lives) == 0 {
		return life{}, false
	}
	return g.lives[len(g.lives)-1], true
}

// before is the life before the last.
func (g *ledger) before() (life, bool) {
	if len(g.lives) < 2 {
		return life{}, false
	}
	return g.lives[len(g.lives)-2], true
}

// earlier returns the last life with another token than the current one's: its writes could still be in flight.
func (g *ledger) earlier() (life, bool) {
	now, ok := g.now()
	for _, l := range slices.Backward(g.lives) {
		if l.token != now.token {
			return l, ok
		}
	}
	return life{}, false
}

// leaders is the number of nodes that have run the job.
func (g *ledger) leaders() int {
	ids := map[string]bool{}
	for _, l := range g.lives {
		ids[l.id] = true
	}
	return len(ids)
}

// err returns what is wrong, if the log should have at least lives lives.
func (g *ledger) err(lives int) error {
	switch {
	case g.overlaps > 0:
		return fmt.Errorf("two jobs ran at once: the log has %d overlaps", g.overlaps)
	case g.disorder > 0:
		return fmt.Errorf("the tokens in the log do not rise")
	case g.leaked > 0:
		return fmt.Errorf("the log let %d writes with a stale token pass", g.leaked)
	case len(g.lives) < lives:
		return fmt.Errorf("the log has %d lives of the job, and %d were expected", len(g.lives), lives)
	}
	return nil
}
