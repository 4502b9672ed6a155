package demo

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/electd/elect/fence"
)

// line is one line of the log: a write, or a write that the log has refused.
type line struct {
	At     time.Duration // on the clock of stamp.Now, read while the log was locked
	Token  fence.Token
	ID     string      // of the candidate
	PID    int         // of the writer
	Number int         // from 1 in each life of the job; 0 is a late write by the demo
	Seen   fence.Token // 0: written; otherwise it was refused, because the log had seen this token
}

// String includes the newline: a line is written in one piece.
func (l line) String() string {
	text := fmt.Sprintf("at=%d token=%d leader=%s pid=%d line=%d", int64(l.At), l.Token, l.ID, l.PID, l.Number)
	if l.Seen != 0 {
		text += " refused=" + l.Seen.String()
	}
	return text + "\n"
}

// parseLine reads exactly what String writes.
func parseLine(text string) (line, error) {
	var l line
	wrong := func() (line, error) { return line{}, fmt.Errorf("%.100q is not a line of the job", text) }
	fields := strings.Split(strings.TrimSuffix(text, "\n"), " ")
	keys := []string{"at", "token", "leader", "pid", "line", "refused"}
	if len(fields) < len(keys)-1 || len(fields) > len(keys) {
		return wrong()
	}
	for i, field := range fields {
		value, ok := strings.CutPrefix(field, keys[i]+"=")
		if !ok || value == "" {
			return wrong()
		}
		var n int64
		var err error
		switch keys[i] {
		case "leader":
			l.ID = value
		case "token":
			l.Token, err = fence.ParseToken(value)
		case "refused":
			l.Seen, err = fence.ParseToken(value)
		default:
			n, err = strconv.ParseInt(value, 10, 64)
		}
		if err != nil || n < 0 {
			return wrong()
		}
		switch keys[i] {
		case "at":
			l.At = time.Duration(n)
		case "pid":
			l.PID = int(n)
		case "line":
			l.Number = int(n)
		}
	}
	if l.String() != text {
		return wrong()
	}
	return l, nil
}
