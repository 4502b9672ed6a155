package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/group/internal/link"
	"github.com/electd/elect/group/internal/wire"
	machine "github.com/electd/elect/internal/protocol/group"
)

// metadataKey is where the candidacy for coordinator shows the address of the listener, the process and the cover, and
// how long this member would have to cover, if that is longer.
const metadataKey = "group"

const (
	firstPause = 5 * time.Millisecond // between two attempts to connect, doubling
	lastPause  = 500 * time.Millisecond
)

// silence is how many promises a member waits for a word of its coordinator before it connects anew: it may be that only
// the connection is dead, and was cut without a word.
const silence = 2

// target is a coordinator to connect with.
type target struct {
	token   elect.Token
	id      string
	addr    string
	process string
	cover   time.Duration // 0: it does not say
	wait    time.Duration // what it had to cover, if that is longer
}

// showAddress has this member's candidacy show where it is, beside what the program shows.
func (g *Group) showAddress() error {
	m := g.election.Metadata()
	if m == nil {
		m = map[string]string{}
	}
	m[metadataKey] = g.addr + " " + g.process.String() + " " + g.settings.Cover.String()
	if d := time.Duration(g.member.cover.Load()); d > g.settings.Cover {
		m[metadataKey] += " " + d.String()
	}
	return g.election.SetMetadata(m)
}

// pause is whether something in the coordinator's election has to rest: the observation of it while the coordinator has
// answered lately, and the candidacy of this member while it is not to stand.
type pause struct {
	mu    sync.Mutex
	rests bool
	end   context.CancelFunc // ends what is under way
	again chan struct{}      // has a value when it is to begin again; has room for one
}

func (p *pause) init(rests bool) {
	p.rests, p.end, p.again = rests, func() {}, make(chan struct{}, 1)
}

// note takes in whether it has to rest.
func (p *pause) note(rests bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if rests == p.rests {
		return
	}
	if p.rests = rests; rests {
		p.end()
		return
	}
	ring(p.again)
}

// begin returns the context of what is paused, which has ended already if that has to rest.
func (p *pause) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, p.end = context.WithCancel(ctx)
	if p.rests {
		p.end()
	}
	return ctx, p.end
}

// follow learns who leads the election, and stays connected with it. An election without a clock is observed only while
// no coordinator answers: an answer proves that its sender has led since the poll, so there was no later one, and
// observers of such elections poll.
func (g *Group) follow() {
	begin := g.sight.begin
	if !unclocked(g.election) {
		begin = context.WithCancel
	}
	var r retries
	for {
		ctx, rest := begin(g.ctx)
		err := g.look(ctx, &r)
		rested := ctx.Err() != nil
		rest()
		switch {
		case g.ctx.Err() != nil:
			return
		case rested:
			select {
			case <-g.sight.again:
			case <-g.ctx.Done():
				return
			}
			continue
		}
		g.member.calls.unseen(err)
		g.member.unseen()
		if g.acceptor.news(err.Error()) {
			g.log.Error("the coordinator's election cannot be observed", "error", err)
		}
		if errors.Is(err, elect.ErrClosed) || !r.wait(g.ctx) {
			return
		}
	}
}

// look aims at the leaders of the election until ctx has ended, or the election cannot be observed.
func (g *Group) look(ctx context.Context, r *retries) error {
	for s, err := range g.election.Watch(ctx) {
		if err != nil {
			return err
		}
		if s.Stale && s.Cause != nil {
			g.member.calls.unseen(s.Cause)
			if g.acceptor.news(s.Cause.Error()) {
				g.log.Warn("the coordinator's election cannot be observed now", "error", s.Cause)
			}
		}
		if s.Stale {
			g.member.unseen()
			continue // the coordinator that is known may go on
		}
		r.pause = 0
		g.member.calls.unseen(nil)
		if s.Leader == nil {
			g.member.led(target{})
			continue
		}
		t, err := targetOf(s.Leader)
		g.member.led(t)
		if err != nil {
			g.member.calls.without(fmt.Errorf("%w: %w", driver.ErrUnreachable, err), true)
			if g.acceptor.news(err.Error()) {
				g.log.Warn(err.Error())
			}
			continue
		}
		g.aim(t)
	}
	return elect.ErrClosed
}

// targetOf is where the leader of the coordinator's election is.
func targetOf(l *elect.Leader) (target, error) {
	t := target{token: l.Token, id: l.ID}
	place := strings.Fields(l.Metadata[metadataKey])
	if len(place) < 2 {
		return t, fmt.Errorf("the leader of the coordinator's election, %s, shows no address of a group; want an election of its own for each group", l.ID)
	}
	t.addr, t.process = place[0], place[1]
	for i, to := range []*time.Duration{&t.cover, &t.wait} { // version 1 of the protocol shows neither
		if len(place) > 2+i {
			*to, _ = time.ParseDuration(place[2+i])
		}
	}
	return t, nil
}

// aim has this member connect with a coordinator, unless it knows a later one.
func (g *Group) aim(t target) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.token <= g.target.token || g.ctx.Err() != nil {
		return
	}
	g.target = t
	g.acceptor.wake()
	g.witnessed.knows(func(e *remains) {
		e.Coordinator = spot{t.id, t.addr}
		if t.process == g.process.String() {
			e.Coordinator = spot{}
		}
	})
	if g.unaim != nil {
		g.unaim()
	}
	var ctx context.Context
	ctx, g.unaim = context.WithCancel(g.ctx)
	g.member.calls.without(nil, false)
	g.work.Go(func() {
		attach(ctx, t, &g.member.calls, func() error { return g.connect(ctx, t) }, func(why error, refused bool) { g.apart(t, why, refused) })
	})
}

// attach connects with a coordinator again and again, until ctx has ended. Calls learn why there is no connection, and so
// does ended.
func attach(ctx context.Context, t target, calls *calls, connect func() error, ended func(why error, refused bool)) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		began := time.Now()
		err := connect()
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		_, refused := errors.AsType[*refusedError](err)
		if refused {
			pause = lastPause
		}
		ended(err, refused)
		calls.without(fmt.Errorf("%w: the coordinator, %s at %s: %w", driver.ErrUnreachable, t.id, t.addr, err), refused)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// apart says why this member has no connection with a coordinator.
func (g *Group) apart(t target, why error, refused bool) {
	switch {
	case refused:
		if g.acceptor.news(fmt.Sprintf("%v of %s: %v", t.token, t.id, why)) { // each coordinator is news
			g.log.Error("the coordinator refuses this member", "coordinator", t.id, "error", why)
			g.event(Event{Kind: EventRefused, Member: t.id, Err: why})
		}
	case !errors.Is(why, io.EOF) && g.acceptor.news("no connection with "+t.id): // the texts of some errors differ each time
		g.log.Warn("there is no connection with the coordinator", "coordinator", t.id, "address", t.addr, "error", why)
	default:
		g.log.Debug("the connection with the coordinator has ended", "coordinator", t.id, "error", why)
	}
}

// refusedError is why a coordinator does not take this member.
type refusedError struct {
	text   string
	misfit bool // what it does not take is the settings
}

func (e *refusedError) Error() string { return e.text }

// connect connects once, and serves the connection until it ends.
func (g *Group) connect(ctx context.Context, t target) error {
	n := machine.Conn(g.dialled.Add(1))
	if t.process == g.process.String() { // within this process
		near, far := link.Pair()
		g.work.Go(func() {
			g.acceptor.serve(far, nil, &connection{member: g.id, name: g.id, addr: "the coordinator itself", shards: len(g.shards) > 0, place: g.hello().Addr})
		})
		return g.run(ctx, t, n, near, nil)
	}
	nc, r, err := dial(ctx, g.reach, g.hello(), t)
	if err != nil {
		if r, ok := errors.AsType[*refusedError](err); ok && r.misfit {
			g.member.refused(t)
		}
		return err
	}
	l := link.New(nc, g.settings.Promise)
	l.Expect(silence * g.settings.Promise) // a coordinator answers polls
	return g.run(ctx, t, n, l, r)
}

// run serves a connection with a coordinator.
func (g *Group) run(ctx context.Context, t target, n machine.Conn, l *link.Conn, r *wire.Reader) error {
	stop := context.AfterFunc(ctx, func() { l.Close(link.ErrClosed) })
	defer stop()
	from, refused := &connection{conn: n, link: l, name: t.id, backlog: newBacklog()}, error(nil)
	err := l.Run(r, func(p wire.Packet) {
		if !from.backlog.add(&p, l.Done(), nil) {
			return
		}
		if p.Message != nil && p.Message.Type == machine.Refuse {
			refused = &refusedError{p.Message.Text, p.Message.Misfit}
		}
		g.member.put(arrival{from: from, packet: p})
	})
	g.member.put(arrival{from: from, closed: true})
	return cmp.Or(refused, err)
}

// refused says what the coordinator does not take from this member.
func (g *Group) refused(err error) {
	g.log.Error("the coordinator refuses what this member sends", "error", err)
	g.event(Event{Kind: EventRefused, Err: err})
}

// dial connects with a coordinator over the network.
func dial(ctx context.Context, reach reach, hello *wire.Hello, t target) (nc net.Conn, r *wire.Reader, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, greeting, fmt.Errorf("no answer within %v", greeting))
	defer cancel()
	if nc, err = reach(ctx, t.id, t.addr); err != nil {
		return nil, nil, err
	}
	open := nc
	stop := context.AfterFunc(ctx, func() { _ = open.Close() })
	defer func() {
		if !stop() && (err == nil || errors.Is(err, net.ErrClosed)) { // ctx has ended, and closed it
			err = context.Cause(ctx)
		}
		if err != nil {
			_ = open.Close()
		}
	}()
	if err := wire.Write(nc, &wire.Packet{Hello: hello}); err != nil {
		return nil, nil, err
	}
	r = wire.NewReader(nc)
	p, err := r.Next()
	switch {
	case err != nil:
		return nil, nil, err
	case p.Welcome == nil:
		return nil, nil, fmt.Errorf("%s answers with something else than a welcome; want the listener of a group", t.addr)
	case p.Welcome.Version != wire.Version:
		return nil, nil, &refusedError{fmt.Sprintf("%s speaks version %d of the protocol of groups, and this process version %d; want the same at all", t.id, p.Welcome.Version, wire.Version), true}
	case t.process != "" && p.Welcome.Process != t.process: // it may be of another group of this name, whose coordinator has another election
		return nil, nil, fmt.Errorf("at %s is not the coordinator %s, but another process, of %s; want the one that the election shows", t.addr, t.id, p.Welcome.ID)
	case p.Welcome.Refused != "":
		return nil, nil, &refusedError{p.Welcome.Refused, p.Welcome.Misfit}
	}
	r.Open()
	return nc, r, nil
}

// stand leads the election again and again while this member's machine says that it may, and coordinates while it does.
// What the election calls permanent is tried again, too: an operator may mend it, and a group without candidates loses
// all its keys.
func (g *Group) stand(ctx context.Context) {
	var r retries
	for ctx.Err() == nil {
		var last served
		once, cancel := g.barred.begin(ctx)
		if once.Err() != nil {
			select {
			case <-g.barred.again:
			case <-ctx.Done():
			}
			continue
		}
		err := g.election.Lead(once, func(ctx context.Context, term *elect.Term) error {
			if last = g.coordinate(ctx, term); last != (served{}) {
				cancel() // Lead would stand again at once
			}
			if last.err == nil {
				r.pause = 0
			}
			return last.err
		})
		barred := once.Err() != nil && last == (served{})
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case barred:
			g.log.Debug("this member does not stand as coordinator until a coordinator takes it, or nobody has been one for long")
		case last.hangs != nil:
			select {
			case <-last.hangs:
			case <-ctx.Done():
			}
		case last.aside > 0:
			g.log.Warn("this member stands aside as coordinator", "for", last.aside)
			select {
			case <-time.After(last.aside):
			case <-ctx.Done():
			}
		default:
			if last.err != nil {
				err = fmt.Errorf("this member cannot coordinate: %w", last.err)
			}
			g.member.calls.without(err, false)
			if g.acceptor.news(err.Error()) {
				g.log.Error("this member does not stand as coordinator now", "error", err)
			}
			if errors.Is(err, elect.ErrClosed) || !r.wait(ctx) {
				return
			}
		}
	}
}

// retries are of what has failed for a reason that does not end by itself.
type retries struct{ pause time.Duration }

const (
	firstRetry = time.Second // doubling
	lastRetry  = time.Minute
)

// wait waits before the next one. It reports false if ctx has ended.
func (r *retries) wait(ctx context.Context) bool {
	r.pause = min(max(2*r.pause, firstRetry), lastRetry)
	select {
	case <-time.After(r.pause):
		return true
	case <-ctx.Done():
		return false
	}
}
