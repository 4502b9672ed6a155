// Package driver is the narrow contract that a back end implements. Programs
// use package elect; only those who write a back end, or need what one of them
// alone can do, import this package.
//
// A back end decides who leads and proves it. Everything around that is done
// once, above it, by package elect: ending the work early enough, joining it,
// releasing only then, campaigning again, backing off, fanning states out to
// watchers, and sorting causes into the reasons a caller acts on. So a driver
// returns plain causes, starts no work, and retries nothing that it cannot
// retry safely by itself.
//
// Package driver/electtest is the conformance suite; a back end's test is one
// call of it.
package driver

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"time"

	"github.com/electd/elect/fence"
)

// Elector is one participant in one election.
//
// Campaign is called by one goroutine at a time, and not again before the
// Mandate of the last victory was released. The other methods may be called at
// any time by any number of goroutines, also while a campaign waits.
type Elector interface {
	// Campaign blocks until this participant is elected and, if c.Exclusive,
	// its lease is proven. A lease that lapsed while Campaign waited is not a
	// victory; neither is an answer whose outcome is unknown.
	//
	// When ctx ends first it returns context.Cause(ctx), and nothing of the
	// candidacy is left behind that could still win. After Close it returns
	// ErrClosed. An error marked by [Permanent] says that trying again is of no
	// use; any other error is passing trouble, and the caller will back off and
	// campaign again.
	Campaign(ctx context.Context, c Candidacy) (Mandate, error)

	// Watch yields the state of the election: first the current one, at once,
	// and then each change, in order. A slow consumer may be shown only the
	// latest of several changes, and is always shown the last. Trouble with the
	// store is a State with Stale set, not an error. An error is yielded once,
	// last, and only when observing is wrong for good. The end of ctx ends the
	// sequence; so does Close. Each call is a subscription of its own.
	Watch(ctx context.Context) iter.Seq2[State, error]

	// Limits describes what this back end promises as it is configured. It is
	// constant over the life of the Elector and does no I/O.
	Limits() Limits

	// Close ends a waiting Campaign and every Watch, and frees what the
	// Elector holds. A mandate that was not released ends, its work being told
	// by its context; a leader should release first. Close may be called more
	// than once.
	Close() error
}

// Mandate is one victory, from the moment it is proven until it ends for good.
// A mandate that has ended never revives. Its methods may be called by any
// number of goroutines.
type Mandate interface {
	// Token is strictly greater than that of every earlier mandate of the
	// election, for ever. It is constant.
	Token() fence.Token

	// Context ends when leadership is lost or is asked back; its cause is the
	// plain reason and matches one of [ErrExpired], [ErrSuperseded],
	// [ErrResigned], [ErrUnreachable], [ErrUnhealthy] or [ErrClosed]. It is not
	// derived from Campaign's context.
	Context() context.Context

	// Remaining is how long leadership is proven from now on without another
	// renewal, 0 when it is not. It reports false where nothing runs out, as
	// with a lock that the kernel holds.
	Remaining() (time.Duration, bool)

	// Check returns nil while leadership is proven at this instant by this
	// participant's own clock, evaluated anew at each call and never by a
	// ticker alone; otherwise the plain reason. It does no network I/O.
	Check() error

	// Release gives leadership up, after the work was joined. It is called
	// exactly once for each mandate, lost ones included, and never touches a
	// newer mandate of anybody. When ctx ends first, what is left lapses by
	// itself.
	Release(ctx context.Context) error
}

// Guarded is a mandate as a guardian of its work gets it: see elect.Guardian. It is
// not the term of package elect, whose lease ends when the work is told to end.
type Guarded struct {
	Mandate

	// Exclusive says that the work must be over when the lease ends. Other work is
	// fenced by its token; it may begin before the lease is proven, and go on after it.
	Exclusive bool
}

// Candidacy is what a participant brings to a campaign.
type Candidacy struct {
	// Exclusive asks for a proven lease before Campaign returns. It is one
	// setting for a whole election, the same at every candidate.
	Exclusive bool

	// Metadata is shown to everybody beside the leader's id, for example an
	// address; see [CheckMetadata]. The driver keeps it; the caller must not
	// change it afterwards.
	Metadata map[string]string

	// Priority says who is to win among candidates that wait: the greatest, and
	// among equals any. It is a preference and no veto: a candidate that does
	// not come forward holds nobody up for long. It is 1 to [MaxPriority], 0 for
	// [DefaultPriority], or [NeverLead]; see [CheckPriority]. Only back ends
	// that list [AbilityPriority] heed it, and each says whether it also
	// replaces a leader by a greater one.
	Priority int
}

// Priorities, of [Candidacy].
const (
	DefaultPriority = 100  // that of 0
	MaxPriority     = 1000 // the greatest
	NeverLead       = -1   // of one that takes part and never leads
)

// CheckPriority returns nil if p can be a candidate's priority.
func CheckPriority(p int) error {
	if p < NeverLead || p > MaxPriority {
		return fmt.Errorf("priority %d; want 1 to %d, 0 for the default (%d), or %d for one that never leads", p, MaxPriority, DefaultPriority, NeverLead)
	}
	return nil
}

// Leader is who leads, as far as a back end can prove it.
type Leader struct {
	ID       string            `json:"id"`
	Token    fence.Token       `json:"token"`
	Metadata map[string]string `json:"metadata,omitempty"` // for reading; it may be shared

	// Since is when the leader's own wall clock says that it was elected. It is
	// for people to read; nothing is decided by it. Zero when not known.
	Since time.Time `json:"since,omitzero"`

	// NoLease says that it was elected by a protocol without leases: others may
	// think at the same time that they lead, and only its token tells.
	NoLease bool `json:"no_lease,omitzero"`
}

// State is one observation of an election.
type State struct {
	// Leader is nil when nobody is known to lead.
	Leader *Leader `json:"leader"`

	// Stale says that the store could not be asked: Leader is what was last
	// known.
	Stale bool `json:"stale,omitempty"`

	// Cause is why nothing better is known: always set when Stale, and else
	// where nobody leads for a reason that a person should hear.
	Cause error `json:"-"`
}

// Limits describes a back end as it is configured.
type Limits struct {
	// Lease is how long a proof lasts without renewal, and MinLease and
	// MaxLease are the bounds within which it may be configured. All are 0
	// where nothing runs out.
	Lease, MinLease, MaxLease time.Duration

	// Takeover is the longest it can take from the death of a leader's machine
	// or process until another is active, while the back end answers. 0 means
	// that there is no such bound; Assumes then says what stays unnoticed.
	Takeover time.Duration

	// Exclusive says that a mandate can be proven exclusive at all.
	Exclusive bool

	// Abilities lists the optional interfaces that this back end's Elector and
	// Mandates implement.
	Abilities []Ability

	// Assumes says in one sentence what exclusivity rests on, for people.
	Assumes string
}

// Target names an election and its participant, as an opener receives them.
type Target struct {
	URL  *url.URL // where; never nil
	Name string   // which election; passed CheckName
	ID   string   // this participant; passed CheckID

	// Logger receives what the back end has to say. Nil is silence.
	Logger *slog.Logger
}

// Opener makes an Elector from a Target. It refuses, with an error that says
// what would be right, a URL whose parts or parameters it does not know. The
// ctx bounds the opening only.
type Opener func(ctx context.Context, t Target) (Elector, error)
