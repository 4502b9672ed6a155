package probe

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/clock"
)

// Event is an event that a probe reports.
type Event string

// The events. Each term of a probe has Elected if the work starts before its lease is proven, Active once
// [driver.Mandate.Check] returned nil, and Ended.
const (
	Standing Event = "standing" // it is about to campaign
	Watching Event = "watching" // it has begun to check continuously, after the order [Watch]
	Elected  Event = "elected"  // the campaign was won, and nothing is proven yet
	Active   Event = "active"   // the lease was proven
	Believed Event = "believed" // a stretch in which the lease was proven is over, and the term goes on
	Ended    Event = "ended"    // the work has ended and is about to return
)

// The orders that a probe reads, one a line.
const (
	Watch  = "watch"  // call Check continuously from now on, and for a while after the end of the term
	Rest   = "rest"   // call Check near the begin and the end of a lease, as before
	Resign = "resign" // resign
)

// Report is one line of a probe.
type Report struct {
	Event Event `json:"event"`
	PID   int   `json:"pid"`

	// At is when it happened. For Elected and Active it is read after the call that showed it, for Ended just before the
	// work returns.
	At    clock.Boot  `json:"at"`
	Token fence.Token `json:"token,omitzero"`

	// For Believed and, for the last stretch, for Ended: From was read after the first Check of the stretch that
	// returned nil, To before the last one. So the probe believed that it led at some instant before or at From, at some
	// instant at or after To, and surely in between.
	From   clock.Boot `json:"from,omitzero"`
	To     clock.Boot `json:"to,omitzero"`
	Checks int        `json:"checks,omitzero"` // that returned nil
	Why    string     `json:"why,omitempty"`   // why the stretch ended
}

// Read passes each report to tell until r ends, and then returns nil.
func Read(r io.Reader, tell func(Report)) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var report Report
		if err := json.Unmarshal(lines.Bytes(), &report); err != nil {
			return fmt.Errorf("%q is no report of a probe: %w", lines.Text(), err)
		}
		switch report.Event {
		case Standing, Watching, Elected, Active, Believed, Ended:
		default:
			return fmt.Errorf("%q is no event of a probe", report.Event)
		}
		tell(report)
	}
	return lines.Err()
}
