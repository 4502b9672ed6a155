package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/config"
)

// Options are what an Elector needs beside its configuration.
type Options struct {
	Logger   *slog.Logger // nil is silence
	Listener net.Listener // nil: it listens where the configuration says

	// Dial connects to servers and other electors; nil is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Elector is one of the processes. Run runs it, once.
type Elector struct {
	config   atomic.Pointer[Config]
	log      *slog.Logger
	listener net.Listener
	ledger   *ledger
	servers  *dialer
	masterAs [2]string // the user and the password that replicas give to their master
	watchers map[string]*watcher
	others   []*colleague
	secret   string
	clients  *clients

	wake chan struct{} // something has changed
	jobs chan *job     // planned failovers, for the acting elector

	mu     sync.Mutex
	actor  *actor // while this elector acts
	waits  string // why it does nothing
	warned map[string]bool

	switches uint64 // masters that clients were told after another one

	outsiders atomic.Int64 // replicas of the announced master that are not in servers, when it was last seen

	downed  map[string]bool   // of report
	follows map[string]string // of report: the master that a replica was last connected to
	odown   string            // the master that this elector has told to be down for a quorum; guarded by mu
}

// job is a planned failover.
type job struct {
	to   string
	done chan error // gets one value
}

// New makes an elector: it reads the files that the configuration names, locks its state directory and listens.
func New(cfg *Config, o Options) (*Elector, error) {
	e := &Elector{log: o.Logger, listener: o.Listener, wake: make(chan struct{}, 1), jobs: make(chan *job), watchers: map[string]*watcher{}, downed: map[string]bool{}, follows: map[string]string{}, warned: map[string]bool{}}
	e.config.Store(cfg)
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.servers = &dialer{dial: o.Dial, user: cfg.Redis.User}
	toElectors := &dialer{dial: o.Dial, user: cfg.Listen.User}
	var own string
	var err error
	for _, f := range []struct {
		field, path string
		least       int
		to          *string
	}{
		{"secret-file", cfg.Secret, 16, &e.secret},
		{"listen.password-file", cfg.Listen.Password, 1, &toElectors.password},
		{"redis.password-file", cfg.Redis.Password, 1, &e.servers.password},
		{"redis.replica-password-file", cfg.Redis.ReplicaPassword, 1, &own},
	} {
		if *f.to, err = config.ReadSecret(f.field, f.path, f.least); err != nil {
			return nil, err
		}
	}
	e.masterAs = [2]string{cfg.Redis.User, e.servers.password}
	if own != "" {
		e.masterAs = [2]string{cfg.Redis.ReplicaUser, own}
	}
	if cfg.Redis.TLS {
		if e.servers.tls, err = tlsOf(cfg.Redis.CA, cfg.Redis.Cert, cfg.Redis.Key); err != nil {
			return nil, fmt.Errorf("redis: %w", err)
		}
	}
	var secure *tls.Config
	if cfg.Listen.Cert != "" {
		if toElectors.tls, err = tlsOf(cfg.Listen.CA, "", ""); err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
		if secure, err = tlsOf("", cfg.Listen.Cert, cfg.Listen.Key); err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
	}
	if e.ledger, err = openLedger(cfg.State); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	if e.listener == nil {
		if e.listener, err = net.Listen("tcp", cfg.Listen.Address); err != nil {
			return nil, errors.Join(fmt.Errorf("listen.address: %w", err), e.ledger.close())
		}
	}
	if secure != nil {
		e.listener = tls.NewListener(e.listener, secure)
	}
	for _, s := range cfg.servers {
		e.watchers[s.id] = &watcher{server: s, dialer: e.servers, name: "elect-watch-" + cfg.ID, cfg: e.cfg, changed: e.changed}
	}
	for _, entry := range cfg.Electors {
		if entry.ID != cfg.ID {
			e.others = append(e.others, (&colleague{entry: entry, self: cfg.ID, secret: e.secret, dialer: toElectors}).with(func() time.Duration { return e.cfg().patience() }))
		}
	}
	e.clients = newClients(e, toElectors.password)
	return e, nil
}

// cfg is the configuration that is in force.
func (e *Elector) cfg() *Config { return e.config.Load() }

// Reload puts a configuration into force that differs from the present one in down-after, quorum and unfenced only, and
// refuses another one. Others of the fields mean connections, or have to be the same at all servers before a fence is
// counted with them.
func (e *Elector) Reload(cfg *Config) error {
	like := e.cfg().Settings
	like.DownAfter, like.Quorum, like.Unfenced = cfg.DownAfter, cfg.Quorum, cfg.Unfenced
	if !reflect.DeepEqual(like, cfg.Settings) {
		return errors.New("more than down-after, quorum and unfenced has changed; want a restart of this elector")
	}
	e.config.Store(cfg)
	e.changed()
	return nil
}

// changed wakes the acting elector, and tells clients what this elector finds.
func (e *Elector) changed() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Close lets an elector go that is not run.
func (e *Elector) Close() error { return errors.Join(e.listener.Close(), e.ledger.close()) }

// Run serves clients, watches, and stands in an election, until ctx ends or the election ends for good. When it
// returns, all that it has started has ended.
func (e *Elector) Run(ctx context.Context, election *elect.Election) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	start := func(run func(context.Context) error) {
		wg.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	start(e.clients.serve)
	for _, w := range e.watchers {
		start(w.Run)
	}
	start(e.report)
	start(e.unlink)
	err := election.Lead(ctx, e.act)
	cancel(err)
	wg.Wait()
	for _, p := range e.others {
		p.close()
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return errors.Join(err, e.ledger.close())
}

// report tells subscribers which servers this elector finds down, and up again, and which replicas have connected to
// another master.
func (e *Elector) report(ctx context.Context) error {
	var seen outsiders
	for {
		if wait(ctx, e.cfg().poll()); ctx.Err() != nil {
			return context.Cause(ctx)
		}
		master := e.ledger.read().Announced.Master
		e.outsiders.Store(int64(seen.count(e, master)))
		for _, s := range e.cfg().servers {
			sight := e.watchers[s.id].sight()
			down := sight.down(time.Now(), e.cfg().DownAfter) != Up
			if m := e.cfg().server(master); m != nil && !down && sight.Info.Linked && sight.Info.Of == m.at && e.follows[s.id] != master {
				e.follows[s.id] = master
				e.clients.publish("+slave", e.instance(&s, master))
			}
			if down == e.downed[s.id] {
				continue
			}
			e.downed[s.id] = down
			channel := map[bool]string{true: "+sdown", false: "-sdown"}[down]
			e.log.Info(channel, "server", s.id, "master", s.id == master, "error", sight.Err)
			e.clients.publish(channel, e.instance(&s, master))
			if !down && e.wasDown(s.id) {
				e.clients.publish("-odown", e.instance(&s, s.id))
			}
		}
	}
}

// outsiders counts the replicas of the announced master that are not in servers. They count for min-replicas-to-write, and
// nobody takes them away from it.
type outsiders struct {
	of        string    // the master
	at        time.Time // of its INFO
	now, last int       // last is what the last look found
}

// count looks again. One that replaces a replica of servers while that is not seen is not noticed; it needs two INFOs,
// because a master may show a replica before that one shows its link.
func (k *outsiders) count(e *Elector, master string) int {
	if k.of != master {
		*k = outsiders{of: master}
	}
	m := e.watchers[master].sight()
	if now := time.Now(); m.fresh(now, e.cfg().DownAfter) && m.Info.Master && m.InfoAt != k.at {
		k.at = m.InfoAt
		at := e.watchers[master].server.at
		found, unseen := m.Info.Replicas, false
		for id, w := range e.watchers {
			switch s := w.sight(); {
			case id == master:
			case !s.fresh(now, e.cfg().DownAfter):
				unseen = true
				found--
			case s.Info.Of == at && (s.Info.Linked || s.Info.Syncing || m.Info.lists(w.server.at)): // it may wait for its copy
				found--
			}
		}
		found = max(found, 0)
		if next := min(found, k.last); !unseen || next > k.now {
			k.now = next
		}
		k.last = found
	}
	if k.now > 0 {
		e.once("outsiders of "+master, func() {
			e.log.Warn("the master has replicas that are not in servers, and may take writes with them when it cannot be reached, so that time alone does not fence it; want them in servers, or a greater min-replicas-to-write", "master", master, "replicas", k.now)
		})
	}
	return k.now
}

// wasDown reports, once, whether this elector has told that a quorum finds a server down.
func (e *Elector) wasDown(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	told := e.odown == id
	if told {
		e.odown = ""
	}
	return told
}

// instance is how Sentinel's messages name a server.
func (e *Elector) instance(s *server, master string) string {
	a := s.announce
	m := e.cfg().server(master)
	if m == nil || m.id == s.id {
		return fmt.Sprintf("master %s %s %d", e.cfg().Name, a.Host, a.Port)
	}
	return fmt.Sprintf("slave %s:%d %s %d @ %s %s %d", a.Host, a.Port, a.Host, a.Port, e.cfg().Name, m.announce.Host, m.announce.Port)
}

// answer answers another elector.
func (e *Elector) answer(q question) answer {
	a := answer{ID: e.cfg().ID, Down: map[string]Down{}, Late: map[string]bool{}}
	var err error
	switch q.Op {
	case opSee:
		e.ledger.hear(q.Token, q.From)
	case opPromise:
		_, err = e.ledger.promise(q.Token)
	case opAccept, opAnnounce:
		switch {
		case q.Decision == nil:
			err = errors.New("there is no decision; want one")
		case q.Op == opAccept:
			err = e.ledger.accept(*q.Decision)
		default:
			e.ledger.hear(q.Token, q.From)
			err = e.announce(*q.Decision)
		}
	case opFailover:
		err = e.failover(context.Background(), q.To, false)
	default:
		err = fmt.Errorf("%.40q is unknown; want electors of one version", q.Op)
	}
	if err != nil {
		a.Error = err.Error()
	}
	a.Kept, a.Outsiders = e.ledger.read(), int(e.outsiders.Load())
	a.Acting, _ = e.ledger.lately()
	now := time.Now()
	for id, w := range e.watchers {
		s := w.sight()
		if why := s.down(now, e.cfg().DownAfter); why != Up {
			a.Down[id] = why
		}
		if s.late(now, e.cfg().overdue(0)) {
			a.Late[id] = true
		}
	}
	return a
}

// announce keeps a decision for clients, and tells subscribers of another master.
func (e *Elector) announce(d Decision) error {
	before, err := e.ledger.announce(d)
	if err != nil || before.Master == d.Master {
		return err
	}
	from, to := e.cfg().server(before.Master), e.cfg().server(d.Master)
	if to == nil {
		return fmt.Errorf("%s is not in servers; want the same servers at all electors", d.Master)
	}
	e.log.Info("the master is "+d.Master, "before", before.Master, "token", d.Token)
	if from != nil {
		e.mu.Lock()
		e.switches++
		e.mu.Unlock()
		a, b := from.announce, to.announce
		e.clients.publish("+switch-master", fmt.Sprintf("%s %s %d %s %d", e.cfg().Name, a.Host, a.Port, b.Host, b.Port))
	}
	return nil
}

// once does something for the first time with a key.
func (e *Elector) once(key string, do func()) {
	e.mu.Lock()
	again := e.warned[key]
	e.warned[key] = true
	e.mu.Unlock()
	if !again {
		do()
	}
}

// errNotActing is for orders that only the acting elector can carry out.
var errNotActing = errors.New("no elector acts now; want this again when one does")

// failover hands over to a server, or to the best one if to is empty: itself if it acts, or by the acting elector if
// forward is set. It returns when that is done.
func (e *Elector) failover(ctx context.Context, to string, forward bool) error {
	if to != "" && e.cfg().server(to) == nil {
		return fmt.Errorf("%q is not in servers; want one of them", to)
	}
	e.mu.Lock()
	acts := e.actor != nil
	e.mu.Unlock()
	if !acts {
		id, _ := e.ledger.lately()
		for _, p := range e.others {
			if forward && p.entry.ID == id {
				patient := p.with(func() time.Duration { return switchLimit + 5*time.Second })
				defer patient.close()
				_, err := patient.ask(ctx, question{Op: opFailover, To: to})
				return err
			}
		}
		return errNotActing
	}
	j := &job{to, make(chan error, 1)}
	select {
	case e.jobs <- j:
	case <-time.After(e.cfg().DownAfter + time.Second):
		return errors.New("the acting elector is busy with a failover; want this again when that is done")
	}
	return <-j.done
}
