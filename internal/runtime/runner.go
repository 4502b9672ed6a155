package runtime

import (
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/internal/protocol"
)

// A machine and a driver agree about these bounds: otherwise a constant below is negative, which does not compile.
const (
	_ = -uint(driver.DefaultPriority ^ protocol.DefaultPriority)
	_ = -uint(driver.MaxPriority ^ protocol.MaxPriority)
	_ = -uint(driver.NeverLead ^ protocol.NeverLead)
	_ = -uint(fence.MaxCount ^ protocol.MaxCount)
)

// Config configures a Runner.
type Config struct {
	ID        protocol.NodeID // of the participant
	Era       uint64          // of its tokens
	Disk      Disk
	Transport Transport
	Store     Store // nil if the machine uses none
	Hooks     Hooks
	// Log receives what is worth knowing. It must not block. Nil is silence.
	Log *slog.Logger
	// Now reads the clocks; nil is those of the system.
	Now func() protocol.Reading
	// Late is how late a timer may be before that counts as a pause of the process.
	Late time.Duration
	// Idle is the time without a save after which [Disk].Settle is called.
	Idle time.Duration
	// Incarnations means that a machine that saves no incarnation at its boot is refused. It is for participants that
	// tell others their incarnation.
	Incarnations bool
}

// Transport sends messages to other participants.
type Transport interface {
	// Send sends a message, if that is possible at once: any message may be lost. It is called in a turn. The Runner
	// owns s again afterwards.
	Send(s *protocol.Send)
}

// Store is the store of protocols that use one.
type Store interface {
	// Ask begins an operation, in a turn, and does not wait for it. It calls tell with the answer, from any goroutine:
	// once, with StatusUnknown if none comes in time; for a watch, each time.
	Ask(a protocol.Ask, tell func(protocol.Answer))
}

// Recorder records the steps of a machine. It is called after each step, in the turn, and keeps none of the
// arguments. state is the machine's AppendState, in memory of its own.
type Recorder interface {
	Step(in *protocol.Input, fx *protocol.Effects, v *protocol.View, state func() []byte)
}

// Hooks are a participant's actions beside its machine. They are called in a turn, and must not wait. Those of a step
// (Published to CatchUp) must give the machine no command. Nil does nothing.
type Hooks struct {
	// Heard sees a message before the machine does; false drops it.
	Heard func(from protocol.NodeID, l *Incoming) bool
	// Published runs after each step. The view is published and contexts of ended terms have ended; nothing else of the
	// step is carried out yet. before is the view that was published before, nil if it is the same.
	Published func(in *protocol.Input, before *protocol.View)
	// Reason translates a Stop's reason for people. Any goroutine may call it.
	Reason func(protocol.Reason) protocol.Reason
	// Elected, Active and Stopped follow the orders of a term. c is the waiting candidacy, or nil.
	Elected func(m *Mandate, c *Candidacy)
	Active  func(m *Mandate)
	Stopped func(m *Mandate, reason protocol.Reason)
	// CatchUp is the order of that name.
	CatchUp func(o *protocol.Order)
	// Stand runs before a candidacy begins; an error refuses it.
	Stand func(c *Candidacy) error
	// Withdrawn runs when no candidacy waits any more.
	Withdrawn func()
	// Booted runs when the save of a boot in a turn of Run is durable.
	Booted func()
	// Jumped runs after the machine slept, or a clock was set.
	Jumped func()
	// Survey runs at the end of a turn. It returns the latest time for its next call, on the clock of [Runner.Latest].
	Survey func() protocol.Instant
}

// Runner drives a machine. Its methods may be called by any number of goroutines, except those that are for turns:
// these may be called by hooks and by functions for [Runner.Do] and [Runner.Call], or before Run.
type Runner struct {
	cfg    Config
	log    *slog.Logger
	inbox  *inbox
	saver  *saver
	states *States
	stop   chan struct{} // closed by Stop
	once   sync.Once

	// Read by any goroutine at any time.
	seen        atomic.Pointer[protocol.View] // of the latest step; nil before the first
	incarnation atomic.Uint64
	counted     counted

	// Owned by turns.
	machine  protocol.Machine // nil before Boot
	running  bool             // Run was called
	recorder Recorder
	state    func() []byte // of the machine
	tell     func(protocol.Answer)

	in       protocol.Input
	fx       protocol.Effects
	view     protocol.View    // of the latest step
	before   protocol.View    // the one before view
	ordered  protocol.Instant // when the machine had its latest command
	chance   *rand.Rand
	timer    *time.Timer
	due      protocol.Instant // the time of the timer
	survey   protocol.Instant // the result of Hooks.Survey
	paused   protocol.Instant // when the latest pause was noticed
	patient  protocol.Instant // no Fire before this, after a pause
	latest   protocol.Reading
	anchor   protocol.Reading // for detecting jumps of the clock
	bootSave uint64           // the save that holds the incarnation; 0 once it is durable
	durable  uint64           // the greatest save that is durable
	waiting  []protocol.Send  // for a save, see wait
	joins    []uint64         // tokens of terms whose work has returned
	held     *Mandate         // the term that was won, until its work has returned
	waiter   *Candidacy
	confirms confirms
	ending   bool // no more victories
}

// New makes a Runner that has no machine yet.
func New(cfg Config) *Runner {
	if cfg.Now == nil {
		cfg.Now = Reading
	}
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // it never fails
	r := &Runner{
		cfg: cfg, inbox: newInbox(), states: NewStates(), stop: make(chan struct{}), chance: rand.New(rand.NewChaCha8(seed)),
		timer: time.NewTimer(time.Hour), due: protocol.Never, survey: protocol.Never, paused: protocol.Always, patient: protocol.Always,
	}
	r.SetLog(cfg.Log)
	r.timer.Stop()
	r.state = func() []byte { return r.machine.AppendState(nil) }
	r.tell = func(a protocol.Answer) {
		r.Do(func() {
			r.in = protocol.Input{Kind: protocol.Replied, Answer: a}
			r.step()
		})
	}
	r.anchor = r.Read()
	r.saver = &saver{
		disk: cfg.Disk, idle: cfg.Idle,
		done: func(number uint64, took time.Duration, err error) {
			r.counted.saved(took)
			r.Do(func() { r.saved(number, err) })
		},
		failed: func(err error) { r.log.Warn("the second copy of the ballot cannot be written", "error", err) },
	}
	return r
}

// SetLog replaces Config.Log. It is for turns.
func (r *Runner) SetLog(log *slog.Logger) {
	if r.log = log; log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
}

// Boot begins the machine's life, with what its Disk has kept, nil if nothing. It is for turns. Before Run it returns
// when the machine's save is durable; in Run Hooks.Booted reports that. After an error there is no machine, and of
// its effects only the failed save was attempted.
func (r *Runner) Boot(m protocol.Machine, durable []byte, rec Recorder) error {
	r.in = protocol.Input{Kind: protocol.Boot, Durable: durable}
	r.decide(m)
	v := m.View()
	switch {
	case v.Fault != "":
		return driver.Permanent(errors.New(v.Fault))
	case r.cfg.Incarnations && (v.Incarnation == 0 || len(r.fx.Saves) == 0):
		return driver.Permanent(errors.New("this machine saves no incarnation when it boots; want one that does"))
	}
	r.machine, r.recorder = m, rec
	r.incarnation.Store(v.Incarnation)
	for _, s := range r.fx.Saves {
		r.bootSave = s.Number
	}
	r.carryOut()
	r.in.Durable = nil
	r.join()
	if mutation.Is(mutation.BootNotAwaited) && !r.running || mutation.Is(mutation.FoundNotAwaited) && r.running {
		r.bootSave = 0
		r.booted()
	}
	for !r.running && r.bootSave != 0 {
		number, data := r.saver.number, r.saver.data
		r.saver.number = 0
		start := time.Now()
		if err := r.cfg.Disk.Save(data); err != nil {
			r.machine = nil
			return fmt.Errorf("the ballot cannot be saved: %w", err)
		}
		r.counted.saved(time.Since(start))
		r.saved(number, nil)
	}
	return nil
}

// Run makes turns until Stop is called, and then ends what waits. After it has returned there are no more turns, and
// [Runner.Close] must be called.
func (r *Runner) Run() {
	r.loop()
	r.timer.Stop()
	r.ending = true
	r.Lose(ErrClosed)
	for _, it := range r.inbox.close() {
		if it.from == "" {
			it.do() // a call may wait for it
		}
	}
	r.Lose(ErrClosed) // one of the remaining items may have won it
	if c := r.waiter; c != nil {
		r.waiter = nil
		c.result <- outcome{err: ErrClosed}
	}
	r.confirms.quit()
	r.states.Close()
}

// Start starts the saver. It is called once, before Run.
func (r *Runner) Start() { r.running = true; r.saver.start() }

// Stop makes Run return.
func (r *Runner) Stop() { r.once.Do(func() { close(r.stop) }) }

// Close waits for the save under way. It is called after Run, if Start was.
func (r *Runner) Close() { r.saver.close() }

// Do has a turn call do. It returns false if there will be no turn.
func (r *Runner) Do(do func()) bool { return r.inbox.put(item{do: do}) }

// Call has a turn call do, and waits until the effects were carried out. It returns false if there will be no turn.
// It must not be called in a turn.
func (r *Runner) Call(do func()) bool {
	done := make(chan struct{})
	if !r.Do(func() { defer close(done); do() }) {
		return false
	}
	<-done // even when the Runner is stopped: the queue is emptied then
	return true
}

// Receive passes in a message, with what the sender reports of its leadership. The caller must hold no lock: it may
// make the turn itself. The message is dropped if too many of its sender's are queued.
func (r *Runner) Receive(from protocol.NodeID, m *protocol.Message, since int64, token uint64) {
	r.inbox.put(item{from: from, message: Incoming{Message: *m, Since: since, Token: token}})
}

// PeerClosed tells the machine that from has closed the last connection with that life.
func (r *Runner) PeerClosed(from protocol.NodeID, incarnation uint64) {
	r.Do(func() {
		if r.machine != nil {
			r.in = protocol.Input{Kind: protocol.PeerClosed, From: from, Incarnation: incarnation}
			r.step()
		}
	})
}

// Command gives the machine a command, if there is one. It is for turns.
func (r *Runner) Command(c protocol.Command) {
	if r.machine == nil {
		return
	}
	r.in = protocol.Input{Kind: protocol.Do, Command: c}
	r.step()
	r.ordered = r.latest.Boot // the command may have set a timer in the past; that is no pause
}

// Machine is the machine, nil before Boot. It is for turns.
func (r *Runner) Machine() protocol.Machine { return r.machine }

// View is that of the latest step. It is for turns, and valid in this one.
func (r *Runner) View() *protocol.View { return &r.view }

// Latest is the latest reading of the clocks. It is for turns.
func (r *Runner) Latest() protocol.Reading { return r.latest }

// Read reads the clocks, and updates Latest. It is for turns.
func (r *Runner) Read() protocol.Reading {
	r.latest = r.cfg.Now()
	return r.latest
}

// Held is the mandate whose work has not returned, nil if there is none. It is for turns.
func (r *Runner) Held() *Mandate { return r.held }

// Waits reports whether a candidacy waits. It is for turns.
func (r *Runner) Waits() bool { return r.waiter != nil }

// Ending reports whether Stop was noticed. It is for turns.
func (r *Runner) Ending() bool { return r.ending }

// Seen is the latest published view, nil before the first. It is immutable.
func (r *Runner) Seen() *protocol.View { return r.seen.Load() }

// Now reads the clocks.
func (r *Runner) Now() protocol.Reading { return r.cfg.Now() }

// Incarnation is that of the machine; 0 before Boot, or if the protocol has none.
func (r *Runner) Incarnation() uint64 { return r.incarnation.Load() }

// States are the states for observers. Run closes them.
func (r *Runner) States() *States { return r.states }

// Counters are the counters so far.
func (r *Runner) Counters() Counters { return r.counted.now() }

// Saves returns how long the saves took, those of the counters.
func (r *Runner) Saves() driver.Durations { return r.counted.disk() }

// Illness returns for how long the disk has been ill: no write has succeeded within [SlowSync] in that time. If it is
// well lasts is 0, and past is for how long it has been so; [math.MaxInt64] if it was never ill.
func (r *Runner) Illness() (lasts, past time.Duration) { return r.saver.illness() }

// Token is the fencing token of a count; 0 if it cannot be one.
func (r *Runner) Token(count uint64) fence.Token {
	t, err := fence.NewToken(r.cfg.Era, count)
	if err != nil {
		return 0
	}
	return t
}

// Reading is the present reading of the system's two clocks.
func Reading() protocol.Reading {
	p := clock.ReadPair()
	return protocol.Reading{Boot: protocol.Instant(p.Boot), Mono: protocol.Instant(p.Mono)}
}

// Candidacy is a waiting Campaign.
type Candidacy struct {
	driver.Candidacy
	Command protocol.Command

	result chan outcome // has room for one
	won    *Mandate     // the value sent to result; owned by turns
}

type outcome struct {
	m   *Mandate
	err error
}

// ErrClosed is the error of calls of a stopped Runner.
var ErrClosed = fmt.Errorf("%w: the node was closed", driver.ErrClosed)
