package electprom

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/electd/elect"
)

// Metrics is the collector of one participant in one election.
type Metrics struct {
	counted []prometheus.Collector // those below, which change with events and sights

	// By OnEvent.
	won, failed, overruns prometheus.Counter
	stepDowns             map[elect.Reason]prometheus.Counter // not changed after New
	lasted                prometheus.Histogram
	health                atomic.Pointer[float64]    // nil until the first check
	hooks                 *prometheus.SummaryVec     // by the callers of ObserveHook
	began                 time.Time                  // of the present term
	state                 atomic.Int32               // a place in states
	term                  atomic.Pointer[elect.Term] // from a victory until it was released

	// By the subscription.
	changes  prometheus.Counter
	failover prometheus.Histogram
	looking  sync.Mutex // one look at a time, so that none brings an older state
	mu       sync.Mutex
	sight    sight

	present atomic.Pointer[subscription] // or nil

	hasLeader, isLeader, leaderTerm, leaderInfo, leaderless, remaining, healthy, inState *prometheus.Desc

	measured measured

	build prometheus.Metric
}

// sight is what the subscription has seen.
type sight struct {
	by      *subscription // which goes on; nil if there is none
	leader  string
	last    elect.Token   // of the last leader seen
	since   time.Time     // when the leader was lost from sight; zero if one is seen, or nothing is observed
	without time.Duration // without a leader, until since
}

// lookTime is how long a scrape waits for the state of a back end without a lease.
const lookTime = time.Second

// subscription observes one election.
type subscription struct {
	election *elect.Election
	looks    bool // at each scrape; it is not told of changes
	ctx      context.Context
	stop     context.CancelFunc
	done     chan struct{} // closed when its goroutine has ended
	asked    chan struct{} // closed when its last look has ended; guarded by Metrics.looking
}

// ended reports whether nothing is observed any more.
func (s *subscription) ended() bool {
	if s == nil {
		return true
	}
	if s.looks {
		return s.ctx.Err() != nil
	}
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// end ends a subscription, unless it is nil.
func (m *Metrics) end(s *subscription) {
	if s != nil {
		s.stop()
		<-s.done
		m.lookAway(s, time.Now())
	}
}

// reasons are those of elect.LostError.
var reasons = [...]elect.Reason{
	elect.ReasonExpired, elect.ReasonSuperseded, elect.ReasonResigned, elect.ReasonStoreUnreachable, elect.ReasonUnhealthy, elect.ReasonShutdown,
}

// states are those of a participant by its events; the first one is that before any.
var states = [...]string{"idle", "candidate", "leader", "stopping"}

// after returns the place in states after an event, and false if it changes nothing.
func after(kind elect.EventKind) (state int32, changes bool) {
	switch kind {
	case elect.EventWithdrawn, elect.EventFailed, elect.EventReleased:
		return 0, true
	case elect.EventCampaigning:
		return 1, true
	case elect.EventElected:
		return 2, true
	case elect.EventEnded:
		return 3, true
	}
	return 0, false
}

// New returns the metrics of an election. name is the value of the label election, the name of the election. Two
// Metrics in one registry must have different names.
func New(name string) *Metrics {
	election := prometheus.Labels{"election": strings.ToValidUTF8(name, "\uFFFD")}
	with := func(key, value string) prometheus.Labels {
		return prometheus.Labels{"election": election["election"], key: value}
	}
	m := &Metrics{stepDowns: map[elect.Reason]prometheus.Counter{}}
	counter := func(name, help string, labels prometheus.Labels) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels})
		m.counted = append(m.counted, c)
		return c
	}
	histogram := func(name, help string, buckets ...float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: election, Buckets: buckets})
		m.counted = append(m.counted, h)
		return h
	}
	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, election)
	}

	const elections = "Campaigns of this participant that ended, by result."
	m.won = counter("elect_elections_total", elections, with("result", "won"))
	m.failed = counter("elect_elections_total", elections, with("result", "failed"))
	for _, r := range reasons {
		m.stepDowns[r] = counter("elect_step_downs_total", "Terms of this participant that ended, by reason.", with("reason", string(r)))
	}
	m.overruns = counter("elect_stop_overrun_total", "Terms whose lease ended before the work had returned.", election)
	m.lasted = histogram("elect_leadership_duration_seconds", "Time from a victory of this participant to the end of the work's context.",
		1, 10, 60, 600, 3600, 6*3600, 24*3600, 7*24*3600)
	m.hooks = prometheus.NewSummaryVec(prometheus.SummaryOpts{
		Name: "elect_hook_duration_seconds", Help: "Time of commands and functions beside the work, by their purpose.", ConstLabels: election,
	}, []string{"hook"})
	m.counted = append(m.counted, m.hooks)
	m.changes = counter("elect_leader_changes_total", "New terms, of any participant, that this one has seen after the first.", election)
	m.failover = histogram("elect_failover_duration_seconds", "Time without a leader in the sight of this participant, before a new term.",
		.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)

	m.hasLeader = gauge("elect_has_leader", "1 if this participant sees a leader that the back end can prove.")
	m.leaderInfo = gauge("elect_leader_info", "1, with the id of the leader that this participant sees.", "leader")
	m.leaderless = gauge("elect_leaderless_seconds_total", "Time in which this participant has seen no leader.")
	m.isLeader = gauge("elect_is_leader", "1 if this participant can prove at the scrape that it leads.")
	m.leaderTerm = gauge("elect_leader_term", "Token of the term of this participant, while it can prove that it leads.")
	m.remaining = gauge("elect_lease_remaining_seconds", "Time for which leadership is proven without another renewal, while this participant leads on a lease.")
	m.healthy = gauge("elect_healthy", "1 if this participant is well by its health check, 0 if it is ill.")
	m.inState = gauge("elect_state", "1 for the state of this participant by its events, and 0 for the others.", "state")
	m.measured = newMeasured(gauge)

	build := gauge("elect_build_info", "1, with the version of the library and of Go.", "version", "goversion")
	m.build = prometheus.MustNewConstMetric(build, prometheus.GaugeValue, 1, version(), runtime.Version())
	return m
}

// version is that of the library in this program.
func version() string {
	const path = "github.com/electd/elect"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range append(info.Deps, &info.Main) {
		if module.Path == path && module.Version != "" {
			return module.Version
		}
	}
	return "unknown"
}

// OnEvent counts an event. It is for elect.Config.OnEvent, by itself or called by a function of the program's own.
func (m *Metrics) OnEvent(e elect.Event) {
	if state, changes := after(e.Kind); changes {
		m.state.Store(state)
	}
	switch e.Kind {
	case elect.EventElected:
		m.won.Inc()
		m.began = e.At
		m.term.Store(e.Term)
	case elect.EventFailed:
		m.failed.Inc()
	case elect.EventEnded:
		if loss, ok := errors.AsType[*elect.LostError](e.Err); ok && m.stepDowns[loss.Reason] != nil {
			m.stepDowns[loss.Reason].Inc()
		}
		m.lasted.Observe(e.At.Sub(m.began).Seconds())
	case elect.EventOverrun:
		m.overruns.Inc()
	case elect.EventReleased:
		m.term.Store(nil)
	case elect.EventIll:
		m.health.Store(new(float64(0)))
	case elect.EventWell:
		m.health.Store(new(float64(1)))
	}
}

// ObserveHook counts a run of a hook: what the participant runs beside its work, such as elect.Config.Health.Check.
// Each name is a label value, such as "health", so a program should have few.
func (m *Metrics) ObserveHook(name string, took time.Duration) {
	m.hooks.WithLabelValues(strings.ToValidUTF8(name, "\uFFFD")).Observe(took.Seconds())
}

// Attach observes an election, from now until [Metrics.Close] or the end of the election. It ends an earlier
// observation, so the metrics of a participant go on when its program opens the election again. Attach does not wait
// for any of this. For a back end without a lease, where a subscription would poll, the leader is looked up now and at
// each scrape.
func (m *Metrics) Attach(e *elect.Election) {
	s := &subscription{election: e, looks: e.Limits().Lease == 0, done: make(chan struct{})}
	s.ctx, s.stop = context.WithCancel(context.Background())
	earlier := m.present.Swap(s)
	go func() {
		defer close(s.done)
		m.end(earlier)
		if s.looks {
			m.look(s)
			return
		}
		for state, err := range e.Watch(s.ctx) {
			if err != nil {
				break
			}
			m.see(s, state, time.Now())
		}
		m.lookAway(s, time.Now())
	}()
}

// look asks once who leads. If the answer takes longer than lookTime, nobody is seen to lead. A back end may hang in a
// call of the system, which no context ends: then look does not wait for it, and asks no more until it has returned. If
// the election was closed, it ends the observation.
func (m *Metrics) look(s *subscription) {
	m.looking.Lock()
	defer m.looking.Unlock()
	if s.asked != nil {
		select {
		case <-s.asked:
		default:
			return
		}
	}
	ctx, cancel := context.WithTimeout(s.ctx, lookTime)
	defer cancel()
	asked := make(chan struct{})
	s.asked = asked
	go func() {
		defer close(asked)
		for state, err := range s.election.Watch(ctx) {
			switch {
			case ctx.Err() != nil: // it is late, and may be old
			case err == nil:
				m.see(s, state, time.Now())
			default:
				s.stop()
			}
			return
		}
	}()
	select {
	case <-asked:
	case <-ctx.Done():
		m.see(s, elect.State{Stale: true}, time.Now())
	}
}

// Close ends the observation, and waits until it has ended. The counters keep their values. Close may be called more
// than once.
func (m *Metrics) Close() { m.end(m.present.Swap(nil)) }

// see notes a state of the election.
func (m *Metrics) see(of *subscription, state elect.State, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if of.ctx.Err() != nil {
		return // lookAway may have been called, or a later subscription have begun
	}
	s := &m.sight
	s.by = of
	if state.Leader == nil || state.Stale {
		if s.since.IsZero() {
			s.since = now
		}
		s.leader = ""
		return
	}
	l := state.Leader
	if s.last != 0 && l.Token != s.last {
		m.changes.Add(terms(of, s.last, l.Token))
		if !s.since.IsZero() {
			m.failover.Observe(now.Sub(s.since).Seconds())
		}
	}
	s.settle(now)
	s.leader, s.last = strings.ToValidUTF8(l.ID, "\uFFFD"), l.Token
}

// terms is the number of new terms from the one with the token last to the one with the token now. Where looks are far
// apart the tokens tell, which a lock numbers one by one.
func terms(of *subscription, last, now elect.Token) float64 {
	if of.looks && now > last && now.Era() == last.Era() {
		return float64(now - last)
	}
	return 1
}

// lookAway notes that of observes nothing any more.
func (m *Metrics) lookAway(of *subscription, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sight.by == of {
		m.sight.settle(now)
		m.sight.by, m.sight.leader = nil, ""
	}
}

// settle ends a time without a leader.
func (s *sight) settle(now time.Time) {
	s.without = s.total(now)
	s.since = time.Time{}
}

// total is the time without a leader until now.
func (s *sight) total(now time.Time) time.Duration {
	if s.since.IsZero() {
		return s.without
	}
	return s.without + max(0, now.Sub(s.since))
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.counted {
		c.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{m.hasLeader, m.leaderInfo, m.leaderless, m.isLeader, m.leaderTerm, m.remaining, m.healthy, m.inState, m.build.Desc()} {
		ch <- d
	}
	m.measured.describe(ch)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	s := m.present.Load()
	if s != nil && s.looks {
		if m.look(s); s.ctx.Err() != nil {
			m.end(s)
		}
	}
	for _, c := range m.counted {
		c.Collect(ch)
	}
	ch <- m.build
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if health := m.health.Load(); health != nil {
		gauge(m.healthy, *health)
	}
	now := int(m.state.Load())
	for i, state := range states {
		gauge(m.inState, number(i == now), state)
	}

	m.mu.Lock()
	seen, total := m.sight, m.sight.total(time.Now())
	m.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(m.leaderless, prometheus.CounterValue, total.Seconds())
	if seen.by != nil {
		gauge(m.hasLeader, number(seen.since.IsZero()))
		if seen.since.IsZero() {
			gauge(m.leaderInfo, 1, seen.leader)
		}
	}

	if s.ended() {
		return
	}
	if measurements, ok := s.election.Measure(); ok {
		m.measured.collect(ch, s.election.Limits(), &measurements)
	}
	t := m.term.Load()
	leads := t != nil && t.Check() == nil
	gauge(m.isLeader, number(leads))
	if leads {
		gauge(m.leaderTerm, float64(t.Token()))
		if left, bounded := t.Remaining(); bounded {
			gauge(m.remaining, left.Seconds())
		}
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
