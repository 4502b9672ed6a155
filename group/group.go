package group

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/group/placement"
	"github.com/electd/elect/internal/alive"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
)

// The defaults of [Config].
const (
	defaultName     = "group"
	defaultListen   = "127.0.0.1:0"
	defaultPromise  = 3 * time.Second
	defaultWeight   = 100
	defaultVouchers = 5
	defaultBits     = 16
	closeTime       = 5 * time.Second
)

// env is what a test replaces.
type env struct {
	now  func() protocol.Reading
	dial func(ctx context.Context, addr string) (net.Conn, error)
	gate func() // passes while this process runs
}

func system() env {
	return env{
		now: func() protocol.Reading {
			p := clock.ReadPair()
			return protocol.Reading{Boot: protocol.Instant(p.Boot), Mono: protocol.Instant(p.Mono)}
		},
		dial: func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		},
		gate: func() {},
	}
}

// Group is one member of a group.
type Group struct {
	cfg      Config
	id       string
	process  protocol.Nonce
	election *elect.Election
	settings machine.Settings
	tokens   tokens
	limits   driver.Limits
	shards   []string        // in order
	digest   uint64          // of the shards
	listener net.Listener    // nil if streams carry the connections
	streams  driver.Streamer // of the election; nil: the group has ports of its own
	stop     func()          // takes no streams any more
	reach    reach
	addr     string // where others reach this member; "" if nowhere
	log      *slog.Logger
	env      env

	// Of flights. They belong to the loops of the machines.
	memberRecord, coordinatorRecord *record

	member    *member
	sight     pause // of the coordinator's election
	barred    pause // from standing in it
	acceptor  acceptor
	witnessed witnessed
	dialled   atomic.Uint64
	counted   counted

	ctx    context.Context // ends with the Group
	cancel context.CancelFunc
	gone   chan struct{} // closed when it is not to be used any more
	work   sync.WaitGroup
	own    sync.WaitGroup // what calls the program's Placer or Logger as coordinator, and may hang
	stuck  atomic.Int32   // Placers of earlier terms that hang

	leaving atomic.Bool
	left    chan struct{} // closed when Leave has returned,
	failed  error         // with that

	candidate context.CancelFunc // ends its part in the election
	standing  chan struct{}      // closed when that has ended

	mu          sync.Mutex
	coordinator *coordinator // nil while it is none
	target      target
	unaim       context.CancelFunc

	events events
}

// Join makes this process a member of the group whose coordinator is the leader of election, and lets it stand in that
// election, whose metadata it adds its address to, and which is not NonExclusive. The Group owns the election, unless Join
// returns an error. ctx bounds the call only. Join does not wait for a coordinator.
func Join(ctx context.Context, election *elect.Election, cfg Config) (*Group, error) {
	return join(ctx, election, cfg, system())
}

func join(ctx context.Context, election *elect.Election, cfg Config, env env) (*Group, error) {
	g := &Group{election: election, env: env, gone: make(chan struct{}), left: make(chan struct{}), standing: make(chan struct{})}
	var err error
	var info driver.StreamInfo
	if s, ok := election.Streamer(); ok {
		g.streams, info = s, s.Streams()
		if err := cfg.carried(info); err != nil {
			return nil, err
		}
	}
	if g.cfg, err = cfg.complete(election.Limits()); err != nil {
		return nil, err
	}
	g.id, g.log = g.cfg.ID, g.cfg.Logger
	if g.shards, g.digest, err = cfg.Keys.check(); err != nil {
		return nil, err
	}
	g.settings = machine.Settings{
		Promise: g.cfg.Promise, Cover: g.cfg.Cover, Poll: g.cfg.Poll, Drain: g.cfg.Drain, Drift: protocol.DefaultDrift(),
		Vouchers: g.cfg.Vouchers, Bits: uint(g.cfg.TokenBits),
	}
	g.tokens = tokens{g.settings.Bits}
	g.limits = g.limit(election.Limits())
	var b [16]byte
	_, _ = crand.Read(b[:]) // it never fails
	g.process = protocol.Nonce{binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.memberRecord, g.coordinatorRecord = g.records(unclocked(election))
	joined := false
	defer func() {
		if !joined {
			g.memberRecord.close()
			g.coordinatorRecord.close()
		}
	}()
	if g.member, err = newMember(g); err != nil {
		return nil, err
	}
	g.acceptor.init(g)
	g.witnessed.g = g
	g.sight.init(false)
	g.barred.init(true)
	if err := g.listen(ctx, info); err != nil {
		return nil, err
	}
	if err := g.showAddress(); err != nil {
		g.deaf()
		return nil, err
	}
	joined = true
	stop := make(chan struct{})
	context.AfterFunc(g.ctx, func() { close(stop) })
	g.work.Go(func() { g.member.run(stop) })
	if g.listener != nil {
		g.work.Go(g.accept)
	}
	g.work.Go(g.follow)
	candidate, cancel := context.WithCancel(g.ctx)
	g.candidate = cancel
	g.work.Go(func() {
		defer close(g.standing)
		if !g.cfg.Observer {
			g.stand(candidate)
		}
	})
	return g, nil
}

// listen begins to take connections: by the ports of the election, if it carries streams.
func (g *Group) listen(ctx context.Context, info driver.StreamInfo) (err error) {
	if g.streams != nil {
		g.addr, g.reach = info.Addr, across(g.streams, g.id)
		g.cfg.Observer = g.cfg.Observer || info.Addr == "" // it cannot be reached, and so not stand
		g.stop, err = g.streams.TakeStreams(streamProtocol, g.stream)
		return err
	}
	g.reach = direct(&g.env, g.cfg.TLS)
	if g.listener = g.cfg.Listener; g.listener == nil {
		var lc net.ListenConfig
		if g.listener, err = lc.Listen(ctx, "tcp", g.cfg.Listen); err != nil {
			return fmt.Errorf("group.Config.Listen: %w", err)
		}
	}
	g.addr = cmp.Or(g.cfg.Advertise, g.listener.Addr().String())
	if err := g.cfg.exposed(g.listener.Addr(), g.addr); err != nil {
		g.deaf()
		return err
	}
	return nil
}

// deaf takes no connections any more.
func (g *Group) deaf() {
	if g.listener != nil {
		_ = g.listener.Close()
		return
	}
	g.stop()
}

// complete fills in the defaults, or says what is wrong.
func (c Config) complete(l elect.Limits) (Config, error) {
	c.Name = cmp.Or(c.Name, defaultName)
	if err := driver.CheckName(c.Name); err != nil {
		return c, fmt.Errorf("group.Config.Name: %w", err)
	}
	if c.ID == "" && c.TLS != nil {
		own, err := ownName(c.TLS)
		if err != nil {
			return c, fmt.Errorf("group.Config.TLS: %w", err)
		}
		c.ID = own
	}
	c.ID = cmp.Or(c.ID, elect.DefaultID())
	if err := driver.CheckID(c.ID); err != nil {
		return c, fmt.Errorf("group.Config.ID: %w", err)
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		zero  func() time.Duration
	}{
		{"Promise", &c.Promise, func() time.Duration { return defaultPromise }},
		{"Cover", &c.Cover, func() time.Duration { return c.Promise }},
		{"Poll", &c.Poll, func() time.Duration { return c.Promise / 10 }},
		{"Drain", &c.Drain, func() time.Duration { return c.Promise / 10 }},
	} {
		if *d.value < 0 {
			return c, fmt.Errorf("group.Config.%s is %v; want 0 for the default, or more", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.zero()
		}
	}
	if c.Weight < 0 || c.Weight > placement.MaxWeight {
		return c, fmt.Errorf("group.Config.Weight is %d; want 1 to %d, or 0 for %d", c.Weight, placement.MaxWeight, defaultWeight)
	}
	c.Weight = cmp.Or(c.Weight, defaultWeight)
	if c.TokenBits != 0 && (c.TokenBits < 8 || c.TokenBits > defaultBits) {
		return c, fmt.Errorf("group.Config.TokenBits is %d; want 8 to %d, or 0 for %d", c.TokenBits, defaultBits, defaultBits)
	}
	c.TokenBits = cmp.Or(c.TokenBits, defaultBits)
	if c.Vouchers < 0 {
		return c, fmt.Errorf("group.Config.Vouchers is %d; want 1 or more, or 0 for %d", c.Vouchers, defaultVouchers)
	}
	c.Vouchers = cmp.Or(c.Vouchers, defaultVouchers)
	if !l.Exclusive {
		return c, fmt.Errorf("%w: the coordinator's election cannot prove a leader exclusive; want one with a lease or a lock", elect.ErrUnsupported)
	}
	if len(c.Zone) > driver.MaxName {
		return c, fmt.Errorf("group.Config.Zone has %d bytes; want at most %d", len(c.Zone), driver.MaxName)
	}
	c.Listen = cmp.Or(c.Listen, defaultListen)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// exposed refuses a connection in plain text with other machines.
func (c *Config) exposed(at net.Addr, advertised string) error {
	if c.TLS != nil || c.Insecure {
		return nil
	}
	for _, addr := range []string{at.String(), advertised} {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			if at.Network() != "tcp" {
				continue // a listener of a test, or a socket of this machine
			}
			return fmt.Errorf("the address %q: %w; want host:port", addr, err)
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf("the address %s can be reached from other machines, and everybody who connects could take every key; want group.Config.TLS, or Insecure if the network is trusted", addr)
		}
	}
	return nil
}

// ownName is the member that the own certificate names.
func ownName(t TLS) (string, error) {
	var cert *tls.Certificate
	own := t.Server()
	if own.GetCertificate != nil {
		var err error
		if cert, err = own.GetCertificate(&tls.ClientHelloInfo{}); err != nil {
			return "", err
		}
	}
	if cert == nil && len(own.Certificates) > 0 {
		cert = &own.Certificates[0]
	}
	if cert == nil || cert.Leaf == nil {
		return "", errors.New("there is no certificate that is parsed; want group.Config.ID")
	}
	return named(cert.Leaf)
}

// limit is what named elections promise.
func (g *Group) limit(e elect.Limits) driver.Limits {
	claim := g.settings.Drift.Claim(g.settings.Promise)
	return driver.Limits{
		Lease: claim, MinLease: claim, MaxLease: claim,
		Takeover:  max(e.Takeover, e.Lease) + g.settings.Promise + g.settings.Cover + 2*g.settings.Poll,
		Exclusive: true,
		Abilities: abilities(),
		Assumes:   "the rates of two members' clocks differ by less than 10 %; and the coordinator's election: " + e.Assumes,
	}
}

func abilities() []driver.Ability {
	all := []driver.Ability{driver.AbilityTransfer, driver.AbilityResign, driver.AbilityPriority, driver.AbilityMetadata}
	if alive.Supported {
		all = append(all, driver.AbilityWitness)
	}
	return all
}

func (g *Group) traits() machine.Traits {
	return machine.Traits{Weight: g.cfg.Weight, Zone: g.cfg.Zone}
}

func (g *Group) isShard(k machine.Key) bool {
	_, found := slices.BinarySearchFunc(g.shards, string(k), strings.Compare)
	return found
}

func (g *Group) placer() (placement.Placer, error) {
	if g.cfg.Placement != nil {
		return g.cfg.Placement()
	}
	return placement.New(placement.Settings{})
}

// ID returns the id of this member.
func (g *Group) ID() string { return g.id }

// Name returns the name of the group.
func (g *Group) Name() string { return g.cfg.Name }

// Leave gives up all keys, each when its work has returned, then resigns as coordinator, and closes the Group and its
// election. A later call waits for the first one, and returns what that returned. back is how long the coordinator keeps
// the keys for a member with the same id, which will be back; 0 frees them at once.
//
// Leave returns nil if a coordinator has heard of it, or if the claim of this member had ended before. If ctx ends
// first, it returns the cause, and the keys that are left lapse. Without a coordinator it waits a third of
// [Config].Promise for the next one. If none has heard of it by then, others lead the keys when the promise has run
// out, and the error matches [driver.ErrUnreachable]. If a [Config].Placement, OnEvent or Logger hangs, Leave waits 5 s
// for it at the end, and its error says so.
func (g *Group) Leave(ctx context.Context, back time.Duration) error {
	if g.leaving.CompareAndSwap(false, true) {
		g.failed = g.quit(ctx, back)
		close(g.left)
		return g.failed
	}
	select {
	case <-g.left:
		return g.failed
	case <-ctx.Done():
		return fmt.Errorf("an earlier call of Leave or Close has not returned: %w", context.Cause(ctx))
	}
}

func (g *Group) quit(ctx context.Context, back time.Duration) error {
	m := g.member
	m.mu.Lock()
	t := g.traits()
	t.Draining, t.Back = true, back
	m.traits, m.leaving = &t, true
	m.mu.Unlock()
	m.ring()
	close(g.gone)
	var err error
	select {
	case <-m.left:
	case <-ctx.Done():
		err = fmt.Errorf("not all keys were given up, and lapse: %w", context.Cause(ctx))
	}
	var unheard error
	if err == nil && m.owes {
		unheard = g.goodbye(ctx)
	}
	g.mu.Lock()
	c := g.coordinator
	g.mu.Unlock()
	if c != nil && err == nil {
		c.mu.Lock()
		c.resign = true
		c.mu.Unlock()
		c.ring()
		select {
		case <-c.over:
		case <-ctx.Done():
		}
	}
	g.candidate()
	select {
	case <-g.standing:
	case <-time.After(closeTime):
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.cancel()
		g.acceptor.end()
		g.deaf()
		g.work.Wait()
		g.own.Wait()
		g.events.wait()
		g.witnessed.close()
		g.memberRecord.close()
		g.coordinatorRecord.close()
	}()
	select {
	case <-ended:
	case <-time.After(closeTime):
		err = errors.Join(err, errors.New("what this member does has not returned; want a Placer, OnEvent and Logger that do not block"))
	}
	return errors.Join(err, unheard, g.election.Close())
}

// goodbye waits until a coordinator has heard that all keys were given up. A connection that ends proves nothing: the
// goodbye is said again on the next one.
func (g *Group) goodbye(ctx context.Context) error {
	wait := time.NewTimer(g.settings.Promise / 3)
	defer wait.Stop()
	why := fmt.Errorf("there was none for %v", g.settings.Promise/3)
	select {
	case <-g.member.heard:
		return nil
	case <-wait.C:
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	return fmt.Errorf("%w: all keys were given up, and no coordinator has heard it: %w; others lead them when the promise to this member has run out, within %v, or after the cover of a new coordinator, %v",
		driver.ErrUnreachable, why, g.settings.Promise, g.settings.Cover)
}

// Close is Leave within 5 s, by a member that will not be back.
func (g *Group) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return g.Leave(ctx, 0)
}

// Status asks the coordinator how the group is.
func (g *Group) Status(ctx context.Context) (Status, error) {
	var s Status
	err := g.member.call(ctx, "status", request{}, &s)
	return s, err
}

// Watch yields the status, and again when it has changed, ten times a second at most. The end of ctx yields its cause,
// once and last.
func (g *Group) Watch(ctx context.Context) iter.Seq2[Status, error] {
	return watchStatus(ctx, g.member.call)
}

func watchStatus(ctx context.Context, call func(ctx context.Context, method string, in, out any) error) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		var last Status
		for {
			var s Status
			q := request{After: last.Version}
			err := call(ctx, "status", q, &s)
			switch {
			case ctx.Err() != nil:
				yield(Status{}, context.Cause(ctx))
				return
			case errors.Is(err, elect.ErrClosed):
				yield(Status{}, err)
				return
			case err != nil:
				last.Version = 0 // another coordinator counts from 1
			default:
				if last = s; !yield(s, nil) {
					return
				}
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

// Keys asks the coordinator for all keys that it knows, in no order, by several requests. A key that is known all the
// while is listed once.
func (g *Group) Keys(ctx context.Context) ([]KeyStatus, error) {
	return allKeys(ctx, "", g.member.call)
}

// Lookup asks the coordinator who holds a key. If nobody does the error is [elect.ErrNoLeader].
func (g *Group) Lookup(ctx context.Context, key string) (elect.Leader, error) {
	var l elect.Leader
	err := g.member.call(ctx, "lookup", request{Key: key}, &l)
	return l, err
}

// Drain empties the member with that id, or lets it have keys again if on is false. "" is this member. It returns when
// that member has been told.
func (g *Group) Drain(ctx context.Context, id string, on bool) error {
	return g.member.call(ctx, "drain", request{To: cmp.Or(id, g.id), On: on}, nil)
}

// Plan asks the coordinator which keys it would move, and why, and which it can give to nobody. It moves nothing. It
// fails if [Config].Placement makes a Placer without a method Explain like that of [placement.Planner].
func (g *Group) Plan(ctx context.Context) (Plan, error) {
	var p Plan
	err := g.member.call(ctx, "plan", request{}, &p)
	return p, err
}

// Move moves a key that is held to the member with the id to. It returns when the holder has been asked to give the key
// up. A move that is not possible is [elect.ErrIneligible]. The key is pinned: placement leaves it with that member until
// that gives it up, dies, is drained or loses its claim, the key is moved elsewhere, or [Group.Unpin]. If to is "" the
// coordinator chooses another member of the greatest priority, and the key is not pinned.
func (g *Group) Move(ctx context.Context, key, to string) error {
	return g.member.call(ctx, "move", request{Key: key, To: to}, nil)
}

// Unpin lets placement move a key again that is pinned: see [Group.Move]. It returns when the holder has been
// told. It is an error if the key is not pinned.
func (g *Group) Unpin(ctx context.Context, key string) error {
	return g.member.call(ctx, "unpin", request{Key: key}, nil)
}

// Plan is what the coordinator would do next.
type Plan struct {
	placement.Outlook
	Omitted int `json:"omitted,omitempty"` // how many more there are: each list has its first 10,000
}

// Status is the state of a group as its coordinator sees it.
type Status struct {
	Group       string      `json:"group"`
	Coordinator string      `json:"coordinator"`        // the id of that member
	Token       elect.Token `json:"token"`              // of its term
	Covering    bool        `json:"covering,omitempty"` // it waits for members of an earlier coordinator before it hands out free keys
	Members     []Member    `json:"members"`
	Keys        int         `json:"keys"`    // that it knows
	Held        int         `json:"held"`    // how many of these a member holds
	Moving      int         `json:"moving"`  // how many of these are on their way to another member
	Moves       uint64      `json:"moves"`   // that the coordinator has begun since it joined the group
	Version     uint64      `json:"version"` // rises with each change, under one Token
}

// Member is a member as the coordinator sees it.
type Member struct {
	ID       string `json:"id"`
	Address  string `json:"address,omitempty"` // where its connection comes from
	Attached bool   `json:"attached"`
	Admitted bool   `json:"admitted"` // it can get keys
	Draining bool   `json:"draining,omitempty"`
	Weight   int    `json:"weight"`
	Zone     string `json:"zone,omitempty"`
	Keys     int    `json:"keys"` // that it holds
}

// KeyStatus is a key as the coordinator sees it.
type KeyStatus struct {
	Key     string      `json:"key"`
	Holder  string      `json:"holder,omitempty"` // a member
	Token   elect.Token `json:"token,omitempty"`
	Next    string      `json:"next,omitempty"`    // the member that it is on its way to
	Pinned  bool        `json:"pinned,omitempty"`  // it stays with Next, or else with Holder: see [Group.Move]
	Overrun bool        `json:"overrun,omitempty"` // work of an earlier holder still runs
}
