// Package driver is the narrow contract that a back end implements. Programs use package elect. Only back ends, and
// programs that need an ability of one back end, import this package.
//
// A back end elects leaders and proves leadership. Package elect does the rest once, for all of them: it ends the
// work early enough, joins it, releases only then, campaigns again, backs off, distributes states to watchers, and
// classifies causes for the caller. So a driver returns plain causes, starts no work, and retries only what it can
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
// Campaign is called by one goroutine at a time, and not before the mandate of the last victory was released. The other
// methods may be called at any time by any number of goroutines.
type Elector interface {
	// Campaign blocks until this participant is elected and, if c.Exclusive, its lease is proven. A lease that lapsed
	// while Campaign waited is not a victory, nor is an unknown outcome.
	//
	// If ctx ends first it returns context.Cause(ctx), and leaves nothing of the candidacy behind that could still win.
	// After Close it returns ErrClosed. An error marked by [Permanent] means that another attempt will fail too; after
	// any other the caller backs off and campaigns again.
	Campaign(ctx context.Context, c Candidacy) (Mandate, error)

	// Watch yields the state of the election: first the current one, at once, and then each change, in order. A slow
	// consumer may miss all but the last. Trouble with the store is a State with Stale set. An error is yielded once,
	// last, and only when observing is wrong for good. The end of ctx ends the sequence; so does Close. Each call is a
	// subscription of its own.
	Watch(ctx context.Context) iter.Seq2[State, error]

	// Limits describes what this back end promises as configured. It is constant and does no I/O.
	Limits() Limits

	// Close ends a waiting Campaign and every Watch, and frees what the Elector holds. The context of a mandate that
	// was not released ends. Close may be called more than once.
	Close() error
}

// Mandate is one victory, from when it is proven until it ends for good. It never revives. Its methods may be called by
// any number of goroutines.
type Mandate interface {
	// Token is strictly greater than that of every earlier mandate of the election. It is constant.
	Token() fence.Token

	// Context ends when leadership is lost or asked back. Its cause is the plain reason and matches [ErrExpired],
	// [ErrSuperseded], [ErrResigned], [ErrUnreachable], [ErrUnhealthy] or [ErrClosed]. It is not derived from
	// Campaign's context.
	Context() context.Context

	// Remaining is how long leadership is proven from now on without another renewal, 0 if it is not proven. It reports
	// false if the back end has no lease, as with a lock that the kernel holds.
	Remaining() (time.Duration, bool)

	// Check returns nil while leadership is proven at this instant by this participant's own clock, otherwise the plain
	// reason. It is evaluated at each call and never by a ticker alone. It does no network I/O.
	Check() error

	// Release releases leadership, after the work was joined. It is called exactly once for each mandate, even for lost
	// ones, and never affects a newer mandate of any participant. If ctx ends first, the rest lapses by itself. A back
	// end that keeps a history finds in ctx why the work has ended, see [Ending].
	Release(ctx context.Context) error
}

type endingKey struct{}

// WithEnding returns the context of a Release after work that has ended for a reason of elect.LostError.
func WithEnding(ctx context.Context, reason string) context.Context {
	return context.WithValue(ctx, endingKey{}, reason)
}

// Ending returns the reason in the context of a Release; it is empty if there is none.
func Ending(ctx context.Context) (reason string) {
	reason, _ = ctx.Value(endingKey{}).(string)
	return reason
}

// Guarded is a mandate as a guardian of its work gets it: see elect.Guardian.
type Guarded struct {
	Mandate

	// Exclusive means that the work must be over when the lease ends. Other work is fenced by its token; it may begin
	// before the lease is proven, and go on after it.
	Exclusive bool
}

// Candidacy is what a participant campaigns with.
type Candidacy struct {
	// Exclusive asks for a proven lease before Campaign returns. It is the same at every candidate of an election.
	Exclusive bool

	// Metadata is shown to observers beside the leader's id; see [CheckMetadata]. The driver keeps it; the caller must
	// not change it afterwards.
	Metadata map[string]string

	// Priority decides among waiting candidates: the greatest wins, and any of equal ones. It is a preference and no
	// veto: a candidate that does not come forward delays the others only briefly. It is 1 to [MaxPriority], 0 for
	// [DefaultPriority], or [NeverLead]. Only back ends that list [AbilityPriority] use it, and each documents whether
	// a greater one also replaces a leader.
	Priority int
}

// Priorities, of [Candidacy].
const (
	DefaultPriority = 100  // the default, for 0
	MaxPriority     = 1000 // the greatest
	NeverLead       = -1   // for a participant that never leads
)

// CheckPriority returns nil if p can be a candidate's priority.
func CheckPriority(p int) error {
	if p < NeverLead || p > MaxPriority {
		return fmt.Errorf("priority %d; want 1 to %d, 0 for the default (%d), or %d for one that never leads", p, MaxPriority, DefaultPriority, NeverLead)
	}
	return nil
}

// Leader is the leader, as far as a back end can prove it.
type Leader struct {
	ID       string            `json:"id"`
	Token    fence.Token       `json:"token"`
	Metadata map[string]string `json:"metadata,omitempty"` // for reading; it may be shared

	// Since is when the leader was elected by its own wall clock, for people; zero if not known.
	Since time.Time `json:"since,omitzero"`

	// NoLease means that it was elected without a lease: others may believe at the same time that they lead, and only
	// the token tells them apart.
	NoLease bool `json:"no_lease,omitzero"`
}

// State is one observation of an election.
type State struct {
	// Leader is nil if no leader is known.
	Leader *Leader `json:"leader"`

	// Stale means that the store did not answer: Leader is the last known one.
	Stale bool `json:"stale,omitempty"`

	// Cause is why nothing better is known. It is always set if Stale is, and otherwise if there is no leader for a
	// reason that people should know.
	Cause error `json:"-"`
}

// Limits describes a back end as configured.
type Limits struct {
	// Lease is how long a proof lasts without renewal, from MinLease to MaxLease. All are 0 if the back end has no
	// lease.
	Lease, MinLease, MaxLease time.Duration

	// Takeover bounds the time from the death of a leader's machine or process until another is active, while the back
	// end answers. 0: no bound; Assumes says which failures stay unnoticed.
	Takeover time.Duration

	// Exclusive means that a mandate can be proven exclusive.
	Exclusive bool

	// Abilities lists the optional interfaces of this back end's Elector and Mandates.
	Abilities []Ability

	// Assumes says in one sentence what exclusivity depends on, for people.
	Assumes string
}

// Target is what an opener receives.
type Target struct {
	URL  *url.URL // where; never nil
	Name string   // the election; passed CheckName
	ID   string   // this participant; passed CheckID

	// Logger receives the back end's log lines. Nil is silence.
	Logger *slog.Logger
}

// Opener makes an Elector from a Target. It refuses a URL whose parts or parameters it does not know. ctx bounds the
// opening only.
type Opener func(ctx context.Context, t Target) (Elector, error)
