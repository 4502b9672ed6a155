package fence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Guard admits the work of leaders to resources, in a server that applies their writes. It refuses a token smaller than
// the greatest that the resource has seen. It admits a greater one after it has raised the mark durably and the work of
// all smaller ones has ended. So work of two tokens never overlaps at a resource, and work of a smaller token never
// follows that of a greater one.
//
// A Guard assumes that it alone admits work to its resources. If several guards share a mark, the mark must be a
// [Sharer].
//
// Its methods are safe for concurrent use. It runs nothing in the background but a timer for each admission that is
// told to end.
type Guard struct {
	mark    Mark
	shared  Sharer  // the mark, if it is one; else nil
	clearer Clearer // likewise
	cfg     GuardConfig
	gates   map[Resource]*gate
}

// GuardConfig configures a guard. The zero value is valid.
type GuardConfig struct {
	// Drain is how long work of smaller tokens may go on after a greater one was shown. Then its context ends with a
	// [StaleError]. 0 ends it at once, a negative Drain never. The greater token waits until that work has called
	// [Pass.End]. A mark that guards share ([Sharer]) should wait longer than Drain for its holders: otherwise, if a
	// smaller token keeps coming, it may never be raised.
	Drain time.Duration

	// Patience is how long a token waits at most for work of smaller ones to end, or for another token to be raised.
	// Then it is refused with [ErrBusy]. 0: as long as its context lasts. A negative one is refused. The time that the
	// mark takes for the token itself does not count.
	Patience time.Duration

	// Era is the greatest era of a token that may raise a mark, unless the mark already has a greater one; a token
	// above it is refused with [ErrToken]. It is the configured era of the election. A guard with a smaller one refuses
	// the leaders of a new era.
	Era uint64

	// MaxStep bounds how far the count of a token may be above that of the mark, or above 0 if the mark has none or is
	// of an earlier era. A token above that is refused with [ErrToken]. 0: 2^40, which elections do not reach: they
	// count terms, except in etcd, where 2^40 revisions are three years of 10,000 writes a second. [MaxCount]: no
	// limit.
	MaxStep uint64

	// Observe is called for each decision, by several goroutines at once. It must not block or call the guard. nil:
	// none.
	Observe func(Decision)

	// Logger gets refusals at level Warn, and marks raised at level Info. nil: silence.
	Logger *slog.Logger
}

// NewGuard returns a guard of the resources, at least one. Requests for others are refused with [ErrResource]. It reads
// the mark when a resource is first used.
func NewGuard(mark Mark, resources []Resource, cfg GuardConfig) (*Guard, error) {
	if len(resources) == 0 {
		return nil, errors.New("fence: a guard of no resources; want at least one")
	}
	if cfg.Patience < 0 {
		return nil, fmt.Errorf("fence: GuardConfig.Patience %v; want 0 for as long as the context lasts, or more", cfg.Patience)
	}
	if cfg.Era > MaxEra {
		return nil, fmt.Errorf("fence: GuardConfig.Era %d; want 0 to %d", cfg.Era, uint64(MaxEra))
	}
	if cfg.MaxStep > MaxCount {
		return nil, fmt.Errorf("fence: GuardConfig.MaxStep %d; want 0 for %d, or up to %d", cfg.MaxStep, uint64(maxStep), uint64(MaxCount))
	}
	if cfg.MaxStep == 0 {
		cfg.MaxStep = maxStep
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Guard{mark: mark, cfg: cfg, gates: map[Resource]*gate{}}
	g.shared, _ = mark.(Sharer)
	g.clearer, _ = mark.(Clearer)
	for _, r := range resources {
		if _, err := ParseResource(string(r)); err != nil {
			return nil, err
		}
		g.gates[r] = &gate{passes: map[*Pass]struct{}{}}
	}
	return g, nil
}

// maxStep is the default of [GuardConfig.MaxStep].
const maxStep = 1 << 40

// gate is a guard's state for one resource. mu guards all of it.
type gate struct {
	mu      sync.Mutex
	highest Token // the mark, as far as known; 0 before it was read
	raised  Token // the greatest that the mark has confirmed: only that is durable, and passes
	cleared Token // the greatest for which a Clearer was called
	raising bool  // a goroutine is raising the mark
	passes  map[*Pass]struct{}
	behind  int           // how many passes have smaller tokens than highest
	changed chan struct{} // closed when any of these changes; nil while no goroutine waits for it
}

func (g *gate) change() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

func (g *gate) wait() <-chan struct{} {
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.changed
}

// observe records a mark that was seen.
func (g *gate) observe(highest Token) {
	if highest > g.highest {
		g.highest = highest
		g.behind = g.below(highest)
	}
}

// below is the number of passes with smaller tokens.
func (g *gate) below(token Token) (n int) {
	for p := range g.passes {
		if p.token < token {
			n++
		}
	}
	return n
}

// Pass is one admission. Its work lasts until the call of [Pass.End].
type Pass struct {
	gate    *gate
	token   Token
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer // ends ctx; guarded by gate.mu
	told    time.Time   // likewise: when timer was set
	release func() error
	once    sync.Once
	err     error
}

// Token is the token that was shown.
func (p *Pass) Token() Token { return p.token }

// Context must end the work. It ends with a [StaleError] as its cause when a greater token has been shown and
// [GuardConfig].Drain is over, and it ends with the context of [Guard.Begin]. It carries the token ([FromContext]). A
// shared mark ([Sharer]) may not be raised to the greater token yet.
func (p *Pass) Context() context.Context { return p.ctx }

// Told returns when a greater token arrived, [GuardConfig].Drain before the end of the context; the zero Time before
// that. Work that began later has less time than Drain.
func (p *Pass) Told() time.Time {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	return p.told
}

// End says that none of the work will touch the resource any more. It may be called more than once. An error means that
// a shared mark was not held all the time.
func (p *Pass) End() error {
	p.once.Do(func() {
		defer p.leave() // even after a release that panics
		if p.release != nil {
			p.err = p.release()
		}
	})
	return p.err
}

func (p *Pass) leave() {
	p.gate.mu.Lock()
	delete(p.gate.passes, p)
	if p.token < p.gate.highest {
		p.gate.behind--
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	p.gate.change()
	p.gate.mu.Unlock()
	p.cancel(context.Canceled)
}

// Do admits work, runs it with the context of its pass, and ends the pass. It returns the refusal, without running the
// work; or the error of the work; or that of the end of the pass.
func (g *Guard) Do(ctx context.Context, resource Resource, token Token, work func(context.Context) error) error {
	p, err := g.Begin(ctx, resource, token)
	if err != nil {
		return err
	}
	defer p.End() // if the work panics
	err = work(p.Context())
	if lost := p.End(); err == nil {
		err = lost
	}
	return err
}

// Claim raises the mark and returns when no work of a smaller token is left. A new leader calls it before it reads
// anything, so that an earlier leader cannot change what it has read. Errors are those of [Guard.Begin]. After one that
// is not a refusal, which also matches [ErrUnknownOutcome], and after [ErrBusy], the leader should claim again.
func (g *Guard) Claim(ctx context.Context, resource Resource, token Token) error {
	err := g.Do(ctx, resource, token, func(context.Context) error { return nil })
	if ResultOf(err) == Failed && !errors.Is(err, ErrUnknownOutcome) {
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	return err
}

// Highest returns the mark of a resource, 0 if it was never claimed.
func (g *Guard) Highest(ctx context.Context, resource Resource) (Token, error) {
	if _, ok := g.gates[resource]; !ok {
		return 0, fmt.Errorf("%w: %.200q is not guarded here", ErrResource, string(resource))
	}
	return g.mark.Highest(ctx, resource)
}

// InFlight is how many passes of a resource have not ended.
func (g *Guard) InFlight(resource Resource) int {
	gate, ok := g.gates[resource]
	if !ok {
		return 0
	}
	gate.mu.Lock()
	defer gate.mu.Unlock()
	return len(gate.passes)
}

// Begin admits work, or refuses it with an error that matches [ErrStale], [ErrMissing], [ErrToken], [ErrResource] or
// [ErrBusy]. Any other error is the mark's, or the cause of the end of ctx; nothing was admitted then either. The
// refusal of another guard in such a cause keeps its text and breaks the chain. Every [Pass] must be ended.
func (g *Guard) Begin(ctx context.Context, resource Resource, token Token) (*Pass, error) {
	return g.begin(ctx, resource, token, true)
}

// BeginClaimed is [Guard.Begin] for requests that may not raise the mark. It refuses a token above the mark with
// [ErrUnclaimed], and the mark stays.
func (g *Guard) BeginClaimed(ctx context.Context, resource Resource, token Token) (*Pass, error) {
	return g.begin(ctx, resource, token, false)
}

func (g *Guard) begin(ctx context.Context, resource Resource, token Token, claims bool) (*Pass, error) {
	gate, ok := g.gates[resource]
	if !ok {
		err := fmt.Errorf("%w: %.200q is not guarded here", ErrResource, string(resource))
		g.tell(resource, token, 0, err)
		return nil, err
	}
	if err := checkToken(resource, token); err != nil { // the name is one of NewGuard's
		gate.mu.Lock()
		highest := gate.highest
		gate.mu.Unlock()
		g.tell(resource, token, highest, err)
		return nil, err
	}
	if highest, err := g.reachable(ctx, gate, resource, token, claims); err != nil {
		g.tell(resource, token, highest, err)
		return nil, err
	}
	p, highest, err := g.admit(ctx, gate, resource, token)
	g.tell(resource, token, highest, err)
	return p, err
}

// reachable refuses a token that is not allowed to raise the mark. It also returns the mark, as far as known. It reads
// the mark if the token is above all that are known. The mark only rises, so a token that is not above it now raises
// nothing later.
func (g *Guard) reachable(ctx context.Context, at *gate, resource Resource, token Token, claims bool) (Token, error) {
	at.mu.Lock()
	highest := max(at.highest, at.raised)
	at.mu.Unlock()
	if token <= highest {
		return highest, nil
	}
	kept, err := g.mark.Highest(ctx, resource)
	if err != nil {
		return highest, own(ctx, err)
	}
	if highest = max(highest, kept); token <= highest {
		return highest, nil
	}
	if !claims {
		return highest, fmt.Errorf("%w: %v shown, the mark of %s is %v; want a claim before the first write", ErrUnclaimed, token, resource, highest)
	}
	era, from := max(g.cfg.Era, highest.Era()), uint64(0)
	if highest.Era() == token.Era() {
		from = highest.Count()
	}
	switch {
	case token.Era() > era:
		err = fmt.Errorf("%w: %v has era %d; want %d at most, or a guard of %s that is configured with that era", ErrToken, token, token.Era(), era, resource)
	case token.Count()-from > g.cfg.MaxStep:
		err = fmt.Errorf("%w: %v is %d above the mark of %s; want a step of %d at most", ErrToken, token, token.Count()-from, resource, g.cfg.MaxStep)
	}
	return highest, err
}

func (g *Guard) admit(ctx context.Context, at *gate, resource Resource, token Token) (*Pass, Token, error) {
	var late <-chan time.Time
	at.mu.Lock()
	for {
		switch {
		case token < at.highest:
			highest := at.highest
			at.mu.Unlock()
			return nil, highest, &StaleError{Shown: token, Highest: highest}
		case token > at.raised && !at.raising:
			if err := g.raise(ctx, at, resource, token); err != nil {
				highest := at.highest
				at.mu.Unlock()
				return nil, highest, err
			}
			continue
		case token == at.raised && at.behind == 0 && !(at.raising && g.shared != nil):
			// Not while a shared mark is being raised: a series of holds would delay that for ever.
			if g.clearer != nil && at.cleared < token {
				at.cleared = token
				at.mu.Unlock()
				g.clearer.Cleared(ctx, resource, token)
				at.mu.Lock()
				continue
			}
			p := g.pass(ctx, at, token)
			at.mu.Unlock()
			highest, err := g.hold(ctx, p, resource)
			if errors.Is(err, errOvertaken) {
				at.mu.Lock()
				continue
			}
			if err != nil {
				return nil, highest, err
			}
			return p, highest, nil
		}
		changed, busy, highest := at.wait(), at.below(token), at.highest
		at.mu.Unlock()
		if g.cfg.Patience > 0 && late == nil {
			timer := time.NewTimer(g.cfg.Patience)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, highest, own(ctx, context.Cause(ctx))
		case <-late:
			return nil, highest, fmt.Errorf("%w: %v waits at %s for the mark, or for %d requests of smaller tokens; ask again", ErrBusy, token, resource, busy)
		}
		at.mu.Lock()
	}
}

// raise raises the mark, and tells the work of smaller tokens to end. at.mu is held at the call and at the return,
// and released in between.
func (g *Guard) raise(ctx context.Context, at *gate, resource Resource, token Token) error {
	at.raising = true
	at.mu.Unlock()
	err := func() (err error) {
		panics := true
		defer func() {
			at.mu.Lock()
			at.raising = false
			at.change()
			if panics { // then no return expects the lock
				at.mu.Unlock()
			}
		}()
		if g.shared != nil {
			err = g.makeRoom(ctx, at, resource, token)
		}
		if err == nil {
			err = g.mark.Raise(ctx, resource, token)
		}
		panics = false
		return own(ctx, err)
	}()
	if stale, ok := errors.AsType[*StaleError](err); ok {
		at.observe(stale.Highest)
		g.drain(at, resource, at.highest)
	}
	if err != nil {
		return err
	}
	at.raised = max(at.raised, token)
	if token > at.highest {
		at.observe(token)
		g.cfg.Logger.Info("the mark is raised", "resource", resource, "token", token, "in_flight", at.behind)
		if g.cfg.Observe != nil {
			g.cfg.Observe(Decision{Resource: resource, Shown: token, Highest: token, Result: Raised})
		}
	}
	g.drain(at, resource, token)
	return nil
}

// makeRoom tells the work of smaller tokens to end before a shared mark is raised, because its holds block that. If
// the mark could not be raised, that work would have ended for nothing. So makeRoom reads the mark first: if that
// does not answer, or is too great, no work ends. Once told, work stays told, whether or not the mark is raised:
// otherwise a token that comes again and again would never see the end of Drain.
func (g *Guard) makeRoom(ctx context.Context, at *gate, resource Resource, token Token) error {
	highest, err := g.shared.Highest(ctx, resource)
	if err != nil {
		return err
	}
	if highest > token {
		return &StaleError{Shown: token, Highest: highest}
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	g.drain(at, resource, token)
	return nil
}

// drain ends the contexts of the passes of smaller tokens, now or later. at.mu is held.
func (g *Guard) drain(at *gate, resource Resource, token Token) {
	if g.cfg.Drain < 0 {
		return
	}
	for p := range at.passes {
		if p.token >= token || p.timer != nil {
			continue
		}
		end := func() {
			if g.cfg.Observe != nil {
				g.cfg.Observe(Decision{Resource: resource, Shown: p.token, Highest: token, Result: Ended})
			}
			p.cancel(&StaleError{Shown: p.token, Highest: token})
		}
		p.told = time.Now()
		if g.cfg.Drain > 0 {
			p.timer = time.AfterFunc(g.cfg.Drain, end)
			continue
		}
		p.timer = time.AfterFunc(0, end) // not here: a function that waits for the context may call the guard
	}
}

func (g *Guard) pass(ctx context.Context, at *gate, token Token) *Pass {
	p := &Pass{gate: at, token: token}
	p.ctx, p.cancel = context.WithCancelCause(NewContext(ctx, token))
	at.passes[p] = struct{}{}
	return p
}

// errOvertaken means that a greater token came while a shared mark was asked to hold. Whether the mark is raised to
// it decides about the smaller one.
var errOvertaken = errors.New("a greater token has come")

// own returns err. If err is the refusal of another guard, own keeps the text and breaks the chain. The work that
// asks for admission may be that of another guard, whose refusal is the cause of the end of its context, and so may
// be what a mark returns. Its tokens may be those of another election.
func own(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || ResultOf(cause) == Failed || !errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %v", ctx.Err(), err)
}

// hold makes a shared mark stay where it is until the pass ends. After an error the pass has ended. It also returns
// the mark, as far as known.
func (g *Guard) hold(ctx context.Context, p *Pass, resource Resource) (Token, error) {
	if g.shared == nil {
		return p.token, nil
	}
	holds := false
	defer func() { // even if the mark panics
		if !holds {
			_ = p.End()
		}
	}()
	release, err := g.shared.Share(p.ctx, resource, p.token)
	if err == nil {
		p.release, holds = release, true
		return p.token, nil
	}
	switch { // the mark's error for the end of a context is no decision on a token
	case ctx.Err() != nil:
		err = own(ctx, context.Cause(ctx))
	case p.ctx.Err() != nil:
		err = errOvertaken
	}
	_ = p.End() // it holds nothing
	highest := p.token
	if stale, ok := errors.AsType[*StaleError](err); ok {
		highest = stale.Highest
		p.gate.mu.Lock()
		p.gate.observe(highest)
		g.drain(p.gate, resource, p.gate.highest)
		p.gate.mu.Unlock()
	}
	return highest, err
}

// tell logs and counts a decision.
func (g *Guard) tell(resource Resource, token, highest Token, err error) {
	DecisionOf(resource, token, highest, err).Report(g.cfg.Logger, g.cfg.Observe, err)
}
