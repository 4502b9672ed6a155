// Package redis elects over a key of Redis (7 and later, Valkey too): one server, or a master that Sentinel names.
//
// [New] takes a client that a program has already; [Open] makes one from a URL. The key holds the record of one
// election, and never expires. A leader writes it again four times a lease. A candidate reads it as often, and takes it
// when it has not changed for a whole lease, by its own clock. Each read and write is one script, which also reads the
// server's role and replication id. A write is conditional on the whole content of the key.
//
// # Guarantee
//
// At most one participant has a proven lease at a time, and tokens rise, while the rates of clocks are true within 5 %
// and the server keeps what it has acknowledged. After each restart and each failover Redis has another replication id,
// and all participants wait for the longest lease ([Config].MaxLease), because acknowledged writes may be lost.
//
// A server whose settings let it forget acknowledged writes is refused, unless [Config].Volatile is set: tokens may
// repeat then, and leases stay exclusive. A server with replicas is refused, unless [Config].Replicas says how many of
// them must have a write. After a failover to a replica that lacks acknowledged writes tokens may repeat. A master that
// was replaced and does not know it goes on acknowledging: then two leaders are possible, and only the token protects.
// If Replicas is the number of all replicas, neither happens. Redis Cluster is refused.
//
// The first leader of a new key waits for the longest lease, as does any candidate that finds the key deleted.
package redis

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/pool"
	"github.com/electd/elect/store/internal/register"
)

// AnyReplicas is a [Config].Replicas that waits for no replica, however many there are.
const AnyReplicas = -1

// Config configures a participant. The zero value of each field is its documented default.
type Config struct {
	// Key holds the election, and is the channel of its notifications. "" means elect: and the election's name.
	Key string

	// Lease is how long the others wait for a leader that has fallen silent, 100 ms to 1 h. It may differ between
	// participants. 0 means 5 s.
	Lease time.Duration

	// MaxLease is the longest Lease that any participant of the election may have. It has to be the same at all of
	// them. 0 means 15 s, or Lease if that is longer.
	MaxLease time.Duration

	// Poll is the mean time between two reads of a candidate that waits. It also reads when it is notified of a
	// release. 0 means a quarter of Lease.
	Poll time.Duration

	// Replicas is how many replicas must have a write before it counts (WAIT). With all that there are, a failover to
	// one of them loses nothing that counts, and no write counts while one of them is down. 0 means that there are
	// none, and a server that has some is refused. [AnyReplicas] waits for none of them: a failover may make tokens
	// repeat, and two leaders possible.
	Replicas int

	// Volatile accepts a server that may lose acknowledged writes in a restart. Tokens may repeat then.
	Volatile bool

	// Era is the era of the tokens, 0 to 65535: see package fence.
	Era uint16

	// Flight is a directory for flight records: a candidate records its last minutes in a subdirectory with the
	// election's name. See docs/electlab.md. If it cannot, as when another candidate records there, it logs that, and
	// the election goes on. "" is none.
	Flight string

	// Logger receives log lines. Nil is silence.
	Logger *slog.Logger
}

func defaultKey(name string) string { return "elect:" + name }

// maxKey is the longest key that is taken.
const maxKey = 1024

// maxReplicas is far above what a master can serve.
const maxReplicas = 1000

// ErrRefused is what an error of [New] and [Open] matches if it refuses the server, its settings or the rights of the
// user, and not the arguments.
var ErrRefused = drive.ErrRefused

// clients are those of the URLs of this process, and listeners those of its clients. They are variables of the package
// because elections are opened by independent calls, with no common argument.
var (
	clients   pool.Pool[access, *redis.Client]
	listeners pool.Pool[*redis.Client, *listener]
)

// New returns the participant id in the election called name. The caller keeps client, which asks one server or follows
// Sentinel, and closes it after the Elector. Many participants can share it; they share one more connection that
// listens. New asks the server for its settings, and returns an error marked by [driver.Permanent] that matches
// [ErrRefused] if the guarantee needs others. A campaign does the same if the right to write is missing. If the server
// does not answer within 5 s, New logs that, and the participant asks again before anything else.
func New(ctx context.Context, client *redis.Client, name, id string, cfg Config) (driver.Elector, error) {
	if cfg.Logger != nil { // that of an opener has the name
		cfg.Logger = cfg.Logger.With("election", name)
	}
	e, err := newElector(ctx, client, name, id, cfg, nil)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// newElector is New. source is for witnesses; nil: there are none.
func newElector(ctx context.Context, client *redis.Client, name, id string, cfg Config, source *url.URL) (*elector, error) {
	cfg.Key = cmp.Or(cfg.Key, defaultKey(name))
	switch {
	case len(cfg.Key) > maxKey || !utf8.ValidString(cfg.Key) || strings.ContainsRune(cfg.Key, 0):
		return nil, driver.Permanent(fmt.Errorf("redis: Config.Key %.100q; want UTF-8 of at most %d bytes, without 0", cfg.Key, maxKey))
	case cfg.Replicas < AnyReplicas || cfg.Replicas > maxReplicas:
		return nil, driver.Permanent(fmt.Errorf("redis: Config.Replicas %d; want 0 to %d, or AnyReplicas", cfg.Replicas, maxReplicas))
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	l, done, _ := listeners.Use(client, func() (*listener, func() error, error) { // which does not fail
		l := newListener(client)
		return l, l.close, nil
	})
	k := &key{client: client, name: cfg.Key, replicas: cfg.Replicas, volatile: cfg.Volatile, log: cfg.Logger, listener: l}
	if err := drive.Begin(ctx, "Redis", cfg.Logger, func(ctx context.Context) error { return k.ready(ctx, newScript(read)) }); err != nil {
		_ = done() // nothing was sent by it
		return nil, err
	}
	inner, err := register.New(k, register.Config{
		Config: drive.Config{Name: name, ID: id, Era: uint64(cfg.Era), Logger: cfg.Logger, Source: source, Flight: cfg.Flight}, Lease: cfg.Lease, MaxLease: cfg.MaxLease, Poll: cfg.Poll,
		Assumes: assumes(cfg.Replicas, cfg.Volatile),
	})
	if err != nil {
		_ = done() // nothing was sent by it
		return nil, err
	}
	inner.AtClose(done)
	return &elector{inner, k}, nil
}

// assumes is what exclusivity rests on, and when tokens may repeat.
func assumes(replicas int, volatile bool) string {
	text := "Redis keeps every write that it has acknowledged, and no replica takes over"
	switch {
	case replicas == AnyReplicas:
		text = "no replica of Redis takes over while the master before it still acknowledges writes; a failover may lose acknowledged writes, and then tokens repeat: raise the era"
	case replicas > 0:
		text = fmt.Sprintf("Redis keeps every write that the master and %d of its replicas have acknowledged, also when one takes over", replicas)
	}
	if volatile {
		text += "; a restart may lose acknowledged writes, and then tokens repeat: raise the era"
	}
	return text
}

// elector is a participant with its key.
type elector struct {
	*register.Elector
	key *key
}

var _ interface {
	driver.Elector
	driver.Resigner
	driver.Examiner
} = (*elector)(nil)

// Examine implements [driver.Examiner].
func (e *elector) Examine(ctx context.Context) ([]driver.Finding, error) { return e.key.examine(ctx) }
