package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/electd/elect/cmd/elect/internal/lines"
	"github.com/electd/elect/cmd/elect/internal/watchdog"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/electprom"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/place"
)

// AgentConfig configures RunAgent. All fields are required, except HTTP, Device, Timeout, JSON, Time and Verbose.
type AgentConfig struct {
	// Load returns the elections: at the start, and again at each SIGHUP. After an error those that go on go on.
	Load func() ([]Entry, error)

	HTTP     *HTTP // with a Group; the caller has begun to listen
	Registry *prometheus.Registry
	State    *place.Dir // where it is kept what must outlive this process
	Device   string     // the watchdog device; "" is none
	Timeout  time.Duration
	JSON     bool
	Time     bool
	Verbose  bool
}

// Entry is an election of an agent.
type Entry struct {
	Source any    // what it was made of: an election whose Source has changed is ended, and begun anew
	Config Config // of the election; HTTP is set by RunAgent
	HTTP   electhttp.Config
}

// agent runs several elections in one process. Each has a goroutine, and ends by itself.
type agent struct {
	cfg     AgentConfig
	say     *lines.Writer
	manager manager
	device  *watchdog.Watchdog // or nil
	groups  Groups
	members map[string]*member // owned by RunAgent, as is leaving
	leaving []*member          // not in the configuration any more

	mu     sync.Mutex
	still  bool             // in maintenance
	stills map[*member]bool // all members, to be told
}

// member is one election of an agent.
type member struct {
	a       *agent
	entry   Entry
	metrics *electprom.Metrics
	before  *member       // its name's former member, which has to end first; or nil
	done    chan struct{} // closed when it has ended, and those before it

	mu    sync.Mutex
	run   *run // the present one, or nil
	ends  bool
	still bool // paused
}

// maintenance is the name of the file that says that all elections of an agent stand aside. Those of one election have
// a dot in their names.
const maintenance = "maintenance"

// Maintain keeps in the state directory of an agent that does not run whether it is in maintenance.
func Maintain(state *place.Dir, on bool) error { return keepMark(state, maintenance, on) }

// RunAgent stands in all elections, until a signal asks for the end, and then until all have ended. An election that
// fails for good is tried again, and disturbs no other.
func RunAgent(ctx context.Context, cfg AgentConfig) error {
	a := &agent{cfg: cfg, groups: Groups{Registry: cfg.Registry}, say: lines.New(os.Stderr, lines.Form{JSON: cfg.JSON, Time: cfg.Time}), members: map[string]*member{}, stills: map[*member]bool{}}
	defer a.say.Close()
	log := a.say.Logger(cfg.Verbose)
	a.manager.take(log)
	if cfg.Device != "" {
		a.device = watchdog.New(cfg.Device, cfg.Timeout, log)
	}
	defer a.manager.down()
	defer cfg.HTTP.Serve(log)()
	if err := adoptOrphans(log); err != nil {
		return err
	}
	all := []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, slices.DeleteFunc(all, signal.Ignored)...)
	defer signal.Stop(signals)
	broken := make(chan os.Signal, 1) // a line on a stderr without a reader must not end a leader
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)

	entries, err := cfg.Load()
	if err != nil {
		return err
	}
	if kept(cfg.State, maintenance) {
		a.still = true
		a.tell(slog.LevelWarn, string(eventPaused), "in maintenance: no election of this agent stands before: elect agent maintenance off")
	}
	if cfg.HTTP != nil {
		cfg.HTTP.Group.InMaintenance(a.still, a.maintain)
	}
	cfg.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "elect_agent_maintenance", Help: "1 while all elections of this agent stand aside for maintenance."}, func() float64 {
		if a.inMaintenance() {
			return 1
		}
		return 0
	}))
	if cfg.HTTP != nil {
		a.tell(slog.LevelInfo, string(eventServing), "serving HTTP on %s", cfg.HTTP.Shown)
	}
	a.apply(entries)
	a.manager.up()
	feeding, stop := context.WithCancel(context.Background())
	var fed sync.WaitGroup
	fed.Go(func() { a.manager.feed(feeding, a.live) })
	defer func() { stop(); fed.Wait() }()

	over := ctx.Done()
	var asked time.Time
	var why os.Signal
	ended := make(chan struct{}) // closed when all have ended after the end was asked for
	end := func() {
		if asked.IsZero() {
			a.manager.down()
			left := slices.Concat(a.leaving, slices.Collect(maps.Values(a.members)))
			go func() {
				defer close(ended)
				for _, m := range left {
					<-m.done
				}
			}()
		}
		for _, m := range slices.Concat(a.leaving, slices.Collect(maps.Values(a.members))) {
			m.end(!asked.IsZero())
		}
		asked = time.Now()
	}
	for {
		select {
		case <-ended:
			return nil
		case <-over:
			over = nil
			end()
		case sig := <-signals:
			switch {
			case sig == syscall.SIGHUP && asked.IsZero():
				a.reload()
			case sig == syscall.SIGHUP, sig == why && time.Since(asked) < pair:
			default:
				why = sig
				end()
			}
		}
	}
}

// pair is the time within which the same signal counts once: timeout(1) sends its signal to its child and then to the
// group, to which the child belongs.
const pair = 100 * time.Millisecond

func (a *agent) tell(level slog.Level, event, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	a.manager.status(text)
	a.say.Event(level, text, slog.String("event", event))
}

func (a *agent) live() error {
	if a.cfg.HTTP == nil {
		return nil
	}
	return a.cfg.HTTP.Group.Live()
}

// reload takes a new configuration, or none of it.
func (a *agent) reload() {
	entries, err := a.cfg.Load()
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			a.tell(slog.LevelError, string(eventFailed), "%s", strings.TrimSpace(line))
		}
		a.tell(slog.LevelError, string(eventFailed), "the configuration was not reloaded; all elections go on as they were")
		return
	}
	added, changed, removed := a.apply(entries)
	a.tell(slog.LevelInfo, string(eventReloaded), "reloaded: %d elections added, %d changed, %d removed, %d go on", added, changed, removed, len(a.members)-added-changed)
}

// apply ends what is not in entries any more, or has changed, and begins what is new. It waits for nothing: what has
// changed begins when its former member has ended.
func (a *agent) apply(entries []Entry) (added, changed, removed int) {
	wanted := map[string]Entry{}
	for _, e := range entries {
		wanted[e.Config.Name] = e
	}
	a.leaving = slices.DeleteFunc(a.leaving, (*member).gone)
	was := map[string]*member{}
	for _, m := range a.leaving {
		was[m.entry.Config.Name] = m // it may be wanted again
	}
	for name, m := range a.members {
		if e, ok := wanted[name]; ok && reflect.DeepEqual(e.Source, m.entry.Source) {
			continue
		}
		m.end(false)
		delete(a.members, name)
		a.leaving = append(a.leaving, m)
		if was[name] = m; wanted[name].Source == nil {
			removed++
		} else {
			changed++
		}
	}
	for _, e := range entries {
		name := e.Config.Name
		if a.members[name] == nil {
			a.begin(e, was[name])
			added++
		}
	}
	a.orphans(wanted)
	return added - changed, changed, removed
}

// orphans tells what was activated by an earlier configuration, and is in the present one no more.
func (a *agent) orphans(wanted map[string]Entry) {
	names, _ := a.cfg.State.Names() // what else is wrong with the directory is seen elsewhere
	for _, file := range names {
		name, ok := strings.CutSuffix(file, activated)
		if ok && wanted[name].Source == nil && !slices.ContainsFunc(a.leaving, func(m *member) bool { return m.entry.Config.Name == name }) {
			a.tell(slog.LevelWarn, string(eventUnclean), "%s was activated, and is not in the configuration: it is not demoted; want it there until it is, or %s removed from the state directory if nothing is active", name, file)
		}
	}
}

func (m *member) gone() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

func (a *agent) begin(e Entry, before *member) {
	m := &member{a: a, entry: e, metrics: electprom.New(e.Config.Name), before: before, done: make(chan struct{})}
	m.entry.Config.Device = a.device
	a.members[e.Config.Name] = m
	go m.serve()
}

// serve stands in the election until it is told to end.
func (m *member) serve() {
	defer close(m.done)
	if m.before != nil {
		<-m.before.done
	}
	kept := m.keptPaused()
	m.mu.Lock()
	m.still = kept
	m.mu.Unlock()
	m.a.cfg.Registry.MustRegister(m.metrics) // names differ
	m.a.mu.Lock()
	m.a.stills[m] = true
	m.a.mu.Unlock()
	defer func() {
		m.a.mu.Lock()
		defer m.a.mu.Unlock()
		delete(m.a.stills, m)
	}()
	defer m.a.cfg.Registry.Unregister(m.metrics)
	for pause := firstWait; ; pause = min(2*pause, longestWait) {
		begun := time.Now()
		again := m.once(func(text string) {
			if time.Since(begun) > longestWait {
				pause = firstWait
			}
			m.a.say.Event(slog.LevelError, fmt.Sprintf("%s: %s; it is tried again in %v", m.entry.Config.Name, text, pause), slog.String("event", string(eventFailed)), slog.String("election", m.entry.Config.Name))
		}, func() <-chan time.Time { return time.After(pause) })
		if !again {
			return
		}
	}
}

// once stands until the election has ended for good, by an error or because its command is done. It reports whether to
// stand again.
func (m *member) once(failed func(string), wait func() <-chan time.Time) (again bool) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cfg := m.entry.Config
	cfg.HTTP = &HTTP{Metrics: m.metrics, Groups: &m.a.groups}
	var err error
	of := m.entry.HTTP
	of.Pause = m.pause
	if cfg.HTTP.Handler, err = electhttp.New(of); err != nil {
		failed(err.Error()) // the name and the id were checked
		return false
	}
	if g := m.a.cfg.HTTP; g != nil {
		g.Group.Put(cfg.HTTP.Handler)
		defer g.Group.Remove(cfg.HTTP.Handler)
	}
	defer cfg.HTTP.Handler.Close()
	r := newRun(ctx, cfg, cfg.Name)
	r.env = environment(&cfg)
	defer r.say.Close()
	m.mu.Lock()
	m.run = r
	ends := m.ends
	m.mu.Unlock()
	m.stand()
	if !ends {
		err = r.stand()
	}
	m.mu.Lock()
	ends = m.ends
	m.mu.Unlock()
	if ends {
		return false
	}
	if _, tell := exit.Of(err); tell && err != nil {
		failed(err.Error())
		select {
		case <-wait():
			return true
		case <-r.life.Done():
			return false
		}
	}
	r.tell(slog.LevelInfo, eventFinished, 0, "%s is done; it does not run again before its configuration changes or the agent starts anew", cfg.Args[0])
	<-r.life.Done()
	return false
}

const eventFinished = "finished"

// end asks the election to end, and with kill to kill the command. It does not wait.
func (m *member) end(kill bool) {
	if m.before != nil && !m.before.gone() {
		m.before.end(kill)
	}
	m.mu.Lock()
	r := m.run
	m.ends = true
	m.mu.Unlock()
	if r == nil {
		return
	}
	r.mu.Lock()
	r.why, r.asked, r.twice = syscall.SIGTERM, time.Now(), kill
	family := r.family
	r.mu.Unlock()
	if kill && family != nil {
		family.Kill()
	}
	r.end(errStopped)
}

// paused is the name of the file that says that an election is paused.
func (m *member) paused() string { return m.entry.Config.Name + ".paused" }

func (m *member) keptPaused() bool { return kept(m.a.cfg.State, m.paused()) }

// kept reports whether there is such a file. One that cannot be read is there.
func kept(dir *place.Dir, name string) bool {
	_, err := readKept(dir, name)
	return !errors.Is(err, os.ErrNotExist)
}

// pause is electhttp.Config.Pause. It outlives this process.
func (m *member) pause(on bool) error {
	m.mu.Lock()
	err := keepMark(m.a.cfg.State, m.paused(), on)
	if err == nil {
		m.still = on
	}
	m.mu.Unlock()
	if err != nil {
		return err
	}
	m.stand()
	return nil
}

// stand has the present run stand, or stand aside.
func (m *member) stand() {
	m.a.mu.Lock() // so that the last one to look decides
	defer m.a.mu.Unlock()
	m.standLocked()
}

func (m *member) standLocked() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == nil {
		return
	}
	var why electhttp.Aside
	switch {
	case m.a.still:
		why = electhttp.Maintenance
	case m.still:
		why = electhttp.Paused
	}
	m.run.stillFor(why)
}

// maintain turns maintenance on or off. It outlives this process.
func (a *agent) maintain(on bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := Maintain(a.cfg.State, on); err != nil {
		return err
	}
	a.still = on
	a.cfg.HTTP.Group.InMaintenance(on, a.maintain)
	for m := range a.stills {
		m.standLocked()
	}
	return nil
}

func (a *agent) inMaintenance() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.still
}

// keepMark makes a file, durably, or removes it.
func keepMark(dir *place.Dir, name string, on bool) error {
	if on {
		return dir.Save(name, []byte("on\n"))
	}
	if err := dir.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return dir.Sync()
}
