package electprom_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/electprom"
	"github.com/electd/elect/store/memory"
)

const lease = time.Second

// participant is one candidate with its metrics and a diary of its events.
type participant struct {
	*elect.Election
	link     *memory.Elector
	metrics  *electprom.Metrics
	registry *prometheus.Registry
	ill      atomic.Bool

	term  atomic.Pointer[elect.Term] // the last one
	mu    sync.Mutex
	diary map[string]float64 // what the counters must show
}

func stand(t testing.TB, store *memory.Store, id string) *participant {
	t.Helper()
	link, err := store.New("job", id, memory.Config{Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	p := &participant{link: link, metrics: electprom.New("job"), registry: prometheus.NewPedanticRegistry(), diary: map[string]float64{}}
	p.registry.MustRegister(p.metrics)
	p.Election, err = elect.New(link, elect.Config{OnEvent: p.note, Health: elect.Health{Every: time.Second, Check: func(context.Context) error {
		if p.ill.Load() {
			return errors.New("the disk hangs")
		}
		return nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
	p.metrics.Attach(p.Election)
	t.Cleanup(func() {
		p.metrics.Close()
		_ = p.Close()
	})
	return p
}

// note writes down an event in the words of the metrics.
func (p *participant) note(e elect.Event) {
	p.metrics.OnEvent(e)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Kind {
	case elect.EventElected:
		p.term.Store(e.Term)
		p.diary[`elect_elections_total{election="job",result="won"}`]++
	case elect.EventFailed:
		p.diary[`elect_elections_total{election="job",result="failed"}`]++
	case elect.EventEnded:
		loss, _ := errors.AsType[*elect.LostError](e.Err)
		p.diary[fmt.Sprintf(`elect_step_downs_total{election="job",reason=%q}`, loss.Reason)]++
		p.diary[`elect_leadership_duration_seconds_count{election="job"}`]++
	case elect.EventOverrun:
		p.diary[`elect_stop_overrun_total{election="job"}`]++
	case elect.EventIll:
		p.diary[`elect_healthy{election="job"}`] = 0
	case elect.EventWell:
		p.diary[`elect_healthy{election="job"}`] = 1
	}
}

// lead leads until the test ends or stop is called.
func (p *participant) lead(t testing.TB, work func(context.Context, *elect.Term) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Lead(ctx, work)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// until is work that does nothing but wait for its end.
func until(ctx context.Context, _ *elect.Term) error {
	<-ctx.Done()
	return nil
}

// scrape returns the samples of a registry as Prometheus gets them.
func scrape(t testing.TB, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(g, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("the scrape failed: %s", w.Body)
	}
	all := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cut := strings.LastIndex(line, " ")
		value, err := strconv.ParseFloat(strings.TrimSpace(line[cut:]), 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all[line[:cut]] = value
	}
	return all
}

// says asserts values of samples, by their names without the label election; -1 is for those that must not be there.
func (p *participant) says(t testing.TB, want map[string]float64) {
	t.Helper()
	got := scrape(t, p.registry)
	for name, value := range want {
		base, labels, _ := strings.Cut(name, "{")
		labels = strings.TrimSuffix(`{election="job",`+labels, ",")
		if !strings.HasSuffix(labels, "}") {
			labels += "}"
		}
		if v, ok := got[base+labels]; value == -1 && ok || value != -1 && (!ok || v != value) {
			t.Errorf("%s is %v (there: %t); want %v", name, v, ok, value)
		}
	}
}

// TestMetricsAgreeWithEvents: through kills, resignations, losses, overruns and illness each counter of each
// participant is what its events say, and what all see of the leader is the same.
func TestMetricsAgreeWithEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		all := []*participant{stand(t, store, "a"), stand(t, store, "b"), stand(t, store, "c")}
		var holder atomic.Pointer[participant]
		var slow atomic.Bool
		won := 0.0
		var mu sync.Mutex
		for _, p := range all {
			p.lead(t, func(ctx context.Context, _ *elect.Term) error {
				mu.Lock()
				won++
				mu.Unlock()
				holder.Store(p)
				<-ctx.Done()
				if slow.Swap(false) {
					time.Sleep(2 * lease)
				}
				return nil
			})
		}
		settle := func() { time.Sleep(4 * lease); synctest.Wait() }
		settle()
		for round := range 12 {
			p := holder.Load()
			switch round % 6 {
			case 0:
				p.term.Load().Resign()
			case 1:
				store.Recreate()
			case 2:
				p.link.Cut(true)
				settle()
				p.link.Cut(false)
			case 3:
				slow.Store(true)
				p.link.Freeze(true)
				settle()
				p.link.Freeze(false)
			case 4:
				p.ill.Store(true)
				settle()
				p.ill.Store(false)
			case 5:
				store.Outage(true)
				settle()
				store.Outage(false)
			}
			settle()
		}
		dead := holder.Load()
		dead.link.Crash()
		settle()

		reasons := map[string]bool{}
		var seen, changes []float64
		for i, p := range all {
			got := scrape(t, p.registry)
			want := map[string]float64{}
			for name := range got {
				if regexp.MustCompile(`^elect_(elections|step_downs|stop_overrun)_total|^elect_leadership_duration_seconds_count|^elect_healthy`).MatchString(name) {
					want[name] = 0 // an event that never came
				}
			}
			p.mu.Lock()
			maps.Copy(want, p.diary)
			p.mu.Unlock()
			for name, value := range want {
				if v, ok := got[name]; !ok || v != value {
					t.Errorf("participant %d: %s is %v; its events say %v", i, name, v, value)
				}
				if strings.HasPrefix(name, "elect_step_downs") && value > 0 {
					reasons[name] = true
				}
			}
			if changes = append(changes, got[`elect_leader_changes_total{election="job"}`]); p != dead {
				seen = append(seen, changes[i])
			}
		}
		if len(reasons) != len(electprom.Reasons())-1 { // a lease with a drain expires when the store is unreachable
			t.Errorf("terms ended for the reasons %v; want all but store-unreachable to have come", reasons)
		}
		if seen[0] != won-1 || seen[1] != won-1 {
			t.Errorf("%v leader changes were seen, and %v terms won", changes, won)
		}
	})
}

// TestScrapeProvesLeadership: what is said of the leader is true at the scrape, also before any event came.
func TestScrapeProvesLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, b := stand(t, store, "a"), stand(t, store, "b")
		synctest.Wait()
		a.says(t, map[string]float64{
			`elect_state{state="idle"}`: 1, `elect_state{state="leader"}`: 0,
			"elect_has_leader": 0, "elect_is_leader": 0, "elect_leader_term": -1, "elect_healthy": -1, "elect_lease_remaining_seconds": -1,
			`elect_leader_info{leader="a"}`: -1, "elect_leaderless_seconds_total": 0,
		})
		time.Sleep(3 * time.Second)
		stop := a.lead(t, until)
		synctest.Wait()
		b.lead(t, until)
		synctest.Wait()
		a.says(t, map[string]float64{
			`elect_state{state="idle"}`: 0, `elect_state{state="candidate"}`: 0, `elect_state{state="leader"}`: 1, `elect_state{state="stopping"}`: 0,
			"elect_has_leader": 1, "elect_is_leader": 1, "elect_leader_term": 1, "elect_healthy": 1, "elect_lease_remaining_seconds": lease.Seconds(),
			`elect_leader_info{leader="a"}`: 1, "elect_leaderless_seconds_total": 3, "elect_leader_changes_total": 0,
			"elect_failover_duration_seconds_count": 0,
		})
		b.says(t, map[string]float64{`elect_state{state="candidate"}`: 1, "elect_has_leader": 1, "elect_is_leader": 0, "elect_leader_term": -1, `elect_leader_info{leader="a"}`: 1})

		a.link.Freeze(true) // nothing renews, and nobody is told
		time.Sleep(lease)
		a.says(t, map[string]float64{"elect_is_leader": 0, "elect_leader_term": -1, "elect_lease_remaining_seconds": -1})
		synctest.Wait()
		b.says(t, map[string]float64{
			"elect_is_leader": 1, "elect_leader_term": 2, `elect_leader_info{leader="b"}`: 1, `elect_leader_info{leader="a"}`: -1,
			"elect_leader_changes_total": 1,
		})
		a.link.Freeze(false)
		stop()

		store.Outage(true) // who leads is not known, and after the outage it is the same one
		synctest.Wait()
		b.says(t, map[string]float64{"elect_has_leader": 0, `elect_leader_info{leader="b"}`: -1, "elect_is_leader": 1})
		time.Sleep(lease / 4)
		store.Outage(false)
		time.Sleep(lease)
		b.says(t, map[string]float64{"elect_has_leader": 1, "elect_leader_changes_total": 1})

		b.metrics.Close()
		b.says(t, map[string]float64{"elect_has_leader": -1, "elect_is_leader": -1, `elect_leader_info{leader="b"}`: -1, "elect_leader_changes_total": 1})
		b.metrics.Close()
		b.metrics.Attach(b.Election)
		synctest.Wait()
		b.says(t, map[string]float64{"elect_has_leader": 1, "elect_is_leader": 1, "elect_leader_changes_total": 1})
		_ = b.Close()
		synctest.Wait()
		b.says(t, map[string]float64{"elect_has_leader": -1, "elect_is_leader": -1, "elect_leader_term": -1, "elect_leader_changes_total": 1})
	})
}

// TestFailoverIsMeasured: the time without a leader ends with another term, whatever else is seen in between.
func TestFailoverIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, b, c := stand(t, store, "a"), stand(t, store, "b"), stand(t, store, "c")
		a.lead(t, until)
		synctest.Wait()
		a.link.Crash()
		time.Sleep(2 * lease)
		store.Outage(true) // another state without a leader
		synctest.Wait()
		store.Outage(false)
		time.Sleep(lease)
		c.says(t, map[string]float64{"elect_has_leader": 0, "elect_leaderless_seconds_total": 2, "elect_failover_duration_seconds_count": 0})
		b.lead(t, until)
		synctest.Wait()
		c.says(t, map[string]float64{
			"elect_has_leader": 1, "elect_leaderless_seconds_total": 2, "elect_leader_changes_total": 1,
			"elect_failover_duration_seconds_count": 1, "elect_failover_duration_seconds_sum": 2,
		})
	})
}

// TestHangingScraper: a scrape that nobody reads delays no event and no sight of the leader.
func TestHangingScraper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a := stand(t, store, "a")
		stop := a.lead(t, until)
		synctest.Wait()
		for samples := range 30 { // a scrape that hangs after each of its samples, or ends
			ch := make(chan prometheus.Metric)
			go func() {
				a.metrics.Collect(ch)
				close(ch)
			}()
			for range samples {
				<-ch
			}
			synctest.Wait()
			defer func() {
				for range ch {
				}
			}()
		}
		begun := time.Now()
		stop()
		b := stand(t, store, "b")
		b.lead(t, until)
		synctest.Wait()
		a.metrics.OnEvent(elect.Event{Kind: elect.EventIll})
		if took := time.Since(begun); took != 0 {
			t.Errorf("the events took %v", took)
		}
		a.says(t, map[string]float64{`elect_step_downs_total{reason="shutdown"}`: 1, `elect_leader_info{leader="b"}`: 1, "elect_healthy": 0})
	})
}

// TestLint holds the names to Prometheus' conventions, and many elections in one registry beside each other.
func TestLint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := stand(t, memory.NewStore(0), "a")
		a.lead(t, until)
		synctest.Wait()
		a.registry.MustRegister(electprom.New("other"), electprom.New("not\xffUTF-8"))
		problems, err := testutil.GatherAndLint(a.registry)
		if err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
	})
}

// measuring is an elector that measures.
type measuring struct {
	*memory.Elector
	of *driver.Measurements
}

func (m measuring) Measure() driver.Measurements { return *m.of }

// TestMeasurements: what a back end measures is read at the scrape, and not after the election was closed.
func TestMeasurements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, err := memory.NewStore(0).New("job", "a", memory.Config{Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		of := &driver.Measurements{
			Voters: 3, Quorum: 2, QuorumContact: -1, ClockSteps: 4, Pauses: 5, LongestPause: time.Second, Renewals: 11,
			Saves: driver.Durations{Count: 6, Sum: 3 * time.Second, Within: map[time.Duration]uint64{time.Second: 5}}, Membership: "7.3",
			Peers: []driver.PeerMeasurements{{ID: "b", Up: true, RoundTrip: time.Millisecond, Sent: 7, Received: 8, Dropped: 9, Voter: &driver.VoterMeasurements{Lag: 4 * time.Second, Apart: true}}, {ID: "c\xff", RoundTrip: time.Second}},
		}
		p := &participant{metrics: electprom.New("job"), registry: prometheus.NewPedanticRegistry()}
		p.registry.MustRegister(p.metrics)
		if p.Election, err = elect.New(measuring{link, of}, elect.Config{}); err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		p.metrics.Attach(p.Election)
		defer p.metrics.Close()
		synctest.Wait()
		p.says(t, map[string]float64{
			"elect_voters": 3, "elect_quorum_size": 2, "elect_last_quorum_contact_seconds": -1, "elect_clock_steps_total": 4,
			"elect_process_pauses_total": 5, "elect_process_pause_longest_seconds": 1, "elect_lease_renewals_total": 11,
			"elect_ballot_sync_duration_seconds_count": 6, "elect_ballot_sync_duration_seconds_sum": 3, `elect_ballot_sync_duration_seconds_bucket{le="1"}`: 5,
			`elect_peer_lag_seconds{peer="b"}`: 4, `elect_peer_clock_apart{peer="b"}`: 1, "elect_peer_lag_seconds{peer=\"c\uFFFD\"}": -1,
			`elect_peer_up{peer="b"}`: 1, `elect_peer_round_trip_seconds{peer="b"}`: .001, `elect_messages_sent_total{peer="b"}`: 7,
			`elect_messages_received_total{peer="b"}`: 8, `elect_messages_dropped_total{peer="b"}`: 9,
			"elect_peer_up{peer=\"c\uFFFD\"}": 0, "elect_peer_round_trip_seconds{peer=\"c\uFFFD\"}": -1,
		})
		if problems, err := testutil.GatherAndLint(p.registry); err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
		of.QuorumContact, of.Peers = 3*time.Second, nil
		p.says(t, map[string]float64{"elect_last_quorum_contact_seconds": 3, `elect_peer_up{peer="b"}`: -1})
		of.Requests = []driver.RequestMeasurements{{
			Op: "write", Result: "done", Durations: driver.Durations{Count: 3, Sum: 4 * time.Second, Within: map[time.Duration]uint64{time.Millisecond: 1, time.Second: 2}},
		}}
		p.says(t, map[string]float64{
			"elect_voters": -1, `elect_store_request_duration_seconds_count{op="write",result="done"}`: 3,
			`elect_store_request_duration_seconds_sum{op="write",result="done"}`:               4,
			`elect_store_request_duration_seconds_bucket{op="write",result="done",le="0.001"}`: 1,
			`elect_store_request_duration_seconds_bucket{op="write",result="done",le="1"}`:     2,
			`elect_store_request_duration_seconds_bucket{op="write",result="done",le="+Inf"}`:  3,
		})
		if problems, err := testutil.GatherAndLint(p.registry); err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
		_ = p.Close()
		synctest.Wait()
		p.says(t, map[string]float64{`elect_store_request_duration_seconds_count{op="write",result="done"}`: -1})
	})
}

// lock is an election without a lease, which a subscription polls.
type lock struct {
	*memory.Elector
	state *driver.State
	looks int
	over  bool
	hang  atomic.Pointer[chan struct{}] // unless nil, a call of the system hangs until it is closed
}

func (l *lock) Close() error { l.over = true; return l.Elector.Close() }

func (l *lock) Limits() driver.Limits {
	limits := l.Elector.Limits()
	limits.Lease = 0
	return limits
}

func (l *lock) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		for ctx.Err() == nil && !l.over {
			l.looks++
			if hang := l.hang.Load(); hang != nil {
				<-*hang
			}
			if !yield(*l.state, nil) {
				return
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

// behind returns a participant that follows b, which leads without a lease.
func behind(t *testing.T) (*participant, *lock) {
	t.Helper()
	link, err := memory.NewStore(0).New("job", "a", memory.Config{Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	l := &lock{Elector: link, state: &driver.State{Leader: &driver.Leader{ID: "b", Token: 5}}}
	p := &participant{metrics: electprom.New("job"), registry: prometheus.NewPedanticRegistry()}
	p.registry.MustRegister(p.metrics)
	if p.Election, err = elect.New(l, elect.Config{}); err != nil {
		t.Fatal(err)
	}
	return p, l
}

// TestOnlyAScrapeLooks: where there is no lease, nobody looks who leads between two scrapes, and no new term is lost.
func TestOnlyAScrapeLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := behind(t)
		defer p.Close()
		p.metrics.Attach(p.Election)
		looks := func(want int) {
			t.Helper()
			time.Sleep(time.Hour)
			synctest.Wait()
			if l.looks != want {
				t.Fatalf("%d looks; want %d", l.looks, want)
			}
		}
		looks(1) // by Attach, so that the first scrape knows of terms before it
		l.state = &driver.State{Leader: &driver.Leader{ID: "c", Token: 8}}
		p.says(t, map[string]float64{"elect_has_leader": 1, `elect_leader_info{leader="c"}`: 1, "elect_leader_changes_total": 3, "elect_is_leader": 0})
		looks(2)
		l.state = &driver.State{}
		p.says(t, map[string]float64{"elect_has_leader": 0, "elect_leader_changes_total": 3, "elect_leaderless_seconds_total": 0})
		looks(3)
		l.state = &driver.State{Leader: &driver.Leader{ID: "b", Token: 1<<48 | 1}} // the first one of era 1
		p.says(t, map[string]float64{"elect_has_leader": 1, "elect_leader_changes_total": 4, "elect_leaderless_seconds_total": 3600, "elect_failover_duration_seconds_count": 1})
		p.metrics.Close()
		p.says(t, map[string]float64{"elect_has_leader": -1, "elect_is_leader": -1, "elect_leader_changes_total": 4})
		p.metrics.Attach(p.Election)
		synctest.Wait()
		p.says(t, map[string]float64{"elect_has_leader": 1, "elect_is_leader": 0})
		looks(6)
		_ = p.Close()
		p.says(t, map[string]float64{"elect_has_leader": -1, "elect_is_leader": -1, "elect_leader_changes_total": 4})
	})
}

// TestHangingLook: a back end that hangs holds no scrape for longer than a look may take, and is asked once.
func TestHangingLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := behind(t)
		defer p.Close()
		p.metrics.Attach(p.Election)
		synctest.Wait()
		hang := make(chan struct{})
		l.hang.Store(&hang)
		for i, most := range []time.Duration{time.Second, 0, 0} {
			began := time.Now()
			p.says(t, map[string]float64{"elect_has_leader": 0, "elect_leader_info": -1, "elect_leader_changes_total": 0})
			if took := time.Since(began); took > most {
				t.Errorf("scrape %d took %s; want %s", i, took, most)
			}
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		if l.looks != 2 {
			t.Errorf("%d looks; want one before it hung, and one that hangs", l.looks)
		}
		l.hang.Store(nil)
		l.state = &driver.State{Leader: &driver.Leader{ID: "c", Token: 6}}
		close(hang)
		synctest.Wait()
		p.says(t, map[string]float64{"elect_has_leader": 1, `elect_leader_info{leader="c"}`: 1, "elect_leader_changes_total": 1})
		synctest.Wait()
		if l.looks != 3 {
			t.Errorf("%d looks; want another one after the call returned", l.looks)
		}

		another := make(chan struct{})
		l.hang.Store(&another)
		defer close(another)
		began := time.Now()
		p.metrics.Attach(p.Election)
		p.metrics.Close()
		if took := time.Since(began); took > time.Second {
			t.Errorf("Close took %s while a look hung; want a second at most", took)
		}
	})
}

// TestStates: each kind of event leaves the participant in the state that the page says, and a health check in none.
func TestStates(t *testing.T) {
	p := &participant{metrics: electprom.New("job"), registry: prometheus.NewPedanticRegistry()}
	p.registry.MustRegister(p.metrics)
	for _, c := range []struct {
		kind  elect.EventKind
		state string
	}{
		{elect.EventCampaigning, "candidate"}, {elect.EventIll, "candidate"}, {elect.EventWithdrawn, "idle"}, {elect.EventWell, "idle"},
		{elect.EventCampaigning, "candidate"}, {elect.EventFailed, "idle"}, {elect.EventCampaigning, "candidate"}, {elect.EventElected, "leader"},
		{elect.EventEnded, "stopping"}, {elect.EventOverrun, "stopping"}, {elect.EventReleased, "idle"},
	} {
		p.metrics.OnEvent(elect.Event{Kind: c.kind, Err: &elect.LostError{Reason: elect.ReasonExpired}})
		want := map[string]float64{`elect_state{state="idle"}`: 0, `elect_state{state="candidate"}`: 0, `elect_state{state="leader"}`: 0, `elect_state{state="stopping"}`: 0}
		want[fmt.Sprintf("elect_state{state=%q}", c.state)] = 1
		p.says(t, want)
	}
}

// TestConfigurations: participants have one hash if they have one lease and know one membership, and otherwise two.
func TestConfigurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hash := func(lease time.Duration, of driver.Measurements) string {
			link, err := memory.NewStore(0).New("job", "a", memory.Config{Lease: lease})
			if err != nil {
				t.Fatal(err)
			}
			p := &participant{metrics: electprom.New("job"), registry: prometheus.NewPedanticRegistry()}
			p.registry.MustRegister(p.metrics)
			if p.Election, err = elect.New(measuring{link, &of}, elect.Config{}); err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			p.metrics.Attach(p.Election)
			defer p.metrics.Close()
			synctest.Wait()
			for name := range scrape(t, p.registry) {
				if hash, ok := strings.CutPrefix(name, `elect_config_info{election="job",hash="`); ok {
					return hash
				}
			}
			t.Fatal("there is no elect_config_info")
			return ""
		}
		first := hash(time.Second, driver.Measurements{Membership: "7.3"})
		if same := hash(time.Second, driver.Measurements{Membership: "7.3", Saves: driver.Durations{Count: 7}}); same != first {
			t.Errorf("%s and %s; want one hash", first, same)
		}
		if other, lease := hash(time.Second, driver.Measurements{Membership: "7.4"}), hash(2*time.Second, driver.Measurements{Membership: "7.3"}); other == first || lease == first || other == lease {
			t.Errorf("%s, of another membership %s, of another lease %s; want three", first, other, lease)
		}
	})
}

// TestHooks: there is nothing of hooks before the first run of one.
func TestHooks(t *testing.T) {
	p := &participant{metrics: electprom.New("job"), registry: prometheus.NewPedanticRegistry()}
	p.registry.MustRegister(p.metrics)
	p.says(t, map[string]float64{`elect_hook_duration_seconds_count{hook="health"}`: -1})
	p.metrics.ObserveHook("health", time.Second)
	p.metrics.ObserveHook("health", 2*time.Second)
	p.metrics.ObserveHook("\xff", time.Second)
	p.says(t, map[string]float64{
		`elect_hook_duration_seconds_count{hook="health"}`: 2, `elect_hook_duration_seconds_sum{hook="health"}`: 3,
		"elect_hook_duration_seconds_count{hook=\"\uFFFD\"}": 1,
	})
}

// TestReasons: each reason of package elect has its counter from the start.
func TestReasons(t *testing.T) {
	code, err := os.ReadFile("../errors.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\tReason\w+ += "([a-z-]+)"`).FindAllStringSubmatch(strings.ReplaceAll(string(code), " Reason =", " ="), -1)
	if len(found) != len(electprom.Reasons()) || len(found) < 6 {
		t.Errorf("package elect has %d reasons, and electprom %d", len(found), len(electprom.Reasons()))
	}
	r, m := prometheus.NewRegistry(), electprom.New("job")
	r.MustRegister(m)
	for want := range 2 {
		got := scrape(t, r)
		for _, reason := range found {
			if v, ok := got[fmt.Sprintf(`elect_step_downs_total{election="job",reason=%q}`, reason[1])]; !ok || v != float64(want) {
				t.Errorf("reason %s: %v, %t; want %d", reason[1], v, ok, want)
			}
			m.OnEvent(elect.Event{Kind: elect.EventEnded, Err: &elect.LostError{Reason: elect.Reason(reason[1])}})
		}
	}
}

// BenchmarkScrape is one scrape of 100 elections that this process leads.
func BenchmarkScrape(b *testing.B) {
	r := prometheus.NewRegistry()
	store := memory.NewStore(0)
	var all []*electprom.Metrics
	for i := range 100 {
		name := fmt.Sprintf("job-%d", i)
		link, err := store.New(name, "a", memory.Config{Lease: time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		m := electprom.New(name)
		r.MustRegister(m)
		e, err := elect.New(link, elect.Config{OnEvent: m.OnEvent})
		if err != nil {
			b.Fatal(err)
		}
		m.Attach(e)
		all = append(all, m)
		term, err := e.Campaign(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { m.Close(); _ = term.Release(context.Background()); _ = e.Close() })
	}
	b.Run("collect", func(b *testing.B) { // what of it is this package's
		b.ReportAllocs()
		ch := make(chan prometheus.Metric, 100)
		for b.Loop() {
			for _, m := range all {
				m.Collect(ch)
				for len(ch) > 0 {
					<-ch
				}
			}
		}
	})
	b.Run("gather", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.Gather(); err != nil {
				b.Fatal(err)
			}
		}
	})
	h := promhttp.HandlerFor(r, promhttp.HandlerOpts{})
	b.Run("http", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w := httptest.NewRecorder()
			w.Body = nil // as a connection, it keeps nothing
			h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		}
	})
}
