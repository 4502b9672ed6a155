// Package nats elects over keys of a bucket of NATS JetStream.
//
// [New] takes a connection that a program has already; [Open] makes one from a URL. Each election is one key of the
// bucket. A leader writes it again four times a lease, each time on the condition that its revision is the one that it
// knows. A candidate reads it as often, and takes it when it has not changed for a whole lease, by its own clock: no
// clock is compared with another, such as the server's. A watch tells a candidate of a release at once.
//
// The key has the name of the election, and the time at which the bucket was made, which is the bucket's incarnation:
// in a bucket that was deleted and made again revisions begin again at 1, and a late write of an old leader must not
// find the revision that it names. The token is a revision, too, so tokens rise when a key is deleted or the bucket is
// purged.
//
// # Guarantee
//
// At most one participant has a proven lease at a time, and tokens rise, while the rates of clocks are true within 5 %
// and JetStream keeps what it has acknowledged. A server acknowledges a write before it has synced it to its disk,
// unless its configuration has sync_interval: always. So a loss of power, with three replicas of two servers at the
// same time, may lose acknowledged writes, and shows no new incarnation. Raise the era after that, after a restore from
// a backup, and after a bucket was made again. Settings by which a bucket drops or changes messages by itself are
// refused.
//
// The first leader of a new key waits for the longest lease ([Config].MaxLease), as does any candidate that finds the
// key deleted.
package nats

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
)

// Bounds and defaults of [Config].
const (
	DefaultBucket   = "elect"
	DefaultLease    = register.DefaultLease
	DefaultMaxLease = register.DefaultMaxLease
	MinLease        = register.MinLease
	MaxLease        = register.MaxLease
)

// Config configures a participant. The zero value of each field is its documented default.
type Config struct {
	// Bucket is the name of the bucket, which has a key for each election: letters, digits, underscores and dashes. ""
	// means elect. The first campaign makes it if there is none.
	Bucket string

	// Replicas is how many servers keep a bucket that the first campaign makes: 1, 3 or 5. 0 means 3 in a cluster, and
	// 1 elsewhere.
	Replicas int

	// Lease is how long the others wait for a leader that has fallen silent, 100 ms to 1 h. It may differ between
	// participants. 0 means 5 s.
	Lease time.Duration

	// MaxLease is the longest Lease that any participant of the election may have. It has to be the same at all of
	// them. 0 means 15 s, or Lease if that is longer.
	MaxLease time.Duration

	// Poll is the mean time between two reads of a candidate that waits: without a watch, how soon it sees a release.
	// 0 means a quarter of Lease.
	Poll time.Duration

	// Era is the era of the tokens, 0 to 65535: see package fence.
	Era uint16

	// Flight is a directory for flight records: a candidate records its last minutes in a subdirectory with the
	// election's name. See docs/electlab.md. If it cannot, as when another candidate records there, it logs that, and
	// the election goes on. "" is none.
	Flight string

	// Logger receives log lines. Nil is silence.
	Logger *slog.Logger
}

// ErrRefused is what an error of [New], [Open] or a campaign matches if it refuses the servers, the bucket or the rights
// of the user, and not the arguments.
var ErrRefused = drive.ErrRefused

// New returns the participant id in the election called name. The caller keeps conn, and closes it after the Elector;
// many participants can share it. It should have been made with nats.ReconnectBufSize(-1); else writes are sent late
// after an interruption, which costs only time. New asks for the bucket, and returns an error marked by
// [driver.Permanent] that matches [ErrRefused] if the bucket is unsafe. A server that does not answer within 5 s is
// asked again, before anything else. A bucket that does not exist is made by the first campaign.
func New(ctx context.Context, conn *nats.Conn, name, id string, cfg Config) (driver.Elector, error) {
	if cfg.Logger != nil { // that of an opener has the name
		cfg.Logger = cfg.Logger.With("election", name)
	}
	e, err := newElector(ctx, &link{Conn: conn}, name, id, cfg, nil)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// newElector is New. source is for witnesses; nil: there are none.
func newElector(ctx context.Context, l *link, name, id string, cfg Config, source *url.URL) (*elector, error) {
	b, err := newBucket(l, name, cfg)
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("nats: %w", err))
	}
	if err := drive.Begin(ctx, "NATS", cfg.Logger, b.begin); err != nil {
		return nil, err
	}
	inner, err := register.New(b, register.Config{
		Config: drive.Config{Name: name, ID: id, Era: uint64(cfg.Era), Logger: cfg.Logger, Source: source, Flight: cfg.Flight},
		Lease:  cfg.Lease, MaxLease: cfg.MaxLease, Poll: cfg.Poll, Global: revisionOf,
		Assumes: "JetStream keeps every write that it has acknowledged, which it acknowledges before it has synced it to the disk, unless sync_interval is always",
	})
	if err != nil {
		return nil, err
	}
	return &elector{inner, b}, nil
}

// newBucket returns an election in a bucket. Nothing is asked.
func newBucket(l *link, name string, cfg Config) (*bucket, error) {
	in := cmp.Or(cfg.Bucket, DefaultBucket)
	if !validBucket(in) {
		return nil, fmt.Errorf("bucket %.100q; want letters, digits, underscores and dashes", in)
	}
	switch cfg.Replicas {
	case 0, 1, 3, 5:
	default:
		return nil, fmt.Errorf("%d replicas; want 1, 3 or 5", cfg.Replicas)
	}
	js, err := jetstream.New(l.Conn)
	if err != nil {
		return nil, err
	}
	return &bucket{link: l, js: js, name: in, key: keyOf(name), replicas: cfg.Replicas, turned: make(chan struct{})}, nil
}

// elector is a participant with its bucket.
type elector struct {
	*register.Elector
	bucket *bucket
}

var _ interface {
	driver.Elector
	driver.Resigner
	driver.Examiner
} = (*elector)(nil)

// Examine implements [driver.Examiner].
func (e *elector) Examine(ctx context.Context) ([]driver.Finding, error) {
	return e.bucket.examine(ctx)
}
