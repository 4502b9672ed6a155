package showcase

import (
	"fmt"
	"strings"
	"time"

	"github.com/electd/elect/fence"
)

// verdict is what the log says about the jobs that wrote it.
type verdict struct {
	lives    []life
	lines    int
	overlaps int // times that a job wrote although a later one had begun
	disorder int // tokens that did not rise
}

// life is one run of the job.
type life struct {
	token       fence.Token
	pid         int
	first, last time.Duration
	lines       int
}

// judge reads the log. The file itself puts the lines in order: each was
// appended in one piece. The stamps in them are checked beside that.
func judge(log string) (verdict, error) {
	var v verdict
	for text := range strings.Lines(log) {
		l, err := parseLine(text)
		if err != nil {
			return v, err
		}
		token, err := fence.ParseToken(l.Token)
		if err != nil {
			return v, err
		}
		v.lines++
		n := len(v.lives)
		if n > 0 && v.lives[n-1].token == token && v.lives[n-1].pid == l.PID {
			v.lives[n-1].last = l.At
			v.lives[n-1].lines++
			continue
		}
		for _, earlier := range v.lives {
			switch {
			case earlier.token == token && earlier.pid == l.PID:
				v.overlaps++ // another has written in between
			case earlier.last >= l.At:
				v.overlaps++
			}
			if earlier.token >= token {
				v.disorder++
			}
		}
		v.lives = append(v.lives, life{token: token, pid: l.PID, first: l.At, last: l.At, lines: 1})
	}
	return v, nil
}

// err returns what is wrong, if the log should have that many lives.
func (v verdict) err(lives int) error {
	switch {
	case v.overlaps > 0:
		return fmt.Errorf("two jobs ran at once: the log has %d overlaps", v.overlaps)
	case v.disorder > 0:
		return fmt.Errorf("the tokens in the log do not rise")
	case len(v.lives) != lives:
		return fmt.Errorf("the log has %d lives of the job, and %d were expected", len(v.lives), lives)
	}
	return nil
}

func (v verdict) tokens() string {
	var all []string
	for _, l := range v.lives {
		all = append(all, l.token.String())
	}
	return strings.Join(all, ", ")
}
