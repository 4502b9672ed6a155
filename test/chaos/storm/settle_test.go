//go:build linux

package storm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/peer"
	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/judge"
)

// calmed is a calm election that reports these voters, one answer after the other; the last one
// repeats.
type calmed struct {
	voters [][]string
	asked  int
	unrest error
}

func (c *calmed) Calm(ctx context.Context) (cluster.Leader, error) {
	if c.unrest != nil {
		<-ctx.Done()
		return cluster.Leader{}, c.unrest
	}
	return cluster.Leader{Node: 1, Token: 7}, ctx.Err()
}

func (c *calmed) Members(context.Context) (*cluster.Members, error) {
	now := c.voters[min(c.asked, len(c.voters)-1)]
	c.asked++
	if now == nil {
		return &cluster.Members{}, nil
	}
	m := &peer.MembershipStatus{}
	for _, id := range now {
		m.Voters = append(m.Voters, peer.VoterStatus{ID: id})
	}
	return &cluster.Members{Membership: m}, nil
}

// TestSettle: a storm is over when everything is as it was. A lost or an extra voter is a broken
// promise, even if all nodes are calm.
func TestSettle(t *testing.T) {
	all := []string{"n2", "n0", "n1"}
	for _, c := range []struct {
		name  string
		on    calmed
		peers bool
		want  string // in what is complained of; "": nothing
	}{
		{"all is as it was", calmed{voters: [][]string{all}}, true, ""},
		{"a voter is lost", calmed{voters: [][]string{{"n0", "n1"}}}, true, "the voters are n0 n1; want n0 n1 n2"},
		{"a voter too many", calmed{voters: [][]string{append([]string{"n3"}, all...)}}, true, "the voters are n0 n1 n2 n3; want n0 n1 n2"},
		{"another voter", calmed{voters: [][]string{{"n0", "n1", "n3"}}}, true, "n0 n1 n3; want n0 n1 n2"},
		{"a voter comes back late", calmed{voters: [][]string{nil, {"n0", "n1"}, all}}, true, ""},
		{"no answer", calmed{voters: [][]string{nil}}, true, "no node tells its voters"},
		{"in a file there are no voters", calmed{voters: [][]string{nil}}, false, ""},
		{"no calm", calmed{unrest: errors.New("n1 is not there")}, true, "n1 is not there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plans()[0]
				p.Seed = 2 // three voters
				s := draw(t, p)
				d := newDummies(s)
				x, err := newExecutor(s, d.target(s))
				if err != nil {
					t.Fatal(err)
				}
				if s.Voters != 3 {
					t.Fatalf("%d voters; want 3", s.Voters)
				}
				x.settle(&c.on, c.peers)
				final := slices.IndexFunc(d.events, func(e judge.Event) bool { return e.Kind == judge.Final && e.Token == 7 && e.Node == 1 })
				if c.want == "" {
					if len(x.broken) > 0 || final < 0 {
						t.Errorf("%v, and the final event is number %d; want no complaint, and one", x.broken, final)
					}
					return
				}
				if !slices.ContainsFunc(d.events, func(e judge.Event) bool {
					return e.Kind == judge.Broken && e.Check == checkLive && strings.Contains(e.Text, c.want)
				}) {
					t.Errorf("the judge is not told of %v", x.broken)
				}
				if len(x.broken) != 1 || x.broken[0].Check != checkLive || !strings.Contains(x.broken[0].Text, c.want) || final >= 0 {
					t.Errorf("%v, and the final event is number %d; want a complaint with %q, and none", x.broken, final, c.want)
				}
			})
		})
	}
}

// TestJudgeFailsMeanwhile: a storm whose judge fails while it goes on, or at its end, ends with
// that error, and does not pass.
func TestJudgeFailsMeanwhile(t *testing.T) {
	for _, over := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := draw(t, plans()[0])
			d := newDummies(s)
			x, err := newExecutor(s, d.target(s))
			if err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			storm, stop := context.WithCancelCause(ctx)
			defer stop(nil)
			looking, enough := context.WithTimeout(ctx, 3*interval)
			defer enough()
			if over {
				enough()
			}
			r := &rig{dir: t.TempDir(), plan: s} // there is no history in it
			done := make(chan struct{})
			go func() { defer close(done); r.report(looking, Options{}, x, stop) }()
			if !over {
				select {
				case <-storm.Done():
				case <-looking.Done():
				}
				enough()
			}
			<-done
			ended, failed := untimely(ctx, storm)
			if ended == nil || failed == nil || !strings.Contains(failed.Error(), "the judge, while it went on: ") || !strings.Contains(failed.Error(), judge.HistoryFile) {
				t.Errorf("over %v: it ended because of %v, and failed with %v; want both to be that the judge cannot read %s", over, ended, failed, judge.HistoryFile)
			}
		})
	}
}

// TestUntimely: a storm that ends early has an error or a broken promise.
func TestUntimely(t *testing.T) {
	ended := func(cause error, interrupted bool) (error, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		storm, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		if cause != nil {
			stop(cause)
		}
		if interrupted {
			cancel()
		}
		return untimely(ctx, storm)
	}
	broken, other := errors.Join(errBroken, errors.New("overlap")), errors.New("no ledger")
	sound, bad := &judge.Report{}, &judge.Report{Violations: []judge.Violation{{Check: judge.CheckOverlap}}}
	for _, c := range []struct {
		name        string
		cause       error
		interrupted bool
		failed      bool // at once
		good, bad   bool // an error in the end, when the judge finds nothing, or something
	}{
		{"in time", nil, false, false, false, false},
		{"interrupted", nil, true, false, false, false},
		{"a promise was broken", broken, false, false, true, false},
		{"the judge failed", other, false, true, true, false},
	} {
		why, failed := ended(c.cause, c.interrupted)
		if (failed != nil) != c.failed || (unfounded(why, sound) != nil) != c.good || (unfounded(why, bad) != nil) != c.bad {
			t.Errorf("%s: failed with %v; if nothing is found %v, and else %v", c.name, failed, unfounded(why, sound), unfounded(why, bad))
		}
	}
}

// TestStrictness: how long a leader must lead to be seen, and the longest time without a leader,
// depend on the election's promise.
func TestStrictness(t *testing.T) {
	o := options(&Schedule{Promise: 200 * time.Millisecond})
	if o.Boot != 200*time.Millisecond || o.Promise != 200*time.Millisecond || o.Seen != 2*time.Second {
		t.Errorf("%+v; want a process well after a promise, and leaders seen within ten", o)
	}
}

// TestIdle: a storm without any fault shows nothing.
func TestIdle(t *testing.T) {
	for _, up := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := plans()[0]
			p.Faults, p.For = []string{"kill-node"}, 10*time.Second
			_, x, err := perform(t, t.Context(), draw(t, p), func(d *dummies) {
				for i := range d.nodes {
					d.nodes[i].up, d.nodes[i].held = up, !up
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := x.idle(); (err == nil) != up || err != nil && !strings.Contains(err.Error(), "could be had") {
				t.Errorf("nodes that are there %v: %v; want an error if none is", up, err)
			}
		})
	}
}
