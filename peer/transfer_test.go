package peer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/disk"
)

func ineligible(t *testing.T, err error, says string) {
	t.Helper()
	if !errors.Is(err, driver.ErrIneligible) || !strings.Contains(err.Error(), says) {
		t.Errorf("%v; want ErrIneligible, and that it says %q", err, says)
	}
}

// A transfer goes to the named voter, repeatedly, within two round trips, and the leader knows which voters could not
// take over.
func TestTransfer(t *testing.T) {
	inCluster(t, 5, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		waits := make([]<-chan outcomeOf, len(nodes))
		for i := 1; i < 4; i++ {
			waits[i] = campaign(t.Context(), nodes[i])
		}
		<-time.After(time.Second)
		for _, next := range []int{2, 1, 3, 0, 3} {
			tr := m.(driver.MandateTransferrer)
			holder := m.(*mandate).n.cfg.ID
			ineligible(t, tr.Eligible(string(holder)), "leads already")
			ineligible(t, tr.Eligible("n9"), "n9 is no voter; want one of ")
			ineligible(t, tr.Eligible("n5"), "n5 would not stand: it is paused, or does not campaign")
			to := nodes[next].cfg.ID
			if err := tr.Eligible(string(to)); err != nil {
				t.Errorf("Eligible of %s: %v", to, err)
			}
			start := time.Now()
			if err := tr.Transfer(t.Context(), string(to)); err != nil {
				t.Fatal(err)
			}
			if err := context.Cause(m.Context()); !errors.Is(err, driver.ErrResigned) {
				t.Errorf("the mandate ended with %v; want ErrResigned", err)
			}
			o := within(t, waits[next], "the successor")
			if o.err != nil {
				t.Fatal(o.err)
			}
			if took := time.Since(start); took > 5*time.Millisecond {
				t.Errorf("it took %v until %s was active; want a few hops of %v", took, to, v.hop)
			}
			if o.m.Token() <= m.Token() {
				t.Errorf("token %v after %v", o.m.Token(), m.Token())
			}
			waits[next] = nil
			for i, id := range v.all {
				if id == holder {
					waits[i] = campaign(t.Context(), nodes[i])
				}
			}
			m = o.m
			<-time.After(time.Second)
		}
		v.isolate("n2", true)
		<-time.After(900 * time.Millisecond)
		ineligible(t, m.(driver.MandateTransferrer).Eligible("n2"), "n2 has not answered for ")
		if err := m.Check(); err != nil {
			t.Errorf("the leader without n2: %v", err)
		}
	})
}

// Where no voter could take over, a transfer to the best is refused, with the reason of each, and the leader leads on.
func TestAppointNobody(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		v.change = func(c *setup) {
			if c.ID == "n3" {
				c.Priority = driver.NeverLead
			}
		}
		nodes := v.openAll()
		ctx, end := context.WithCancel(t.Context())
		defer end()
		never := campaign(ctx, nodes[2])
		<-time.After(10 * time.Second)
		m := win(t, nodes[0])
		<-time.After(time.Second)
		err := nodes[0].Transfer(t.Context(), 0, "")
		ineligible(t, err, "nobody could: n2 would not stand")
		ineligible(t, err, "n3 never leads: its priority is never")
		ineligible(t, nodes[0].Transfer(t.Context(), m.Token(), "n3"), "n3 never leads")
		if err := nodes[0].Transfer(t.Context(), m.Token()+1, "n2"); !errors.Is(err, driver.ErrSuperseded) {
			t.Errorf("Transfer with another token: %v; want ErrSuperseded", err)
		}
		if err := m.Check(); err != nil {
			t.Errorf("a transfer that was refused ended the mandate: %v", err)
		}
		next := campaign(t.Context(), nodes[1])
		<-time.After(time.Second)
		if err := nodes[0].Transfer(t.Context(), m.Token(), ""); err != nil {
			t.Errorf("Transfer of the best: %v", err)
		}
		<-m.Context().Done()
		if err := context.Cause(m.Context()); !errors.Is(err, driver.ErrResigned) || !strings.Contains(err.Error(), "asked to hand over") {
			t.Errorf("the mandate ended with %v; want ErrResigned: asked to hand over", err)
		}
		// The lease goes on until the work has returned.
		<-time.After(3 * time.Second)
		if left, _ := m.Remaining(); left <= 0 {
			t.Error("a leader that stops its work is not renewed")
		}
		release(t, m)
		if o := within(t, next, "n2"); o.err != nil || o.m.Check() != nil {
			t.Errorf("n2 after the transfer: %v", o.err)
		}
		end()
		if o := within(t, never, "n3"); !errors.Is(o.err, context.Canceled) {
			t.Errorf("one that never leads returned %+v", o)
		}
	})
}

// Priorities: the waiting candidate with the greatest comes first, and a leader hands over to a greater one that has
// been fit for long enough.
func TestPriority(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		v.change = func(c *setup) {
			if c.ID == "n3" {
				c.Priority = 500
			}
		}
		nodes := v.openAll()
		promise := nodes[0].plan.Promise
		m := win(t, nodes[0])
		low := campaign(t.Context(), nodes[1])
		high := campaign(t.Context(), nodes[2])
		start := time.Now()
		<-m.Context().Done()
		if err := context.Cause(m.Context()); !errors.Is(err, driver.ErrResigned) || !strings.Contains(err.Error(), "another has a greater priority") {
			t.Errorf("the mandate ended with %v; want ErrResigned: another has a greater priority", err)
		}
		if took := time.Since(start); took < 9*promise || took > 11*promise {
			t.Errorf("it gave way after %v; want about %v", took, 10*promise)
		}
		release(t, m)
		o := within(t, high, "n3")
		if o.err != nil {
			t.Fatal(o.err)
		}
		<-time.After(time.Second)
		if s := nodes[2].Status(); s.Priority != 500 || nodes[1].Status().Priority != driver.DefaultPriority {
			t.Errorf("n3 shows priority %d, n2 %d", s.Priority, nodes[1].Status().Priority)
		}
		// A Candidacy's own replaces that of the configuration.
		mine := make(chan outcomeOf, 1)
		go func() {
			m, err := nodes[0].Campaign(t.Context(), driver.Candidacy{Exclusive: true, Priority: 101})
			mine <- outcomeOf{m, err}
		}()
		<-time.After(time.Second)
		release(t, o.m)
		o = within(t, mine, "n1, whose priority is above that of n2")
		if o.err != nil {
			t.Fatal(o.err)
		}
		if got := nodes[0].Status().Priority; got != 101 {
			t.Errorf("n1 shows priority %d; want 101", got)
		}
		<-time.After(time.Second)
		release(t, o.m)
		release(t, within(t, low, "n2").m)
		for _, wrong := range []int{-2, 1001} {
			_, err := nodes[0].Campaign(t.Context(), driver.Candidacy{Priority: wrong})
			refusedFor(t, err, "want 1 to 1000")
		}
	})
}

// A paused node gives up and does not stand, votes, and stays paused across restarts until it is resumed. Where all are
// paused, all can see why there is no leader.
func TestPaused(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		next := campaign(t.Context(), nodes[1])
		<-time.After(time.Second)
		if err := nodes[0].Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-m.Context().Done()
		if err := context.Cause(m.Context()); !errors.Is(err, driver.ErrResigned) || !strings.Contains(err.Error(), "paused") {
			t.Errorf("the mandate ended with %v; want ErrResigned: paused", err)
		}
		<-time.After(3 * time.Second)
		if left, _ := m.Remaining(); left <= 0 {
			t.Error("a leader that was paused is not renewed while its work stops")
		}
		release(t, m)
		n := within(t, next, "n2").m
		token := n.Token()
		if !nodes[0].Status().Paused || nodes[1].Status().Paused {
			t.Error("n1 is not shown as paused, or n2 is")
		}
		<-time.After(time.Second)
		ineligible(t, n.(driver.MandateTransferrer).Eligible("n1"), "n1 would not stand: it is paused")

		_ = nodes[0].Close()
		nodes[0] = v.open("n1")
		ctx, end := context.WithCancel(t.Context())
		defer end()
		paused := campaign(ctx, nodes[0])
		<-time.After(time.Second)
		release(t, n)
		<-time.After(10 * time.Second)
		if len(paused) > 0 {
			t.Fatal("a paused node was elected after a restart")
		}
		m = win(t, nodes[2]) // with the vote of n1 or n2
		<-time.After(time.Second)
		if err := nodes[0].Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := nodes[0].Resume(t.Context()); err != nil { // nothing changes
			t.Fatal(err)
		}
		<-time.After(time.Second)
		release(t, m)
		o := within(t, paused, "n1, after it was resumed")
		if o.err != nil {
			t.Fatal(o.err)
		}
		<-time.After(time.Second)
		events, err := nodes[0].leaders.history()
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, e := range events {
			if e.Leader == "n1" && (e.Event == eventPaused || e.Event == eventResumed) {
				told = append(told, e.Event+" "+e.Token.String()+" "+e.Reason)
			}
		}
		if want := []string{"paused 1 this program", "resumed " + m.Token().String() + " this program"}; !slices.Equal(told, want) {
			t.Errorf("the history has %q; want %q", told, want)
		}
		if token >= m.Token() {
			t.Errorf("token %v after %v", m.Token(), token)
		}

		for _, n := range nodes {
			if err := n.Pause(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		<-o.m.Context().Done()
		release(t, o.m)
		for _, n := range nodes {
			sees(t, n, "that nobody leads, and why", func(s driver.State) bool {
				return s.Leader == nil && s.Cause != nil && s.Cause.Error() == string(n.cfg.ID)+" is paused"
			})
		}
	})
}

// An observer has nothing to pause, and neither has a node that is closed.
func TestPauseIsRefused(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, v *fakeCluster) {
		v.obs = names("o", 1)
		nodes := v.openAll()
		if err := nodes[1].Pause(t.Context()); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "o1 is an observer and never stands") {
			t.Errorf("an observer: %v", err)
		}
		m := win(t, nodes[0])
		ineligible(t, m.(driver.MandateTransferrer).Eligible("n2"), "n1 is the only voter")
		ineligible(t, nodes[0].Transfer(t.Context(), 0, ""), "there is no other voter")
		release(t, m)
		_ = nodes[0].Close()
		if err := nodes[0].Pause(t.Context()); err == nil {
			t.Error("a node that is closed was paused")
		}
		if err := nodes[0].Transfer(t.Context(), 0, ""); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("Transfer after Close: %v", err)
		}
	})
}

// From elsewhere, by way of a node that does not lead, with real connections.
func TestAppointFromElsewhere(t *testing.T) {
	long.Test(t, "it waits for promises of 3 s")
	t.Parallel()
	c := newCluster(t, names("n", 3), nil, false).steady()
	c.startAll()
	m := win(t, c.node("n1"))
	next := campaign(t.Context(), c.node("n3"))
	sees(t, c.node("n2"), "the leader", leads(m))
	eventually(t, func() bool { return m.(driver.MandateTransferrer).Eligible("n3") == nil }, func() string { return "n3 does not become eligible" })
	ineligible(t, c.node("n2").Transfer(t.Context(), 0, "n2"), "n2 would not stand")
	ineligible(t, c.node("n2").Transfer(t.Context(), 0, "n1"), "n1 leads already")
	// Of its first answers one may still say that it does not campaign.
	appoint := func(by driver.Transferrer, to string) {
		t.Helper()
		var err error
		eventually(t, func() bool {
			err = by.Transfer(t.Context(), m.Token(), to)
			return !errors.Is(err, driver.ErrIneligible)
		}, func() string { return err.Error() })
		if err != nil {
			t.Fatal(err)
		}
	}
	appoint(c.node("n2"), "n3")
	<-m.Context().Done()
	release(t, m)
	m = within(t, next, "n3").m

	client, err := newClient(c.config("visitor"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	next = campaign(t.Context(), c.node("n2"))
	eventually(t, func() bool { return m.(driver.MandateTransferrer).Eligible("n2") == nil }, func() string { return "n2 does not become eligible" })
	sees(t, client, "the leader", leads(m))
	appoint(client, "n2")
	<-m.Context().Done()
	release(t, m)
	m = within(t, next, "n2").m

	for _, id := range []protocol.NodeID{"n1", "n2", "n3"} {
		if err := client.Pause(t.Context(), string(id)); err != nil {
			t.Errorf("pausing %s: %v", id, err)
		}
	}
	<-m.Context().Done()
	release(t, m)
	// One that the URL does not list is found by the membership.
	cfg := c.config("visitor")
	cfg.Voters = cfg.Voters[:1]
	few, err := newClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer few.Close()
	for _, verb := range []string{verbResume, verbPause} {
		on := verb == verbPause
		if err := few.setPaused(t.Context(), "n3", verb); err != nil || c.node("n3").pausing.isPaused() != on {
			t.Errorf("n3, which the URL does not list, paused %v: %v, and it is %v", on, err, c.node("n3").pausing.isPaused())
		}
	}
	sees(t, client, "that all are paused", func(s driver.State) bool {
		return s.Leader == nil && s.Cause != nil && strings.Contains(s.Cause.Error(), "all voters that answer are paused: n1, n2, n3")
	})
	eventually(t, func() bool {
		events, err := client.History(t.Context())
		paused := 0
		for _, e := range events {
			if e.Event == eventPaused && strings.Contains(e.Reason, "127.0.0.1") && e.Token == m.Token() {
				paused++
			}
		}
		return err == nil && paused == 4
	}, func() string { return "the history does not have who was paused, and by whom" })
}

// A leader whose term has lapsed, and whose work has yet to return, no longer leads: a transfer is not refused as if it
// led on.
func TestAppointAfterLapse(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		v.isolate("n1", true)
		<-m.Context().Done()
		<-time.After(2 * time.Second)
		for _, to := range []string{"", "n2"} {
			if err := nodes[0].handover.appoint(t.Context(), 0, to); !errors.Is(err, driver.ErrNoLeader) {
				t.Errorf("Transfer of %q at one whose term is over: %v; want ErrNoLeader", to, err)
			}
			if err := m.(driver.MandateTransferrer).Eligible(to); err == nil || errors.Is(err, driver.ErrIneligible) || !errors.Is(err, context.Cause(m.Context())) {
				t.Errorf("Eligible of %q: %v; want why the mandate is over, %v", to, err, context.Cause(m.Context()))
			}
		}
		v.isolate("n1", false)
		release(t, m)
	})
}

// After a write that failed the disk's contents are unknown: the next order is written even if the node obeys it
// already.
func TestPauseWriteFails(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, v *fakeCluster) {
		n := v.openAll()[0]
		path := filepath.Join(n.at.String(), "paused")
		if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
			t.Fatal(err)
		}
		err := n.Pause(t.Context())
		if err == nil || !strings.Contains(err.Error(), "want it said again") || n.pausing.isPaused() {
			t.Fatalf("a pause that cannot be written: %v; paused: %v", err, n.pausing.isPaused())
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := n.dir.SetPause(disk.Pause{Paused: true}); err != nil { // as if it had been written after all
			t.Fatal(err)
		}
		if err := n.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p, err := n.dir.Pause(); err != nil || p.Paused {
			t.Errorf("a resume after that was not written: %+v, %v", p, err)
		}
		release(t, win(t, n))
	})
}
