package probe

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/clock"
)

// Event is what a probe reports.
type Event string

// The events. Each term of a probe gives Elected where the work starts before
// its lease is proven, Active once [driver.Mandate.Check] was nil, and Ended.
const (
	Standing Event = "standing" // it is about to campaign
	Watching Event = "watching" // it has begun to look without a pause, as told by [Watch]
	Elected  Event = "elected"  // the campaign was won, and nothing is proven yet
	Active   Event = "active"   // the lease was proven
	Believed Event = "believed" // a stretch in which the lease was proven is over, and the term goes on
	Ended    Event = "ended"    // the work has ended and is about to return
)

// The orders that a probe reads, one a line.
const (
	Watch  = "watch"  // look at Check without a pause from now on, and for a while after the end of the term
	Rest   = "rest"   // look at the begin and the end of a lease, as before
	Resign = "resign" // give it up
)

// Report is one line of a probe.
type Report struct {
	Event Event `json:"event"`
	PID   int   `json:"pid"`

	// At is when it happened. Of Elected and Active it is read after the call
	// that told so, of Ended just before the work returns.
	At    clock.Boot  `json:"at"`
	Token fence.Token `json:"token,omitzero"`

	// Of Believed and, for the last stretch, of Ended: From was read after the first Check that was nil
	// in that stretch, To before the last one. So the probe believed at some
	// instant before or at From and at some instant at or after To, and surely
	// in between.
	From   clock.Boot `json:"from,omitzero"`
	To     clock.Boot `json:"to,omitzero"`
	Checks int        `json:"checks,omitzero"` // that were nil
	Why    string     `json:"why,omitempty"`   // the stretch ended
}

// Read hands each report to tell until r ends, and returns nil then.
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
