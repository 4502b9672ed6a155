package group

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/group/internal/link"
	"github.com/electd/elect/group/internal/wire"
)

const (
	// fresh is how old the proof may be that a client is told of changes, for an answer to be used again. It is the time
	// after which a client notices at its next question that the coordinator is cut off.
	fresh = time.Second
	// maxAnswers is how many answers a client keeps.
	maxAnswers = 10_000
)

// Client asks the coordinator of a group. It is no member and no candidate: it holds nothing, and is not counted. It
// keeps one connection with the coordinator, and goes on with the next one.
//
// Without a coordinator its methods except Lookup fail with [elect.ErrNoLeader] if the election has no leader;
// otherwise they wait for one until their context ends.
type Client struct {
	election *elect.Election
	reach    reach
	hello    wire.Hello
	tokens   tokens
	stall    time.Duration
	log      *slog.Logger
	calls    calls

	ctx  context.Context // ends with the Client
	end  context.CancelFunc
	work sync.WaitGroup

	mu    sync.Mutex
	link  *link.Conn // nil without a connection
	heard time.Time  // when the question was asked that the connection has answered last
	all   map[string]*answer
}

// answer is who holds a key. The coordinator says when that changes.
type answer struct {
	known  chan struct{} // closed when is is true, or never will be
	is     bool          // the rest is valid, and changes no more
	leader *driver.Leader
	err    error
}

// NewClient returns a client of the group whose coordinator is the leader of election, which it owns. Of cfg it uses
// Name, ID, TLS, TokenBits, Promise and Logger; TLS is none if the group is carried by the election's ports.
func NewClient(election *elect.Election, cfg Config) (*Client, error) {
	return newClient(election, cfg, system())
}

func newClient(election *elect.Election, cfg Config, env env) (*Client, error) {
	streams, ok := election.Streamer()
	if ok {
		if err := cfg.carried(streams.Streams()); err != nil {
			return nil, err
		}
	}
	cfg, err := cfg.complete(elect.Limits{Exclusive: true}) // who asks proves nothing
	if err != nil {
		return nil, err
	}
	reach := direct(&env, cfg.TLS)
	if ok {
		reach = across(streams, cfg.ID)
	}
	c := &Client{
		election: election, reach: reach, tokens: tokens{uint(cfg.TokenBits)}, stall: cfg.Promise, log: cfg.Logger, all: map[string]*answer{},
		hello: wire.Hello{Version: wire.Version, Group: cfg.Name, ID: cfg.ID, Bits: uint64(cfg.TokenBits), Control: true},
	}
	c.calls.init()
	c.ctx, c.end = context.WithCancel(context.Background())
	c.work.Go(c.follow)
	return c, nil
}

// OpenClient returns a client of the group that a URL names as those of [Opener] do. The scheme may be that of inner,
// too. configure is as for [OpenerWith], and may be nil.
func OpenClient(ctx context.Context, inner driver.Opener, u *url.URL, configure func(params url.Values, cfg *Config) error) (*Client, error) {
	s := &sharing{inner: inner, configure: configure}
	own, cfg, err := s.parse(driver.Target{URL: prefixed(u)})
	if err != nil {
		return nil, driver.Permanent(err)
	}
	place, err := inner(ctx, driver.Target{URL: own, Name: cfg.Name, ID: elect.DefaultID()})
	if err != nil {
		return nil, err
	}
	election, err := elect.New(place, elect.Config{NonExclusive: true}) // it does not stand
	if err != nil {
		_ = place.Close()
		return nil, err
	}
	c, err := NewClient(election, cfg)
	if err != nil {
		_ = election.Close()
		return nil, driver.Permanent(err)
	}
	return c, nil
}

// Close ends the connection, and closes the election.
func (c *Client) Close() error {
	c.end()
	c.work.Wait()
	c.calls.detached(nil)
	return c.election.Close()
}

// follow learns who leads the election, and stays connected with it. What the election calls permanent is tried again.
func (c *Client) follow() {
	var r retries
	var last target
	stop := func() {}
	defer func() { stop() }()
	for {
		err := c.look(&r, func(t target) {
			if t.token <= last.token {
				return
			}
			last = t
			stop()
			var ctx context.Context
			ctx, stop = context.WithCancel(c.ctx)
			c.calls.without(nil, false)
			c.work.Go(func() {
				attach(ctx, t, &c.calls, func() error { return c.connect(ctx, t) }, func(why error, _ bool) {
					c.log.Debug("the connection with the coordinator has ended", "coordinator", t.id, "error", why)
				})
			})
		})
		if c.ctx.Err() != nil {
			return
		}
		c.log.Error("the coordinator's election cannot be observed", "error", err)
		c.calls.without(err, true)
		if errors.Is(err, elect.ErrClosed) || !r.wait(c.ctx) {
			return
		}
	}
}

// look aims at the leaders of the election until the Client ends, or the election cannot be observed.
func (c *Client) look(r *retries, aim func(target)) error {
	for s, err := range c.election.Watch(c.ctx) {
		switch {
		case err != nil:
			return err
		case s.Stale:
			c.calls.unseen(s.Cause)
			continue
		case s.Leader == nil:
			c.calls.without(fmt.Errorf("%w: the group %q has no coordinator", driver.ErrNoLeader, c.hello.Group), true)
			continue
		}
		r.pause = 0
		c.calls.unseen(nil)
		t, err := targetOf(s.Leader)
		if err != nil {
			c.calls.without(fmt.Errorf("%w: %w", driver.ErrUnreachable, err), true)
			continue
		}
		aim(t)
	}
	return elect.ErrClosed
}

// connect connects once, and serves the connection until it ends.
func (c *Client) connect(ctx context.Context, t target) error {
	nc, r, err := dial(ctx, c.reach, &c.hello, t)
	if err != nil {
		return err
	}
	l := link.New(nc, c.stall)
	l.Expect(2 * silence * c.stall) // an answer to one of the pings
	go func() {
		for {
			select {
			case <-time.After(c.stall):
				l.Send(wire.Packet{Side: &wire.Side{Kind: wire.Call, Method: "ping", Body: []byte("{}")}})
			case <-l.Done():
				return
			}
		}
	}()
	stop := context.AfterFunc(ctx, func() { l.Close(link.ErrClosed) })
	defer stop()
	c.use(nil, l)
	c.calls.attached(l)
	err = l.Run(r, func(p wire.Packet) {
		switch s := p.Side; {
		case s == nil:
		case s.Kind == wire.States:
			c.states(l, s.Entries)
		case s.Kind == wire.Reply:
			c.calls.reply(s)
		}
	})
	c.use(l, nil)
	c.calls.detached(l)
	return err
}

// use goes on with another connection, if it used that one or none is named. Answers end with their connection.
func (c *Client) use(instead, l *link.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if instead != nil && c.link != instead {
		return
	}
	c.link, c.heard = l, time.Time{}
	for key, a := range c.all {
		c.drop(key, a)
	}
}

// drop forgets an answer. The lock is held.
func (c *Client) drop(key string, a *answer) {
	delete(c.all, key)
	select {
	case <-a.known:
	default:
		close(a.known)
	}
}

// states takes what the coordinator says of keys.
func (c *Client) states(l *link.Conn, entries []wire.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		old := c.all[e.Key]
		if old == nil || c.link != l {
			continue
		}
		a := old
		if old.is { // somebody may read it
			a = &answer{known: old.known}
			c.all[e.Key] = a
		} else {
			close(a.known)
		}
		a.is = true
		switch {
		case e.Member != "":
			a.leader = leaderOf(c.tokens, e)
		case e.Since < 0:
			a.err = errUnknown(e.Since)
		default:
			a.err = driver.ErrNoLeader
		}
	}
}

// Lookup returns the holder of a key, as the coordinator sees it. The error is [elect.ErrNoLeader] if the key has no
// holder, and matches [driver.ErrUnreachable] if that is not known. The caller must not change the metadata.
//
// Up to 10,000 answers are kept, and the coordinator reports their changes, so that most calls send nothing. Once a
// second a call asks all the same, to know that changes still arrive. So an answer is at most a second behind the
// coordinator, and the holder may have lost the key meanwhile. A wrong answer harms no data if the holder checks its
// term before it acts and the resource refuses tokens that are smaller than the greatest that it has seen. The caller,
// which is refused there, asks again.
func (c *Client) Lookup(ctx context.Context, key string) (elect.Leader, error) {
	if err := driver.CheckName(key); err != nil {
		return elect.Leader{}, fmt.Errorf("the key: %w", err)
	}
	for asked := false; ; {
		c.mu.Lock()
		var a *answer
		if c.link != nil && (asked || time.Since(c.heard) < fresh) {
			a = c.ask(key)
		}
		c.mu.Unlock()
		if a == nil {
			if err := c.hear(ctx); errors.Is(err, driver.ErrNoLeader) { // of the group, and that is not what was asked
				return elect.Leader{}, fmt.Errorf("%w: %v", driver.ErrUnreachable, err)
			} else if err != nil {
				return elect.Leader{}, err
			}
			asked = true
			continue
		}
		select {
		case <-a.known:
		case <-ctx.Done():
			return elect.Leader{}, context.Cause(ctx)
		}
		c.mu.Lock()
		is := a.is // and then for ever
		c.mu.Unlock()
		switch {
		case is && a.err != nil:
			return elect.Leader{}, a.err
		case is:
			return *a.leader, nil
		}
	}
}

// ask returns the answer for a key, which may not be known yet. The lock is held, and there is a connection.
func (c *Client) ask(key string) *answer {
	if a := c.all[key]; a != nil {
		return a
	}
	for other, old := range c.all {
		if len(c.all) < maxAnswers {
			break
		}
		c.drop(other, old)
		c.link.Send(wire.Packet{Side: &wire.Side{Kind: wire.Unwatch, Entries: []wire.Entry{{Key: other}}}})
	}
	a := &answer{known: make(chan struct{})}
	c.all[key] = a
	c.link.Send(wire.Packet{Side: &wire.Side{Kind: wire.WatchKeys, Entries: []wire.Entry{{Key: key}}}})
	return a
}

// hear proves that all changes have arrived that the coordinator has told before now: its words arrive in order.
func (c *Client) hear(ctx context.Context) error {
	c.mu.Lock()
	l, now := c.link, time.Now()
	c.mu.Unlock()
	if err := c.call(ctx, "ping", request{}, nil); err != nil {
		return err
	}
	if l == nil {
		return c.hear(ctx) // now that there is a connection
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == l && now.After(c.heard) {
		c.heard = now
	}
	return nil
}

func (c *Client) call(ctx context.Context, method string, in, out any) error {
	return c.calls.call(ctx, c.ctx.Done(), method, in, out)
}

// Status is like [Group.Status].
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	err = c.call(ctx, "status", request{}, &s)
	return s, err
}

// Watch is like [Group.Watch].
func (c *Client) Watch(ctx context.Context) iter.Seq2[Status, error] { return watchStatus(ctx, c.call) }

// Keys asks for all keys that the coordinator knows, like [Group.Keys], or only for one, of which it may know nothing.
func (c *Client) Keys(ctx context.Context, only string) ([]KeyStatus, error) {
	return allKeys(ctx, only, c.call)
}

// Slack asks for how long the coordinator keeps the keys of each member, by its id, without another renewal. The
// member's own claim ends a little earlier.
func (c *Client) Slack(ctx context.Context) (all map[string]time.Duration, err error) {
	err = c.call(ctx, "slack", request{}, &all)
	return all, err
}

// Plan is like [Group.Plan].
func (c *Client) Plan(ctx context.Context) (p Plan, err error) {
	err = c.call(ctx, "plan", request{}, &p)
	return p, err
}

// Drain is like [Group.Drain]. It needs an id.
func (c *Client) Drain(ctx context.Context, id string, on bool) error {
	return c.call(ctx, "drain", request{To: id, On: on}, nil)
}

// Move is like [Group.Move].
func (c *Client) Move(ctx context.Context, key, to string) error {
	return c.call(ctx, "move", request{Key: key, To: to}, nil)
}

// Unpin is like [Group.Unpin].
func (c *Client) Unpin(ctx context.Context, key string) error {
	return c.call(ctx, "unpin", request{Key: key}, nil)
}
