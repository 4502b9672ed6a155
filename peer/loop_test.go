package peer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// TestServedBeforeLinks: a client that asks after the links accept, and before the node has its links, waits until it
// has.
func TestServedBeforeLinks(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, v *fakeCluster) {
		cfg := v.config("n1")
		served, connect := make(chan *wire.Response, 1), cfg.connect
		cfg.connect = func(lc link.Config) (links, error) {
			go lc.Serve(t.Context(), link.Caller{}, &wire.Request{Verb: verbStatus}, func(r *wire.Response) error {
				served <- r
				return nil
			})
			<-time.After(time.Second)
			return connect(lc)
		}
		n, err := open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		if r := within(t, served, "an answer"); r.Code != "" || len(r.Body) == 0 {
			t.Errorf("the answer is %+v", r)
		}
	})
}

// nameless is a machine without an incarnation.
type nameless struct{ protocol.Machine }

func (m nameless) View() protocol.View {
	v := m.Machine.View()
	v.Incarnation = 0
	return v
}

// TestMachineWithoutIncarnation: such a machine is refused when it boots, and the
// disk never sees what it saves.
func TestMachineWithoutIncarnation(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, v *fakeCluster) {
		cfg := v.config("n1")
		cfg.machine = func(qc quorum.Config) (protocol.Machine, error) {
			m, err := quorum.New(qc)
			return nameless{m}, err
		}
		n, err := open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		_, err = n.Campaign(t.Context(), driver.Candidacy{})
		refusedFor(t, err, "saves no incarnation")
		_ = n.Close()
		n = v.open("n1") // as if nothing had been
		release(t, win(t, n))
		_ = n.Close()
		_, err = open(t.Context(), cfg)
		refusedFor(t, err, "saves no incarnation")
		release(t, win(t, v.open("n1")))
	})
}

// TestFailedOpenings: failed openings leave neither files nor a listener open, and do not raise the era.
func TestFailedOpenings(t *testing.T) {
	c := newCluster(t, names("n", 1), nil, false)
	n := c.start("n1")
	c.founded(n)
	release(t, win(t, n))
	c.stop("n1")
	fails := func(what string, change func(*setup)) {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cfg := c.config("n1")
		cfg.Listener, cfg.Era = l, 7
		change(&cfg)
		if n, err := open(t.Context(), cfg); err == nil {
			_ = n.Close()
			t.Fatalf("%s: it is opened", what)
		}
		if err := l.(*net.TCPListener).SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: the listener is open: %v", what, err)
		}
		if open := openFiles(t, c.data); len(open) > 0 {
			t.Errorf("%s: open files: %q", what, open)
		}
	}
	fails("a full disk", func(cfg *setup) {
		cfg.disk = func(func([]byte) error) func([]byte) error {
			return func([]byte) error { return errors.New("no space left on device") }
		}
	})
	fails("a plan that cannot hold", func(cfg *setup) { cfg.Promise = -1 })
	fails("an id that is not listed", func(cfg *setup) { cfg.ID = "n9" })
	fails("no certificates", func(cfg *setup) { cfg.Certs = filepath.Join(c.data, "nothing") })
	fails("a machine that is refused", func(cfg *setup) {
		cfg.machine = func(qc quorum.Config) (protocol.Machine, error) {
			m, err := quorum.New(qc)
			return nameless{m}, err
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := c.config("n1")
	cfg.Listener = l
	if _, err := open(ctx, cfg); err == nil {
		t.Error("opened with a context that has ended")
	}
	if err := l.(*net.TCPListener).SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a context that has ended: the listener is open: %v", err)
	}
	n = c.start("n1")
	if got := n.dir.Identity().Era; got != 0 {
		t.Errorf("era %d after starts in era 7 that failed", got)
	}
	release(t, win(t, n))
}

// openFiles are the files below dir that this process has open.
func openFiles(t *testing.T, dir string) []string {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("the system does not say which files are open")
	}
	var open []string
	for _, fd := range all {
		if name, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(name, dir) {
			open = append(open, name)
		}
	}
	return open
}

// TestLapseIsNotedWhenItWas: a leader whose machine slept notes the end of its lease, and not the time when it noticed.
func TestLapseIsNotedWhenItWas(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		n := nodes[0]
		m := win(t, n)
		<-time.After(time.Second)
		const sleep = time.Minute
		v.sleeps("n1", sleep)
		within(t, m.Context().Done(), "the end of a term")
		woke := time.Now()
		release(t, m)
		m = win(t, n)
		release(t, m) // in time, and so noted when it happens
		lost := map[bool]Event{}
		for len(lost) < 2 {
			<-time.After(10 * time.Millisecond)
			all, err := n.leaders.history()
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range all {
				if e.Event == "lost" {
					lost[e.Token == m.Token()] = e
				}
			}
		}
		if at := lost[false].At; at.After(woke.Add(-sleep+n.plan.Promise)) || at.Before(woke.Add(-sleep-n.plan.Promise)) {
			t.Errorf("it notes that it lost %v before it woke up; it had slept for %v", woke.Sub(at), sleep)
		}
		if at := lost[true].At; at.Before(woke) {
			t.Errorf("a release is noted %v before it was", woke.Sub(at))
		}
	})
}

// TestHealedIsTold: the end of a trouble is logged at the level at which the trouble was logged.
func TestHealedIsTold(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, v *fakeCluster) {
		var mu sync.Mutex
		broken := false
		v.disk = func(_ protocol.NodeID, save func([]byte) error) func([]byte) error {
			return func(b []byte) error {
				mu.Lock()
				defer mu.Unlock()
				if broken {
					return errors.New("no space left on device")
				}
				return save(b)
			}
		}
		var logged bytes.Buffer
		cfg := v.config("n1")
		cfg.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))
		n, err := open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		set := func(to bool) {
			mu.Lock()
			defer mu.Unlock()
			broken = to
		}
		set(true)
		waits := campaign(t.Context(), n)
		<-time.After(10 * time.Second)
		set(false)
		o := within(t, waits, "a victory when the disk is well again")
		if o.err != nil {
			t.Fatal(o.err)
		}
		release(t, o.m)
		_ = n.Close()
		for _, says := range []string{"the ballot cannot be saved", "the ballot can be saved again"} {
			if got := strings.Count(logged.String(), says); got != 1 {
				t.Errorf("the log says %q %d times; want once:\n%s", says, got, &logged)
			}
		}
	})
}
