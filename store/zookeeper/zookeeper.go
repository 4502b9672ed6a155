// Package zookeeper elects over znodes of ZooKeeper, in the layout of Curator's LeaderLatch, of its LeaderSelector, or
// of kazoo's Election. So candidates of those libraries and of elect can stand in one election.
//
// [New] takes the addresses of the servers; [Open] makes a participant from a URL. Each candidacy has a session of its
// own, and an ephemeral, sequential znode. The znode with the lowest number leads, and the id of the transaction that
// made it (czxid) is its fencing token. Each candidate watches the znode just before its own.
//
// # Guarantee
//
// At most one of elect's participants has a proven lease at a time, and tokens rise, while the rates of clocks are true
// within 5 %, and ZooKeeper keeps what it has acknowledged. A session proves nothing: a server that has lost its
// ensemble answers pings for a while, and a client is told late that its session has expired. So a leader's proof
// counts from just before it sent its last write on the condition that its znode exists. A candidate whose znode is the
// first waits for [Config].Hold before it leads, unless the leader before it has said that its work is over.
//
// Candidates of other libraries keep the order, but do not wait for a Hold. A leader among them may believe that it
// leads after its session has expired: elect's candidates do not lead before its znode is gone, but only the token
// stops its late writes. A candidate of another library that follows a leader of elect's may lead up to a Hold before
// that leader's proof ends.
//
// After a restore from a backup the ids of transactions repeat: raise [Config].Era.
package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/electd/elect/driver"
	machine "github.com/electd/elect/internal/protocol/queue"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/pool"
	"github.com/electd/elect/store/internal/queue"
	"github.com/electd/elect/store/internal/secure"
)

// Config configures a participant. The zero value of each field is its documented default. All participants of an
// election must have the same, except for Hold, Poll, and how they connect, log and record.
type Config struct {
	// Path is the election's znode: the entries are its children, and its data is what a leader tells the next one. ""
	// means "/" and the election's name. It is created if it does not exist.
	Path string

	// Layout says how the entries are named. "" means LeaderLatch.
	Layout Layout

	// Lease is how long a session lives without a sign of life: whole milliseconds, 100 ms to 5 min. The servers grant
	// from two to twenty of their ticks, by default 4 s to 40 s. 0 means 10 s.
	Lease time.Duration

	// Hold is how long a leader may go on after its znode was last known to exist, and so how long the next one waits
	// after it is gone, unless the work of the leader before it is known to be over. The leader checks it by a write
	// four times in each Hold. It is at most Lease and MaxHold. 0 means half of Lease, or MaxHold if that is less.
	Hold time.Duration

	// MaxHold is the longest Hold of any participant; the first leader of a new election waits for it. 0 means 5 s.
	MaxHold time.Duration

	// Poll is the mean time between two reads of a participant whose watches are silent. 0 means Lease.
	Poll time.Duration

	// User and Password are for digest authentication. "" means none.
	User, Password string

	// ACL is the ACL of the znodes that a participant creates. Nil means all rights for the user, if there is one, else
	// for anybody.
	ACL []zk.ACL

	// TLS is how connections are secured; nil: not at all. If its ServerName is "", it is the name of each server.
	TLS *tls.Config

	// Era is the era of the tokens, 0 to 65535: see package fence.
	Era uint16

	// Flight is a directory for flight records: a candidate records its last minutes in a subdirectory with the
	// election's name. See docs/electlab.md. "" is none.
	Flight string

	// Logger receives log lines. Nil is silence.
	Logger *slog.Logger
}

// connection is how a client connects.
type connection struct {
	servers        []string
	user, password string
	tls            *tls.Config
}

// reader is the line that observers and operators use, and the elections of a process share.
type reader struct {
	*connection
	line *line
}

// access is what tells two readers apart. It contains the password.
type access struct {
	servers, user, password string
	tls                     *tls.Config
	secure                  secure.TLS // of a URL, in place of tls
	ttl                     time.Duration
}

// readers are those of this process. It is a variable of the package because elections are opened by independent calls,
// with no common argument.
var readers pool.Pool[access, *reader]

// ErrRefused is what an error of [New] and [Open] matches if it refuses the servers or the rights of the user, and not
// the arguments.
var ErrRefused = drive.ErrRefused

// New returns the participant id in the election called name, at servers such as 10.0.0.1:2181. It asks ZooKeeper
// whether the user has the rights, and whether a session lives for Lease. If not, it returns an error marked by
// [driver.Permanent] that matches [ErrRefused]. If ZooKeeper does not answer within 5 s, New logs that, and the
// participant asks again before anything else.
func New(ctx context.Context, servers []string, name, id string, cfg Config) (driver.Elector, error) {
	if cfg.Logger != nil { // that of an opener has the name
		cfg.Logger = cfg.Logger.With("election", name)
	}
	e, err := newElector(ctx, servers, name, id, cfg, secure.TLS{}, nil)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// newElector is New. byURL is what cfg.TLS was made of, if that was a URL. source is for witnesses; nil: there are
// none.
func newElector(ctx context.Context, servers []string, name, id string, cfg Config, byURL secure.TLS, source *url.URL) (*elector, error) {
	s, done, err := newStore(servers, name, cfg, byURL)
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("zookeeper: %w", err))
	}
	if err := drive.Begin(ctx, "ZooKeeper", cfg.Logger, s.begin); err != nil {
		_ = done()
		return nil, err
	}
	inner, err := queue.New(s, queue.Config{
		Config:  drive.Config{Name: name, ID: id, Era: uint64(cfg.Era), Logger: cfg.Logger, Source: source, Flight: cfg.Flight},
		Machine: machine.Config{Dialect: machine.ZooKeeper, TTL: cfg.Lease, Hold: cfg.Hold, MaxHold: cfg.MaxHold, Poll: cfg.Poll},
		Round:   round,
		Assumes: "ZooKeeper keeps every write that it has acknowledged",
	})
	if err != nil {
		_ = done()
		return nil, err
	}
	inner.AtClose(s.end)
	inner.AtClose(done)
	return &elector{inner, s}, nil
}

// round is how much later than its time a server ends a session, with the default tick of 2 s: a follower reports its
// clients every half tick, and sessions expire at multiples of a tick.
const round = 3 * time.Second

// newStore returns an election without asking a server, and what ends the use of its reader.
func newStore(servers []string, name string, cfg Config, byURL secure.TLS) (*store, func() error, error) {
	if cfg.Path == "" {
		cfg.Path = "/" + name
	}
	if cfg.Layout == "" {
		cfg.Layout = LeaderLatch
	}
	if cfg.Lease == 0 {
		cfg.Lease = defaultLease
	}
	switch {
	case len(servers) == 0:
		return nil, nil, errors.New("no servers; want one at least")
	case !strings.HasPrefix(cfg.Path, "/") || cfg.Path == "/" || path.Clean(cfg.Path) != cfg.Path || len(cfg.Path) > maxPath || strings.ContainsFunc(cfg.Path, unfit):
		return nil, nil, fmt.Errorf("path %s; want one such as /elections/jobs, of at most %d bytes that print", drive.Shown(cfg.Path), maxPath)
	case path.Dir(cfg.Path) == "/zookeeper" || cfg.Path == "/zookeeper" || strings.HasPrefix(cfg.Path, "/zookeeper/"):
		return nil, nil, fmt.Errorf("path %s is ZooKeeper's own; want another one", drive.Shown(cfg.Path))
	case layouts[cfg.Layout] == "":
		return nil, nil, fmt.Errorf("layout %.40q; want latch, selector or kazoo", cfg.Layout)
	case (cfg.User == "") != (cfg.Password == ""):
		return nil, nil, errors.New("a user without a password, or a password without a user; want both, or neither")
	case strings.Contains(cfg.User, ":"):
		return nil, nil, errors.New("a user with a colon, which ends the name for ZooKeeper; want another name")
	case cfg.Lease < minLease || cfg.Lease > machine.MaxTTL || cfg.Lease%time.Millisecond != 0:
		return nil, nil, fmt.Errorf("a lease of %v; want %v to %v in whole milliseconds", cfg.Lease, minLease, machine.MaxTTL)
	case cfg.Hold > cfg.Lease:
		return nil, nil, fmt.Errorf("a hold of %v; want at most the lease, %v", cfg.Hold, cfg.Lease)
	}
	if cfg.ACL == nil {
		if cfg.ACL = zk.WorldACL(zk.PermAll); cfg.User != "" {
			cfg.ACL = zk.AuthACL(zk.PermAll)
		}
	}
	servers = slices.Clone(servers)
	a := &connection{servers: servers, user: cfg.User, password: cfg.Password, tls: cfg.TLS}
	key := access{servers: strings.Join(servers, ","), user: cfg.User, password: cfg.Password, tls: cfg.TLS, secure: byURL, ttl: cfg.Lease}
	if byURL.On {
		key.tls = nil // that of each opening is another one
	}
	r, done, err := readers.Use(key, func() (*reader, func() error, error) {
		l, err := a.dial(cfg.Lease, false)
		if err != nil {
			return nil, nil, err
		}
		return &reader{a, l}, l.close, nil
	})
	if err != nil {
		return nil, nil, err
	}
	s := &store{reader: r, path: cfg.Path, layout: cfg.Layout, acl: cfg.ACL, ttl: cfg.Lease, sessions: map[uint64]*candidacy{}}
	if cfg.Logger != nil {
		var once sync.Once
		s.warn = func(what string, children []string) {
			once.Do(func() { cfg.Logger.Warn(what, "path", s.path, "count", len(children), "one", children[0]) })
		}
	}
	return s, done, nil
}

const (
	defaultLease = 10 * time.Second // that of the machine
	minLease     = 100 * time.Millisecond
	maxPath      = 1024
)

// unfit reports whether a path must not contain a character.
func unfit(r rune) bool {
	return r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// elector is a participant with its store.
type elector struct {
	*queue.Elector
	store *store
}

// Campaign implements [driver.Elector]. What is wrong for good is said at once.
func (e *elector) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	if ctx.Err() == nil {
		if err := e.store.begin(ctx); driver.IsPermanent(err) {
			return nil, drive.Refused(err)
		}
	}
	return e.Elector.Campaign(ctx, c)
}

// Examine implements [driver.Examiner].
func (e *elector) Examine(ctx context.Context) ([]driver.Finding, error) { return e.store.examine(ctx) }

// end closes what candidacies have left.
func (s *store) end() error {
	s.mu.Lock()
	for _, c := range s.sessions {
		s.left.Go(func() { _ = c.line.close() })
	}
	clear(s.sessions)
	s.latest = nil
	s.mu.Unlock()
	s.left.Wait()
	return nil
}

// begin is check at the start.
func (s *store) begin(ctx context.Context) error {
	ctx, end := context.WithTimeout(ctx, 5*time.Second)
	defer end()
	if err := s.reader.line.tried(ctx); err != nil {
		return err
	}
	return s.check(ctx)
}

// check makes the queue, and checks what the servers grant and the rights of the user until that was done once. It
// checks each time that there are numbers for entries.
func (s *store) check(ctx context.Context) error {
	if err := s.reader.line.opened(ctx); err != nil {
		return err
	}
	if _, granted := s.reader.line.granting(); granted != s.ttl {
		return driver.Permanent(fmt.Errorf("ZooKeeper grants sessions of %v where %v is asked for; want lease=%v, or other limits of the servers (minSessionTimeout, maxSessionTimeout)", granted, s.ttl, granted))
	}
	l := s.reader.line
	found, err := l.look(ctx, s.path, false)
	if errors.Is(err, zk.ErrNoNode) {
		if err = s.make(ctx, l); err == nil {
			found, err = l.look(ctx, s.path, false)
		}
	}
	if err != nil {
		return s.refused(err)
	}
	// What is told of the children is twice the number of those that were made, less those that are there.
	if made := uint32(found.stat.Cversion+found.stat.NumChildren) / 2; made >= lastNumber {
		return s.exhausted()
	}
	s.mu.Lock()
	checked := s.checked
	s.mu.Unlock()
	if checked {
		return nil
	}
	// No version is as high as the last one, so nothing of it is done; ZooKeeper checks the rights before.
	_, err = call(ctx, l, func(c *zk.Conn) ([]zk.MultiResponse, error) {
		probe := s.path + "/elect"
		return c.Multi(&zk.CreateRequest{Path: probe, Acl: s.acl}, &zk.DeleteRequest{Path: probe, Version: -1},
			&zk.SetDataRequest{Path: s.path, Version: -1}, &zk.CheckVersionRequest{Path: s.path, Version: lastNumber})
	})
	if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNodeExists) {
		return s.refused(err)
	}
	s.mu.Lock()
	s.checked = true
	s.mu.Unlock()
	return nil
}

// refused makes an error permanent if the rights of the user are not enough.
func (s *store) refused(err error) error {
	if isOne(err, zk.ErrNoAuth, zk.ErrInvalidACL) {
		err = driver.Permanent(fmt.Errorf("%w; want a user with the rights crwd on %s (setAcl in zkCli), or a path that it may make", err, s.path))
	}
	return err
}

// make makes the queue, and what it is in.
func (s *store) make(ctx context.Context, l *line) error {
	for i, r := range s.path + "/" {
		if r != '/' || i == 0 {
			continue
		}
		_, err := call(ctx, l, func(c *zk.Conn) (string, error) {
			if there, _, err := c.Exists(s.path[:i]); there || err != nil { // it may be there, without the right to make it
				return "", err
			}
			return c.Create(s.path[:i], nil, 0, s.acl)
		})
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}
