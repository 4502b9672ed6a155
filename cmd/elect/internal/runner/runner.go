// Package runner implements elect run: it stands in an election, and runs one command while, and only while, it
// leads.
//
// Run is called once in a process: signals, the terminal and the adoption of orphans belong to the process. It
// prepares everything before it stands, so that the command starts at once after the victory.
//
// Even after an error the command's whole family is dead before leadership is released. Errors carry the exit code
// (package exit).
package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/cmd/elect/internal/lines"
	"github.com/electd/elect/cmd/elect/internal/sdnotify"
	"github.com/electd/elect/cmd/elect/internal/watchdog"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/place"
	"github.com/electd/elect/internal/runtime"
)

// NoLimit as Config.Wait means no limit.
const NoLimit time.Duration = -1

// Config configures Run. All fields are required, except Once, Health, Watchdog, WaitReady, Prepare, Contained, Allow,
// Limits, Addresses, Verbose, Grace, Stdin, Drain, Hooks, Gate, Device, Stonith, State, Transfer, Tenure, Env and HTTP.
type Config struct {
	Openers elect.Openers
	URL     string // of the election
	Shown   string // the URL for the command: without its password
	Name    string
	ID      string

	Path string   // of the command, as found; empty if there is none, and something is to lead all the same
	Args []string // the command's name first

	Restart Restart
	Once    bool          // one campaign, one run
	Wait    time.Duration // the greatest time to stand by; 0 tries once; NoLimit
	Grace   time.Duration // between SIGTERM and SIGKILL
	Health  elect.Health  // of this candidate

	// Watchdog is the longest time between two WATCHDOG=1 of the command; 0 is no limit. WaitReady is the longest time
	// until its READY=1, before which it is not active; with 0 it is active from the start.
	Watchdog, WaitReady time.Duration

	// Prepare runs while this candidate stands by, until its context ends, and again if it fails. It may be nil.
	Prepare func(context.Context) error

	// Contained is called with the containment of the command before anything of Config runs. It may be nil.
	Contained func(*supervise.Containment)

	Contain supervise.Level
	Guard   Guard
	Allow   []netip.AddrPort // where the network guard lets packets pass; port 0 is any
	Limits  []string         // of the command's family: NAME=VALUE
	// Addresses are held from before the command starts until the term ends.
	Addresses []supervise.Address

	Verbose bool // log everything
	JSON    bool // lines on stderr are objects
	Time    bool // or, for people, begin with the time

	// Stdin is that of the command; nil is the null device.
	Stdin *os.File

	// Drain is elect.Config.Drain.
	Drain time.Duration

	// Hooks run at the steps of a term. State is the directory in which it is kept that one was activated, so that it
	// is demoted after a crash, and who led before; it is needed with Hooks.
	Hooks Hooks
	Gate  Hook // is Health.Check, if it has a Run

	// Device guards a term from before Hooks.Activate until Hooks.Demote has succeeded; it may be nil.
	Device *watchdog.Watchdog

	// Stonith runs before Hooks.Fence. It needs State, too, and may be nil.
	Stonith *Stonith
	State   *place.Dir

	// Transfer is when this candidate hands over, if it leads and its term has lasted for Tenure; it may be nil.
	Transfer *Schedule
	Tenure   time.Duration

	// Env are further variables of the command and the hooks, as KEY=value.
	Env []string

	// HTTP serves until Run returns, and may be nil. Run closes its listener.
	HTTP *HTTP

	// Introduce returns the first line, once the election is open; it may be nil, and may return nothing.
	Introduce func() string

	// NonExclusive starts the command before leadership is proven exclusive; see
	// elect.Config.NonExclusive.
	NonExclusive bool
}

// Guard says what of the command is guarded after the end of its lease, beside its life.
type Guard string

// What ParseGuard reads.
const (
	Unguarded       Guard = ""
	Network         Guard = "network"
	NetworkOptional Guard = "network,optional" // where it is possible
)

// ParseGuard reads a Guard.
func ParseGuard(s string) (Guard, error) {
	if g := Guard(s); g == Unguarded || g == Network || g == NetworkOptional {
		return g, nil
	}
	return "", fmt.Errorf("guard %q is unknown; want network, or network,optional", s)
}

// ParseAllow reads an address, or an address and a port, for Config.Allow.
func ParseAllow(s string) (netip.AddrPort, error) {
	host := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		host = s[1 : len(s)-1]
	}
	addr, err := netip.ParseAddr(host)
	to := netip.AddrPortFrom(addr, 0)
	if err != nil {
		if to, err = netip.ParseAddrPort(s); err == nil && to.Port() == 0 {
			err = errors.New("port 0")
		}
	}
	if err != nil || to.Addr().Zone() != "" || to.Addr().IsUnspecified() {
		return to, fmt.Errorf("the network guard cannot let pass what goes to %q; want an address, or an address and a port: 10.0.0.9, 10.0.0.9:514, 2001:db8::9 or [2001:db8::9]:514", s)
	}
	return netip.AddrPortFrom(to.Addr().Unmap(), to.Port()), nil
}

// The causes that end one Lead.
var (
	errTermOver = errors.New("the term is over")
	errStopped  = errors.New("told to end")
	errWaitOver = errors.New("the wait is over")
)

// Time limits of one term.
const (
	// suddenGrace is the time between SIGTERM and SIGKILL if leadership is already lost: another may lead soon, see
	// file.HoldOff.
	suddenGrace = 50 * time.Millisecond

	startTimeout = 30 * time.Second
)

// run is the state of one Run.
type run struct {
	cfg      Config
	say      *lines.Writer
	election *elect.Election
	env      []string // of the command, without the token
	terminal *os.File // stdin, if it is this process's controlling terminal
	contain  *supervise.Containment
	manager  manager
	handler  *electhttp.Handler // nil without HTTP and without a service manager's watchdog
	steps    steps

	life context.Context // ends at a signal that asks for it
	end  context.CancelCauseFunc

	backoff backoff
	ill     bool        // owned by event
	aside   atomic.Bool // it is ill, or rests, and does not stand
	overran elect.Token // the last token of an overrun; owned by event

	mu      sync.Mutex
	cancel  context.CancelCauseFunc  // of the current Lead
	keep    func(*supervise.Command) // puts a command under the mandate of the term
	mandate driver.Guarded           // of the term
	token   elect.Token              // of the term, while its work runs; 0 between
	since   time.Time                // when that began
	family  *supervise.Family        // nil while none runs
	kept    *supervise.Family        // of the term; nil before it was started
	starts  bool                     // the command is being started
	early   []syscall.Signal         // signals that came in meanwhile, to be passed on
	why     syscall.Signal           // the signal that asked this process to end; 0 if none
	asked   time.Time                // when it came
	twice   bool                     // another signal asked to end at once
	standby *standby                 // nil while not standing by
	spare   *supervise.Spare         // a keeper started in advance, or nil
	trouble error                    // of the last campaign, if it failed
	outcome *outcome                 // of the last term; nil if no command was started

	resumed chan struct{}   // closed by stillFor; nil unless it was told to stand aside
	still   electhttp.Aside // why it was

	prepareDone <-chan struct{} // closed when Prepare has ended; nil before it began
}

// outcome is how a term ended.
type outcome struct {
	exit        supervise.Exit
	ran         time.Duration
	loss        *elect.LostError // leadership ended first
	late        time.Duration    // how long some of the family was alive after the lease
	err         error            // the command could not be started
	interrupted bool             // the person at the terminal ended the command
}

// code is the exit code of elect run, if it ends with that term.
func (o *outcome) code() int {
	if o.late > 0 {
		return exit.Overrun
	}
	return o.exit.ExitCode()
}

// Run stands and runs the command until nothing is left to do. It returns nil or an error with the exit code. With
// Config.JSON it has written the error itself.
func Run(ctx context.Context, cfg Config) (err error) {
	r := newRun(ctx, cfg, "")
	defer r.say.Close()
	r.terminal = controllingTerminal(os.Stdin)
	r.manager.take(r.log())
	r.env = environment(&cfg) // after the manager's variables were taken away
	defer r.manager.down()
	defer cfg.HTTP.Serve(r.log())()
	defer func() {
		if code, tell := exit.Of(err); tell && cfg.JSON {
			r.tell(slog.LevelError, eventFailed, 0, "%v", err)
			err = exit.Silent(code)
		}
	}()
	defer r.end(nil)
	defer context.AfterFunc(r.life, r.manager.down)()
	defer r.forward()()
	if cfg.supervised() && !sdnotify.Supported {
		return exit.With(exit.NoProc, errors.New("--watchdog and --wait-ready are not possible on this system; want Linux"))
	}
	if err := adoptOrphans(r.log()); err != nil {
		return err
	}
	return r.stand()
}

// newRun begins a run; about is its name in lines for people, or empty.
func newRun(ctx context.Context, cfg Config, about string) *run {
	form := lines.Form{JSON: cfg.JSON, Time: cfg.Time, About: about, Attrs: []slog.Attr{slog.String("place", cfg.Shown)}}
	r := &run{cfg: cfg, say: lines.New(os.Stderr, form)}
	r.life, r.end = context.WithCancelCause(ctx)
	if cfg.Gate.Run != "" {
		r.cfg.Health.Check = r.gate
	}
	return r
}

// adoptOrphans is about the whole process.
func adoptOrphans(log *slog.Logger) error {
	err := supervise.AdoptOrphans()
	if errors.Is(err, supervise.ErrProc) {
		return exit.With(exit.NoProc, fmt.Errorf("a command cannot be killed in time on this system: %w", err))
	}
	if err != nil && !errors.Is(err, supervise.ErrUnsupported) {
		log.Warn("orphans cannot be adopted: if the keeper is killed, a process of the command that called setsid may survive", "error", err)
	}
	return nil
}

// stand opens the election, and stands in it until nothing is left to do.
func (r *run) stand() (err error) {
	cfg := r.cfg
	r.contain, err = supervise.Contain(r.life, cfg.Contain, cfg.Name, r.log())
	switch {
	case r.life.Err() != nil:
		return nil // told to end, while it waited for the processes of an earlier run
	case errors.Is(err, supervise.ErrContain):
		return exit.With(exit.NoProc, err)
	case err != nil && !errors.Is(err, supervise.ErrUnsupported):
		return err
	}
	for _, limit := range cfg.Limits {
		name, value, _ := strings.Cut(limit, "=")
		if err := r.contain.Limit(name, value); errors.Is(err, supervise.ErrContain) || errors.Is(err, supervise.ErrUnsupported) {
			return exit.With(exit.NoProc, err)
		} else if err != nil {
			return exit.With(exit.Usage, err)
		}
	}
	if cfg.Guard != Unguarded {
		switch err := r.contain.GuardNetwork(cfg.Allow...); {
		case err == nil:
		case !errors.Is(err, supervise.ErrContain) && !errors.Is(err, supervise.ErrUnsupported):
			return exit.With(exit.Usage, err)
		case cfg.Guard == NetworkOptional:
			r.tell(slog.LevelWarn, eventUnguarded, 0, "the network guard is off: %v", err)
		default:
			return exit.With(exit.NoProc, err)
		}
	}
	if len(cfg.Addresses) > 0 {
		if err := supervise.CheckAddresses(r.contain, cfg.Addresses...); err != nil {
			return exit.With(exit.NoProc, err)
		}
	}
	if cfg.Contained != nil {
		cfg.Contained(r.contain)
	}
	if missing := r.contain.Missing(); missing != nil {
		r.log().Info("contained by "+r.contain.String(), "missing", missing)
	}
	if err := r.makeHandler(); err != nil {
		return err
	}
	r.election, err = cfg.Openers.Open(r.life, cfg.URL, cfg.Name, elect.Config{ID: cfg.ID, NonExclusive: cfg.NonExclusive, Metadata: r.metadata(false), Drain: cfg.Drain, Health: cfg.Health, Guardian: r, Logger: r.say.Logger(cfg.Verbose, runtime.NoLeaderKnown), OnEvent: r.event})
	if err != nil {
		return failed.Opening(err)
	}
	defer r.election.Close()
	if lease := r.election.Limits().Lease; cfg.Device != nil && r.steps.activates(r) && lease > 0 && cfg.Device.Timeout() >= lease*4/5 {
		return exit.Usagef("the timeout of the watchdog is %v and the lease %v, so that it could hardly be fed; want less than four fifths of the lease, as with a longer promise", cfg.Device.Timeout(), lease.Truncate(time.Millisecond))
	}
	if cfg.Transfer != nil {
		if !slices.Contains(r.election.Limits().Abilities, elect.AbilityTransfer) {
			return exit.Usagef("transfer: this back end cannot choose the next leader; want peers or a group")
		}
		timing, stop := context.WithCancel(context.Background())
		var timed sync.WaitGroup
		timed.Go(func() { r.handOvers(timing) })
		defer func() { stop(); timed.Wait() }()
	}
	defer r.closeSpare()
	if cfg.HTTP != nil || r.handler != nil && r.election.Limits().Lease > 0 { // without a lease it is never stalled
		if err := r.handler.Attach(r.election); err != nil {
			return err
		}
		defer r.handler.Close()
	}
	if cfg.HTTP != nil {
		cfg.HTTP.Metrics.Attach(r.election)
		defer cfg.HTTP.Metrics.Close()
		defer cfg.HTTP.Groups.use(r.election, r.log())()
		if cfg.HTTP.Shown != "" {
			r.tell(slog.LevelInfo, eventServing, 0, "serving HTTP on %s", cfg.HTTP.Shown)
		}
	}
	if cfg.Introduce != nil {
		if text := cfg.Introduce(); text != "" {
			r.tell(slog.LevelInfo, eventOpened, 0, "%s", text)
		}
	}
	fed := make(chan struct{})
	feeding, stop := context.WithCancel(context.Background())
	go func() {
		defer close(fed)
		r.manager.feed(feeding, r.handler.Live)
	}()
	defer func() { stop(); <-fed }()
	defer r.steps.watch(r)()
	for {
		if !r.steps.clean(r) || !r.awaitResume() {
			return nil // told to end
		}
		again, err := r.lead()
		if !again {
			return err
		}
	}
}

// makeHandler sets the Handler that knows whether this candidate is live: that of HTTP, or one for the watchdog of the
// service manager.
func (r *run) makeHandler() (err error) {
	switch {
	case r.cfg.HTTP != nil:
		r.handler = r.cfg.HTTP.Handler
	case r.manager.every > 0:
		r.handler, err = electhttp.New(electhttp.Config{Name: r.cfg.Name, ID: r.cfg.ID})
	}
	return err
}

// lead is one victory and its run, or the end of Run.
func (r *run) lead() (again bool, err error) {
	ctx, cancel := context.WithCancelCause(r.life)
	defer cancel(nil)
	r.mu.Lock()
	r.cancel, r.outcome = cancel, nil
	if r.resumed != nil {
		cancel(errPaused) // since the loop has looked
	}
	r.mu.Unlock()
	if r.cfg.Health.Check != nil {
		r.startStandby() // it may be ill, and not stand
	}
	err = r.election.Lead(ctx, r.work)
	r.stopStandby()
	r.joinPrepare(context.Background())
	o := r.outcome
	switch {
	case errors.Is(err, errPaused):
		return true, nil
	case errors.Is(err, errUnclean):
		if !r.steps.clean(r) {
			return false, nil
		}
		if o != nil && o.loss == nil {
			return r.next(o)
		}
		return true, nil
	case errors.Is(err, errTermOver):
		return r.next(o)
	case errors.Is(err, errStopped) && o != nil && o.err == nil:
		return false, exit.Silent(o.code())
	case errors.Is(err, errStopped):
		return false, nil
	case errors.Is(err, errWaitOver):
		return false, r.gaveUp()
	}
	return false, failed.Backend(err)
}

// next decides what follows after a term that no signal has ended.
func (r *run) next(o *outcome) (again bool, err error) {
	if refused, ok := errors.AsType[*supervise.StartError](o.err); ok {
		return false, exit.With(refused.ExitCode(), refused)
	}
	code := o.code()
	switch {
	case r.cfg.Once && o.late > 0:
		return false, exit.Silent(code)
	case r.cfg.Once && o.err != nil:
		return false, exit.With(exit.NotExecutable, o.err)
	case r.cfg.Once && o.loss != nil:
		return false, exit.Silent(exit.Lost)
	case o.interrupted, r.cfg.Once:
		return false, exit.Silent(code)
	case o.err != nil:
		r.tell(slog.LevelError, eventNotStarted, 0, "%v", o.err)
	case !r.cfg.Restart.Again(o.exit):
		return false, exit.Silent(code)
	}
	if wait := r.backoff.after(o.exit, o.ran); wait > 0 {
		r.tell(slog.LevelWarn, eventStandingAside, 0, "%s fails repeatedly, soon after its start; standing aside for %v", r.cfg.Args[0], wait)
		select {
		case <-time.After(wait):
		case <-r.life.Done():
			return false, nil
		}
	}
	return true, nil
}

// event handles the election's events.
func (r *run) event(e elect.Event) {
	if e.Kind == elect.EventCampaigning {
		r.aside.Store(false)
		r.starting(true)
	}
	r.observed(e)
	switch e.Kind {
	case elect.EventCampaigning:
		r.manager.up()
		r.mu.Lock()
		r.outcome = nil // that of an earlier term, which ended by a loss
		r.mu.Unlock()
		r.prepareSpare()
		r.startStandby()
	case elect.EventFailed:
		r.mu.Lock()
		r.trouble = e.Err
		r.mu.Unlock()
	case elect.EventElected:
		r.stopStandby()
	case elect.EventEnded:
		r.ended(e)
	case elect.EventOverrun:
		r.overrun(e, 0)
	case elect.EventReleased:
		r.released(e)
		r.mu.Lock()
		o := r.outcome
		stands := o != nil && o.loss != nil && !r.cfg.Once && (r.cfg.Health.Check != nil || o.loss.Reason == elect.ReasonUnhealthy || r.aside.Load())
		if stands {
			r.outcome = nil
		}
		r.mu.Unlock()
		if stands {
			r.rests(o.loss)
			r.startStandby() // it may rest, and not campaign
		}
	case elect.EventIll:
		r.manager.up()
		r.ill = true
		r.aside.Store(true)
		r.tell(slog.LevelWarn, elect.EventIll, 0, "ill: %v", e.Err)
	case elect.EventWell:
		if r.ill {
			r.tell(slog.LevelInfo, elect.EventWell, 0, "well again")
		} else if r.cfg.JSON {
			r.tell(slog.LevelInfo, elect.EventWell, 0, "well")
		}
		r.ill = false
	}
}

func (r *run) released(e elect.Event) {
	r.mu.Lock()
	o := r.outcome
	r.mu.Unlock()
	if o != nil && o.late > 0 && r.overran != e.Token { // the keeper knows better than the election
		r.observed(elect.Event{Kind: elect.EventOverrun, At: e.At, Token: e.Token, Term: e.Term})
		r.overrun(e, o.late)
	}
	switch {
	case e.Err != nil:
		r.tell(slog.LevelWarn, eventNotReleased, e.Token, "%s (token %v) was not released, and lapses by itself: %v", r.cfg.Name, e.Token, e.Err)
	case o == nil || o.ran == 0 || r.cfg.Path == "":
		r.tell(slog.LevelInfo, elect.EventReleased, e.Token, "released %s (token %v)", r.cfg.Name, e.Token)
	default:
		r.tell(slog.LevelInfo, elect.EventReleased, e.Token, "released %s (token %v); %s ended: %v", r.cfg.Name, e.Token, r.cfg.Args[0], o.exit)
	}
}

// identity returns the attributes of each line: the election and this candidate.
func (r *run) identity() []slog.Attr {
	return []slog.Attr{slog.String("election", r.cfg.Name), slog.String("id", r.cfg.ID)}
}

// log returns a logger for lines of this process other than the back end's, with the attributes of identity.
func (r *run) log() *slog.Logger {
	log := r.say.Logger(r.cfg.Verbose)
	if r.cfg.JSON {
		return slog.New(log.Handler().WithAttrs(r.identity()))
	}
	return log
}

// where returns the place of the election, for people. A list of peers is long, and its reader knows it, so where
// returns the id of this peer instead.
func (r *run) where() string {
	if strings.HasPrefix(r.cfg.Shown, "peer:") {
		return "as " + r.cfg.ID + ", among peers"
	}
	return "at " + r.cfg.Shown
}
