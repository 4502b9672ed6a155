package peer

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

func TestObserveFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newNodes("n1", "n2", "n3")
		w.sees(ledBy("n1", 5), "n1", "n2", "n3")
		o := spectate(t, w.client(t))
		o.sees("0s n1/5")
		w.sees(ledBy("n2", 6), "n2", "n3") // n1 has not heard of it
		o.sees("0s n2/6")
		w.sees(ledBy("n2", 6), "n1")
		o.sees()
		time.Sleep(time.Minute) // nothing happens
		o.sees()
		w.sees(driver.State{Cause: errors.New("an election is under way")}, "n1", "n2")
		o.sees()
		w.sees(driver.State{}, "n3")
		o.sees("1m0s nobody: an election is under way")
		w.sees(ledBy("n3", 7), "n3")
		o.sees("1m0s n3/7")
		if n := w.connections(); n != 3 {
			t.Errorf("%d connections; want one with each node", n)
		}
		o.end()
		if n := w.connections(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// The first state waits for no node that hangs, if a majority knows.
func TestObserveFirstState(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		set  func(w *fakeNodes)
		want string
	}{
		{"one hangs", func(w *fakeNodes) { w.is(lost, "n1") }, "0s n1/5"},
		{"one is frozen", func(w *fakeNodes) { w.is(frozen, "n1") }, "0s n1/5"},
		{"two hang", func(w *fakeNodes) { w.is(lost, "n1"); w.is(frozen, "n3") }, "300ms n1/5"},
		{"one hangs, one is down", func(w *fakeNodes) { w.is(lost, "n1"); w.is(down, "n3") }, "300ms n1/5"},
		{"two are down", func(w *fakeNodes) { w.is(down, "n1", "n3") }, "0s n1/5"},
		{"all are down", func(w *fakeNodes) { w.is(down, "n1", "n2", "n3") }, "0s nobody stale: store or peers unreachable: " +
			"n1@127.0.0.1:1, n2@127.0.0.1:2, n3@127.0.0.1:3: connection refused"},
		{"all hang", func(w *fakeNodes) { w.is(lost, "n1", "n2", "n3") }, "2s nobody stale: store or peers unreachable: " +
			"n1@127.0.0.1:1, n2@127.0.0.1:2, n3@127.0.0.1:3: no answer within 2s"},
		{"all are frozen", func(w *fakeNodes) { w.is(frozen, "n1", "n2", "n3") }, "2.5s nobody stale: store or peers unreachable: " +
			"n1@127.0.0.1:1, n2@127.0.0.1:2, n3@127.0.0.1:3: no answer yet"},
		{"nobody leads", func(w *fakeNodes) { w.sees(driver.State{}, "n1", "n2", "n3") }, "0s nobody"},
		{"nobody leads, and one hangs", func(w *fakeNodes) { w.sees(driver.State{}, "n1", "n2", "n3"); w.is(lost, "n2") }, "300ms nobody"},
		{"all who answer are paused", func(w *fakeNodes) {
			w.sees(driver.State{}, "n1", "n2", "n3")
			w.is(frozen, "n2")
			w.nodes["n1"].paused, w.nodes["n3"].paused = true, true
		}, "300ms nobody: all voters that answer are paused: n1, n3 (nothing is known of n2); to have them stand again: elect resume --all"},
		{"only one knows", func(w *fakeNodes) {
			stale := driver.State{Stale: true, Cause: errors.New("cut off")}
			w.sees(stale, "n1", "n2")
		}, "0s n1/5"},
		{"all are cut off", func(w *fakeNodes) {
			stale := driver.State{Stale: true}
			w.sees(stale, "n1", "n2")
			stale = ledBy("n1", 5)
			stale.Stale, stale.Cause = true, errors.New("hears no majority")
			w.sees(stale, "n3")
		}, "0s n1/5 stale: store or peers unreachable: n1@127.0.0.1:1, n2@127.0.0.1:2: it is cut off from the others; n3@127.0.0.1:3: hears no majority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newNodes("n1", "n2", "n3")
				w.sees(ledBy("n1", 5), "n1", "n2", "n3")
				c.set(w)
				o := spectate(t, w.client(t))
				synctest.Wait()
				var first string
				select {
				case first = <-o.states:
				case <-time.After(10 * time.Second):
				}
				if first != c.want {
					t.Errorf("saw %q; want %q", first, c.want)
				}
				o.end()
			})
		})
	}
}

// Out of reach: the client shows the last known state with the reason, and afterwards the present one.
func TestObserveTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newNodes("n1", "n2", "n3")
		w.sees(ledBy("n1", 5), "n1", "n2", "n3")
		o := spectate(t, w.client(t))
		o.sees("0s n1/5")
		w.is(down, "n1", "n2")
		o.sees()
		w.is(frozen, "n3")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := <-o.states; !strings.HasPrefix(got, "3s n1/5 stale: store or peers unreachable: n1@127.0.0.1:1, n2@127.0.0.1:2: ") || !strings.HasSuffix(got, "; n3@127.0.0.1:3: it has said nothing for 3s") {
			t.Errorf("saw %q", got)
		}
		o.sees()
		w.is(lost, "n2") // another cause: nothing that is worth a new state
		time.Sleep(10 * time.Second)
		o.sees()
		before := w.dialled("n1")
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := w.dialled("n1") - before; n < 25 || n > 65 {
			t.Errorf("%d dials in a minute to a node that is down; want one each 1 to 2 s", n)
		}

		w.sees(ledBy("n2", 9), "n2")
		w.is(healthy, "n2")
		time.Sleep(retryMost)
		synctest.Wait()
		if got := <-o.states; !strings.HasSuffix(got, " n2/9") {
			t.Errorf("saw %q; want n2/9", got)
		}
		w.is(healthy, "n1", "n3") // who still see the leader before
		time.Sleep(10 * time.Second)
		o.sees()
		w.is(down, "n2") // for a moment: it is asked again at once
		synctest.Wait()
		w.is(healthy, "n2")
		time.Sleep(retryFirst)
		synctest.Wait()
		if n := w.connections(); n != 3 {
			t.Errorf("%d connections; want 3: after a long watch the first retry comes soon", n)
		}
		for range len(o.states) {
			<-o.states
		}
		w.is(down, "n2") // nobody is left who is not behind
		synctest.Wait()
		if got := <-o.states; !strings.Contains(got, " n2/9 stale: ") || !strings.Contains(got, "it is behind: it still sees n1 with token 5") {
			t.Errorf("saw %q; want n2/9, stale", got)
		}
		w.sees(driver.State{}, "n1")
		synctest.Wait()
		if got := <-o.states; !strings.HasSuffix(got, " nobody") {
			t.Errorf("saw %q; want nobody", got)
		}
		o.end()
	})
}

// Observers see the election too, and no number of them is a majority.
func TestObserversAreNoMajority(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newNodes("n1", "n2", "n3", "o1", "o2")
		w.is(lost, "n1", "n2", "n3")
		w.sees(ledBy("n1", 5), "o1")
		o := spectate(t, w.client(t, Peer{ID: "o1", Addr: "127.0.0.1:8"}, Peer{ID: "o2", Addr: "127.0.0.1:9"}))
		o.sees()
		time.Sleep(settleTime)
		o.sees("300ms n1/5")
		o.end()
	})
}

func TestObserveEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newNodes("n1", "n2", "n3")
		c := w.client(t)
		o := spectate(t, c)
		o.sees("0s nobody")
		if err := errors.Join(c.Close(), c.Close()); err != nil {
			t.Error(err)
		}
		if err := <-o.ended; err != nil {
			t.Errorf("Close ends observing with %v", err)
		}
		dials := w.dialled("n1")
		o = spectate(t, c)
		if err := <-o.ended; err != nil || len(o.states) != 0 || w.dialled("n1") != dials {
			t.Errorf("observing what is closed: %v, %d states, %d dials", err, len(o.states), w.dialled("n1")-dials)
		}
		o.stop()

		w.is(hostile, "n1", "n2", "n3")
		o = spectate(t, w.client(t))
		if err := <-o.ended; !driver.IsPermanent(err) || !strings.Contains(err.Error(), "another cluster") {
			t.Errorf("nodes of another cluster: %v; want a permanent error", err)
		}
		o.stop()
		w.is(healthy, "n2")
		o = spectate(t, w.client(t))
		o.sees("0s nobody")
		o.end()
	})
}

// A consumer that is slow is shown the last.
func TestObserveSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newNodes("n1", "n2", "n3")
		c := w.client(t)
		var seen []fence.Token
		for s, err := range c.Watch(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if s.Leader != nil {
				seen = append(seen, s.Leader.Token)
			}
			if len(seen) == 2 {
				break
			}
			for range 50 {
				w.sees(ledBy("n1", w.nodes["n1"].next()), "n1")
				time.Sleep(time.Second)
			}
		}
		if !reflect.DeepEqual(seen, []fence.Token{50, 100}) {
			t.Errorf("saw %v; want 50 and 100", seen)
		}
	})
}

func (f *fakeNode) next() fence.Token {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.Leader == nil {
		return 1
	}
	return f.state.Leader.Token + 1
}
