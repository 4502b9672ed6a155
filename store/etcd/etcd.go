// Package etcd elects over keys of etcd, in the layout of etcd's own elections (package concurrency
// of its client, and etcdctl elect). So these and elect's can be candidates of one election.
//
// [New] takes a client that a program has already; [Open] makes one from a URL. Each candidacy has a
// lease of etcd, and a key bound to it. The key with the lowest create revision leads, and that
// revision is its fencing token. Each candidate watches the key just before its own.
//
// # Guarantee
//
// At most one of elect's participants has a proven lease at a time, and tokens rise, while the rates
// of clocks are true within 5 %, and etcd keeps what it has acknowledged. A leader's proof counts
// from before its last touch was sent, a write whose condition is that its key is there. A candidate
// whose key is the first leads only when it has read that back from etcd, and after a hold-off, which
// begins when it first saw the last touch, unless the leader before it has said that its work is over:
// see [Config].Hold.
//
// Candidates of other programs keep the order, and know no hold-off. A leader among them may believe
// that it leads after its lease has ended; elect's do not lead before its key is gone, but only the
// token protects what it still writes.
//
// After a restore from a backup revisions begin at an earlier one: raise [Config].Era.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/electd/elect/driver"
	machine "github.com/electd/elect/internal/protocol/queue"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/pool"
	"github.com/electd/elect/store/internal/queue"
)

// Config configures a participant. The zero value of each field is its documented default. All
// participants of an election have the same, except for Hold and Poll.
type Config struct {
	// Key is the election's: its entries are beneath Key + "/", as etcdctl elect Key has them. What a
	// participant has to tell the next leader is at Key + ".elect" and Key + ".elect.touch", and an
	// operator's request at Key + ".elect.wish". "" means the election's name.
	Key string

	// Lease is how long a key lives without a renewal: whole seconds, 2 s to 5 min. 0 means 10 s.
	Lease time.Duration

	// Hold is how long a leader may go on after its key was last known to exist, and so how long the
	// next one waits after the last sign of that, unless the work of the leader before it is known to be
	// over. The leader gives a sign four times in each Hold, which is a write. At most Lease and
	// MaxHold. 0 means half of Lease, or MaxHold if that is less, and none with ServersFixed.
	Hold time.Duration

	// MaxHold is the longest Hold of any participant; the first leader of a new election waits for
	// it. 0 means 5 s.
	MaxHold time.Duration

	// ServersFixed says that each server of etcd has the fix of its issue 15247: 3.4.31 or a later
	// 3.4, 3.5.13 or a later 3.5, or 3.6.0 or later. Then claims may depend on the leases of etcd, and
	// no participant holds off. It is checked at the start; keep it true afterwards.
	ServersFixed bool

	// ServerElection is the election timeout of etcd's servers. 0 means 1 s, as theirs.
	ServerElection time.Duration

	// Poll is the mean time between two looks of a participant whose watches are silent. 0 means
	// twice Lease.
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

// clients are those of the URLs of this process, and groups those of its elections. They are variables
// of the package because elections are opened by independent calls, with no common argument.
var (
	clients pool.Pool[access, *clientv3.Client]
	groups  pool.Pool[pace, *group]
)

// group is what the elections of a client with the same times share.
type group struct {
	*renewals
	*checks
}

// pace tells two groups apart: an election ends its stream of renewals when its own request has timed out, which must
// not be earlier than for the others there.
type pace struct {
	client  *clientv3.Client
	timeout time.Duration // of a request
}

// maxKey is the longest key that is taken.
const maxKey = 1024

// ErrRefused is what an error of [New] and [Open] matches if it refuses the servers, their certificates or the rights of
// the user, and not the arguments.
var ErrRefused = drive.ErrRefused

// New returns the participant id in the election called name. The caller keeps client, and closes it after the Elector.
// Many participants can share it: those with the same times renew their leases on one stream, and look at their keys
// together. New asks etcd whether the client's user may do what is needed, and returns an error marked by
// [driver.Permanent] that matches [ErrRefused] if not. If etcd does not answer within 5 s, New logs that, and the
// participant asks again before anything else.
func New(ctx context.Context, client *clientv3.Client, name, id string, cfg Config) (driver.Elector, error) {
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
func newElector(ctx context.Context, client *clientv3.Client, name, id string, cfg Config, source *url.URL) (*elector, error) {
	if cfg.Key == "" {
		cfg.Key = name
	}
	if len(cfg.Key) > maxKey || !utf8.ValidString(cfg.Key) || strings.ContainsRune(cfg.Key, 0) {
		return nil, driver.Permanent(fmt.Errorf("etcd: Config.Key %s; want UTF-8 of at most %d bytes, without 0", drive.Shown(cfg.Key), maxKey))
	}
	s := &store{client: client, key: cfg.Key, fixed: cfg.ServersFixed}
	if err := drive.Begin(ctx, "etcd", cfg.Logger, func(ctx context.Context) error { return s.begin(ctx, source != nil) }); err != nil {
		return nil, err
	}
	var done func() error
	times := machine.Config{
		Dialect: machine.Etcd, TTL: cfg.Lease, Hold: cfg.Hold, MaxHold: cfg.MaxHold, ServersFixed: cfg.ServersFixed,
		ServerElection: cfg.ServerElection, Poll: cfg.Poll,
	}
	s.group, done, _ = groups.Use(pace{client, times.RequestTimeout()}, func() (*group, func() error, error) { // which does not fail
		g := &group{renewals: newRenewals(client)}
		g.checks = newChecks(g.renewals.life, func(ctx context.Context, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
			// A server that has no leader refuses it, and another one is asked.
			return client.Txn(clientv3.WithRequireLeader(ctx)).Then(ops...).Commit()
		})
		return g, g.close, nil
	})
	inner, err := queue.New(s, queue.Config{
		Config:  drive.Config{Name: name, ID: id, Era: uint64(cfg.Era), Logger: cfg.Logger, Source: source, Flight: cfg.Flight},
		Machine: times,
		Round:   500 * time.Millisecond, // lessor.runLoop
		Assumes: "etcd keeps every write that it has acknowledged",
	})
	if err != nil {
		_ = done() // nothing was renewed
		return nil, err
	}
	inner.AtClose(done)
	return &elector{inner, s}, nil
}

// close ends the group's requests. Its elections are closed already.
func (g *group) close() error {
	err := g.renewals.close()
	g.checks.Wait()
	return err
}

// elector is a participant with its store.
type elector struct {
	*queue.Elector
	store *store
}

// Examine implements [driver.Examiner].
func (e *elector) Examine(ctx context.Context) ([]driver.Finding, error) { return e.store.examine(ctx) }

// begin is ready at the start. Its error says why there is no connection. If the client was made from a URL, it also
// says what would be right there.
func (s *store) begin(ctx context.Context, byURL bool) error {
	if byURL { // the requests of ready wait for a connection
		if err := explained(unconnected(ctx, s.client), s.client); driver.IsPermanent(err) {
			return err
		}
	}
	err := s.ready(ctx)
	if err == nil || driver.IsPermanent(err) {
		return err
	}
	if why := unconnected(context.WithoutCancel(ctx), s.client); why != nil {
		err = why
	}
	if byURL {
		err = explained(err, s.client)
	}
	return err
}

// ready checks the rights of the user, and the versions of the servers if they count, until that was
// done once.
func (s *store) ready(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	// No create revision is below 0, so nothing is put; etcd checks the rights for all of it.
	_, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(s.mark()), "<", 0)).
		Then(clientv3.OpPut(s.mark(), ""), clientv3.OpPut(s.wish(), ""), clientv3.OpPut(s.touch(), ""), clientv3.OpPut(s.own(0), "")).
		Else(clientv3.OpGet(s.wish()), clientv3.OpGet(s.prefix(), clientv3.WithPrefix(), clientv3.WithCountOnly())).Commit()
	switch {
	case isOne(err, rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty):
		return driver.Permanent(fmt.Errorf("%w; want a user with the right to read and write %s, %s, %s and all keys beneath %s: etcdctl role grant-permission ROLE readwrite --prefix %s", err, s.mark(), s.wish(), s.touch(), s.prefix(), s.key))
	case isOne(err, rpctypes.ErrAuthFailed, rpctypes.ErrUserNotFound):
		return driver.Permanent(fmt.Errorf("%w; want a user that exists, and its password", err))
	case err != nil:
		return err
	case s.fixed:
		if err := s.versions(ctx); err != nil {
			return err
		}
	}
	s.checked.Store(true)
	return nil
}

func isOne(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
}

// versions asks each member of the cluster for its version.
func (s *store) versions(ctx context.Context) error {
	members, err := s.client.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, m := range members.Members {
		if len(m.ClientURLs) == 0 {
			return fmt.Errorf("the member %x of etcd has not started, so its version is not known", m.ID)
		}
		status, err := s.client.Status(ctx, m.ClientURLs[0])
		if err != nil {
			return fmt.Errorf("the version of %s: %w", m.Name, err)
		}
		if !isFixed(status.Version) {
			return driver.Permanent(fmt.Errorf("ServersFixed is set, and %s has version %.40q; want 3.4.31 or a later 3.4, 3.5.13 or a later 3.5, or 3.6.0 or later", m.Name, status.Version))
		}
	}
	return nil
}

// isFixed reports whether a version has the fix of issue 15247.
func isFixed(version string) bool {
	var v [3]int
	number, _, _ := strings.Cut(version, "-")
	parts := strings.Split(number, ".")
	if len(parts) != 3 {
		return false
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return false
		}
		v[i] = n
	}
	least := [3]int{3, 6, 0}
	if v[0] == 3 && v[1] == 5 {
		least[1], least[2] = 5, 13
	} else if v[0] == 3 && v[1] == 4 {
		least[1], least[2] = 4, 31
	}
	// A pre-release is before its release, and has not what came last.
	return slices.Compare(v[:], least[:]) >= 0 && number == version
}
