// Package sdnotify speaks the protocol of sd_notify(3), by which a service tells its manager how it is: Send is the
// service's side, a Socket that of the manager. Both are for Linux.
//
// A Socket has one reader. Next waits; Close, from any goroutine, ends it. Send never waits.
package sdnotify

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/electd/elect/cmd/elect/internal/printable"
)

// The variables of the protocol.
const (
	EnvSocket      = "NOTIFY_SOCKET"
	EnvWatchdog    = "WATCHDOG_USEC"
	EnvWatchdogPID = "WATCHDOG_PID"
)

// Message has the fields of a datagram that are used here. Others of the protocol are ignored.
type Message struct {
	Ready    bool           // READY=1
	Stopping bool           // STOPPING=1
	Alive    bool           // WATCHDOG=1
	Ill      bool           // WATCHDOG=trigger
	Limit    *time.Duration // WATCHDOG_USEC; 0 is none
	Extend   time.Duration  // EXTEND_TIMEOUT_USEC
	Status   *string        // STATUS, in one line that can be printed
}

const (
	maxDatagram = 4096
	maxStatus   = 200 // bytes
)

// Parse reads a datagram. An error names the first malformed field; the message then has the others.
func Parse(datagram []byte) (m Message, err error) {
	if len(datagram) > maxDatagram {
		return m, fmt.Errorf("a datagram has more than %d bytes", maxDatagram)
	}
	for line := range strings.SplitSeq(strings.TrimRight(string(datagram), "\x00\n"), "\n") {
		name, value, _ := strings.Cut(line, "=")
		var bad error
		switch name {
		case "READY":
			m.Ready = m.Ready || value == "1"
		case "STOPPING":
			m.Stopping = m.Stopping || value == "1"
		case "WATCHDOG":
			m.Alive, m.Ill = m.Alive || value == "1", m.Ill || value == "trigger"
		case "WATCHDOG_USEC":
			var limit time.Duration
			if limit, bad = ParseTime(value); bad == nil {
				m.Limit = &limit
			}
		case "EXTEND_TIMEOUT_USEC":
			m.Extend, bad = ParseTime(value)
		case "STATUS":
			if !utf8.ValidString(value) {
				bad = errors.New("want UTF-8")
				break
			}
			m.Status = new(printable.Line(value, maxStatus))
		}
		if bad != nil && err == nil {
			err = fmt.Errorf("%s=%s: %w", name, printable.Line(value, maxStatus), bad)
		}
	}
	return m, err
}

// never is a time that is taken for no limit, as are longer ones.
const never = 100 * 365 * 24 * time.Hour

// ParseTime reads a number of microseconds. A time beyond 100 years is 0, which is no limit.
func ParseTime(text string) (time.Duration, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil:
		return 0, errors.New("want a number of microseconds")
	case n > math.MaxInt64/1000 || time.Duration(n)*time.Microsecond > never:
		return 0, nil
	}
	return time.Duration(n) * time.Microsecond, nil
}
