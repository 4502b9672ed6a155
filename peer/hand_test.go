package peer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
)

func (f *fakeNode) Transfer(ctx context.Context, token fence.Token, to string) error {
	f.mu.Lock()
	leader := f.state.Leader
	f.mu.Unlock()
	if leader == nil {
		return driver.ErrNoLeader
	}
	if leader.ID == string(f.id) {
		return f.appoint(ctx, token, to)
	}
	return f.others[protocol.NodeID(leader.ID)].appoint(ctx, token, to)
}

func (f *fakeNode) appoint(ctx context.Context, token fence.Token, to string) error {
	if to == string(f.id) {
		return fmt.Errorf("%w: %s leads already", driver.ErrIneligible, to)
	}
	if err := f.resign(ctx, token); err != nil {
		return err
	}
	f.change(func() { f.appointed = append(f.appointed, to) })
	return nil
}

func (f *fakeNode) setPaused(_ context.Context, on bool, by string) error {
	if f.events != nil {
		return errors.New("the disk is gone")
	}
	f.change(func() { f.pausedBy = by; f.paused = on })
	return nil
}

func (f *fakeNode) isPaused() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paused
}

func TestAppoint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		set   func(w *fakeNodes)
		token fence.Token
		to    string
		want  error
		says  string
		asked []string // whom n1 was to hand over to
	}{
		{name: "whoever leads", to: "n2", asked: []string{"n2"}},
		{name: "to the best", asked: []string{""}},
		{name: "to the leader", to: "n1", want: driver.ErrIneligible, says: "cannot take over: n1 leads already"},
		{name: "by another token", token: 4, to: "n2", want: driver.ErrSuperseded, says: "n1 leads with token 5, and not with 4"},
		{name: "nobody leads", set: func(w *fakeNodes) { w.sees(driver.State{}, "n1", "n2", "n3") }, to: "n2", want: driver.ErrNoLeader, says: "no leader"},
		{name: "the way to the leader is cut", set: func(w *fakeNodes) { w.is(down, "n1") }, to: "n3", asked: []string{"n3"}},
		{name: "the way is cut, and it cannot be", set: func(w *fakeNodes) { w.is(down, "n1") }, to: "n1", want: driver.ErrIneligible, says: "n1 leads already"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newNodes("n1", "n2", "n3")
				w.sees(ledBy("n1", 5), "n1", "n2", "n3")
				if c.set != nil {
					c.set(w)
				}
				err := w.client(t).Transfer(t.Context(), c.token, c.to)
				if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v; want %v: %s", err, c.want, c.says)
				}
				if got := w.nodes["n1"].appointed; !reflect.DeepEqual(got, c.asked) {
					t.Errorf("n1 was to hand over to %q; want %q", got, c.asked)
				}
			})
		})
	}
}

func TestPauseOfAClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newNodes("n1", "n2", "n3")
		w.sees(driver.State{}, "n1", "n2", "n3")
		c := w.client(t)
		if err := c.Pause(t.Context(), "n4"); err == nil || !strings.Contains(err.Error(), "no address of a node n4 is known; the nodes are n1@") {
			t.Errorf("a node that is not there: %v", err)
		}
		for _, id := range []protocol.NodeID{"n1", "n2"} {
			if err := c.Pause(t.Context(), string(id)); err != nil {
				t.Fatal(err)
			}
		}
		if n := w.nodes["n2"]; !n.isPaused() || n.pausedBy == "" || w.nodes["n3"].isPaused() {
			t.Errorf("n2 is paused: %v, by %q; n3 is: %v", n.isPaused(), n.pausedBy, w.nodes["n3"].isPaused())
		}
		if s, err := first(t.Context(), c); err != nil || s.Leader != nil || s.Cause != nil {
			t.Errorf("while one may stand, the state is %+v, %v; want no cause", s, err)
		}
		if err := c.Pause(t.Context(), "n3"); err != nil {
			t.Fatal(err)
		}
		const want = "all voters that answer are paused: n1, n2, n3; to have them stand again: elect resume --all"
		sees(t, c, want, func(s driver.State) bool { return s.Leader == nil && s.Cause != nil && s.Cause.Error() == want })
		if err := c.Resume(t.Context(), "n1"); err != nil || w.nodes["n1"].isPaused() {
			t.Errorf("resumed: %v; n1 is paused: %v", err, w.nodes["n1"].isPaused())
		}
		w.nodes["n2"].events = []Event{}
		if err := c.Resume(t.Context(), "n2"); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
			t.Errorf("a node that cannot write: %v", err)
		}
		w.is(down, "n3")
		if err := c.Resume(t.Context(), "n3"); err == nil {
			t.Error("a node that is down was resumed")
		}
		_ = c.Close()
		if err := c.Pause(t.Context(), "n1"); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}
