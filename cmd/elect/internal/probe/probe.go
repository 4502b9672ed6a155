package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/clock"
)

const (
	// pause is the interval between two calls of Check near the begin and the end of a lease, for a probe that was not
	// told to watch.
	pause = time.Millisecond

	// afterlife is how long a watching probe goes on to check after its term has ended: an ended term must not revive.
	afterlife = 50 * time.Millisecond
)

// Config configures a probe. Election, Guard, In and Out are required.
type Config struct {
	Election *elect.Election
	In       io.Reader // orders; the probe ends with them
	Out      io.Writer // reports
	Observe  bool      // only observe: an observer does not campaign

	// Tokens is set if the election is not exclusive: work starts at the victory, and the lease is proven later.
	Tokens bool

	Guard *Guard // that of the Election's Config
}

// Guard remembers the mandate of the term, and passes it on to a guardian if there is one.
type Guard struct {
	elect.Guardian // may be nil
	mandate        driver.Mandate
}

// Lead implements elect.Guardian.
func (g *Guard) Lead(m driver.Guarded) (done func(), err error) {
	g.mandate = m.Mandate
	if g.Guardian == nil {
		return func() {}, nil
	}
	return g.Guardian.Lead(m)
}

// InTime implements elect.Guardian.
func (g *Guard) InTime() bool { return g.Guardian != nil && g.Guardian.InTime() }

var errInputEnded = errors.New("the input has ended")

// probe is one Run.
type probe struct {
	cfg    Config
	orders *orders
	end    context.CancelCauseFunc

	mu  sync.Mutex // guards the output
	out io.Writer
}

// Run stands until its input ends or ctx does. The library repeats campaigns after temporary errors; Run returns
// permanent ones.
func Run(ctx context.Context, cfg Config) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	p := &probe{cfg: cfg, orders: newOrders(), end: end, out: cfg.Out}
	go func() { // it ends with the process at the latest: a read of a pipe cannot be cancelled
		p.orders.read(cfg.In)
		end(errInputEnded)
	}()
	p.say(Report{Event: Standing, At: clock.Now()})
	var err error
	if cfg.Observe {
		err = p.observe(ctx)
	} else {
		err = cfg.Election.Lead(ctx, p.work)
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		err = cause
	}
	if errors.Is(err, errInputEnded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (p *probe) observe(ctx context.Context) error {
	for _, err := range p.cfg.Election.Watch(ctx) {
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// say writes a report in one call, so that a kill does not truncate it.
func (p *probe) say(r Report) {
	r.PID = os.Getpid()
	line, err := json.Marshal(r)
	if err == nil {
		p.mu.Lock()
		_, err = p.out.Write(append(line, '\n'))
		p.mu.Unlock()
	}
	if err != nil {
		p.end(fmt.Errorf("a report was not written: %w", err))
	}
}

// work is the work of one term. It calls the mandate's own Check, which returns nil for longer than that of the term:
// the term ends a drain earlier.
func (p *probe) work(ctx context.Context, term *elect.Term) error {
	at := clock.Now()
	m := p.cfg.Guard.mandate
	token := term.Token()
	if p.cfg.Tokens {
		p.say(Report{Event: Elected, At: at, Token: token})
	}
	p.orders.begin() // orders from before this term are not for it
	s := stretch{tell: func(r Report) {
		r.Token = token
		p.say(r)
	}}
	var resigned bool
	var over <-chan time.Time // the end of the afterlife
	for {
		before := clock.Now()
		err := m.Check()
		s.saw(before, clock.Now(), err)
		if ctx.Err() != nil && (resigned || asked(ctx)) {
			break // the lease may last a while longer, but the work has to end
		}
		ended := err != nil && (ctx.Err() != nil || !errors.Is(err, driver.ErrNotExclusive))
		if ended && over == nil {
			if !p.orders.watching() {
				break
			}
			over = time.After(afterlife)
		}
		if p.orders.watching() {
			select {
			case <-p.orders.answer:
				p.say(Report{Event: Watching, At: clock.Now(), Token: token})
			case <-over:
				s.end(clock.Now())
				return context.Cause(ctx)
			case <-p.orders.resign:
				resigned = true
				term.Resign()
			default:
			}
			continue
		}
		// While the lease is proven there are no checks: the probe must cost no more than a program that works. It checks
		// repeatedly until the first proof, and again from the end of the term on, which comes before that of the lease.
		var again <-chan time.Time
		told := ctx.Done()
		if ctx.Err() != nil || err != nil {
			again, told = time.After(pause), nil
		}
		select {
		case <-p.orders.resign:
			resigned = true
			term.Resign()
		case <-p.orders.changed:
		case <-told:
		case <-again:
		}
	}
	s.end(clock.Now())
	return context.Cause(ctx)
}

// asked reports whether the end of the work was requested, and so is no loss.
func asked(ctx context.Context) bool {
	lost, ok := errors.AsType[*elect.LostError](context.Cause(ctx))
	return !ok || lost.Reason == elect.ReasonResigned || lost.Reason == elect.ReasonShutdown
}

// orders are the orders that the probe has received.
type orders struct {
	resign  chan struct{} // one is kept
	answer  chan struct{} // a Watch without an answer yet
	changed chan struct{} // one is kept

	mu    sync.Mutex
	watch bool
}

func newOrders() *orders {
	return &orders{resign: make(chan struct{}, 1), answer: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

func (o *orders) read(r io.Reader) {
	put := func(ch chan struct{}) {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		switch lines.Text() {
		case Watch, Rest:
			o.mu.Lock()
			o.watch = lines.Text() == Watch
			o.mu.Unlock()
			if lines.Text() == Watch {
				put(o.answer)
			}
			put(o.changed)
		case Resign:
			put(o.resign)
		}
	}
}

func (o *orders) watching() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.watch
}

// begin drops a resignation that came too late for the term before.
func (o *orders) begin() {
	select {
	case <-o.resign:
	default:
	}
}

// stretch is a period in which every Check returned nil.
type stretch struct {
	tell     func(Report)
	active   bool // reported in this term
	open     bool
	from, to clock.Boot
	checks   int
	why      string
}

// saw records the result of a Check between two readings of the clock.
func (s *stretch) saw(before, after clock.Boot, err error) {
	if err != nil {
		if s.open {
			s.tell(Report{Event: Believed, At: after, From: s.from, To: s.to, Checks: s.checks, Why: err.Error()})
			s.open = false
		}
		s.why = err.Error()
		return
	}
	if !s.open {
		*s = stretch{tell: s.tell, active: s.active, open: true, from: after, to: before}
	}
	s.to = before
	s.checks++
	if !s.active {
		s.active = true
		s.tell(Report{Event: Active, At: after})
	}
}

// end reports that the work returns, and the last stretch.
func (s *stretch) end(at clock.Boot) {
	s.tell(Report{Event: Ended, At: at, From: s.from, To: s.to, Checks: s.checks, Why: s.why})
}
