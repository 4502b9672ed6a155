package showcase

import (
	"fmt"
	"os"
	"time"

	"github.com/electd/elect/cmd/elect/internal/stamp"
)

// beat is how often the job writes a line.
const beat = 20 * time.Millisecond

// Job is the work that must run once at a time: it appends a line to the log at
// path at each beat, until it is killed. Its first line goes to stdout, too. It
// takes no lock and asks nobody: that one runs at a time is elect's doing.
func Job(path string) error {
	first := line{At: stamp.Now(), Token: os.Getenv("ELECT_TOKEN"), ID: os.Getenv("ELECT_ID"), PID: os.Getpid(), Number: 1}
	if first.Token == "" {
		return fmt.Errorf("ELECT_TOKEN is not set: this is the job of elect demo, and nothing by itself")
	}
	log, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for l := first; ; l.Number++ {
		if _, err := log.WriteString(l.String()); err != nil {
			return err
		}
		if l.Number == 1 {
			if _, err := os.Stdout.WriteString(l.String()); err != nil {
				return err
			}
		}
		<-tick.C
		l.At = stamp.Now()
	}
}

// line is one line of the log.
type line struct {
	At     time.Duration // on the clock of stamp.Now
	Token  string
	ID     string // of the candidate
	PID    int    // of the job
	Number int    // from 1 in each life
}

const lineForm = "at=%d token=%s leader=%s pid=%d line=%d\n"

// String includes the newline: a line is written in one piece.
func (l line) String() string {
	return fmt.Sprintf(lineForm, int64(l.At), l.Token, l.ID, l.PID, l.Number)
}

func parseLine(text string) (line, error) {
	var l line
	var at int64
	if n, err := fmt.Sscanf(text, lineForm, &at, &l.Token, &l.ID, &l.PID, &l.Number); err != nil || n != 5 {
		return l, fmt.Errorf("%q is not a line of the job", text)
	}
	l.At = time.Duration(at)
	return l, nil
}
