package elect

import "time"

// EventKind says what happened to a participant.
type EventKind string

// The kinds of [Event], in their order within a term. EventIll and EventWell come at any time. The log of elect run and
// elect history have the same words; docs/operating.md has a table of them.
const (
	EventCampaigning EventKind = "campaigning"     // it stands as a candidate
	EventFailed      EventKind = "campaign-failed" // a campaign failed; Err says why
	EventWithdrawn   EventKind = "withdrawn"       // a campaign was called off: its context has ended, or it is ill; Err says why
	EventElected     EventKind = "elected"         // a term began
	EventEnded       EventKind = "lost"            // the work's context ended; Err is a *LostError
	EventOverrun     EventKind = "overrun"         // the lease ended and the work had not returned, nor ended (see Guardian.InTime); never with Config.NonExclusive
	EventIll         EventKind = "ill"             // its health checks have failed, see Health, Term.GiveWay was called, or it has lost too many terms; Err says why
	EventWell        EventKind = "well"            // they succeed, for the first time or again, or the rest after GiveWay or after losses is over
	EventReleased    EventKind = "released"        // the work was joined, and leadership released or known to be lost
)

// Event is one step in a participant's life, see [Config].OnEvent.
type Event struct {
	Kind  EventKind
	At    time.Time // when it happened, by this process's clock
	Token Token     // of the term; 0 before there is one
	Term  *Term     // nil before there is one. OnEvent may keep it, and must not call its methods
	Err   error
}
