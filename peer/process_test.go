//go:build unix

package peer

import (
	"context"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// TestMain makes the processes that electtest.Spawn starts.
func TestMain(m *testing.M) {
	electtest.Serve(map[string]driver.Opener{"peer": Open})
	servePart()
	os.Exit(inOwnState(m))
}

// inOwnState runs the tests with a state directory of their own, so that nodes on the loopback write nothing into the
// user's.
func inOwnState(m *testing.M) int {
	dir, err := os.MkdirTemp("", "peer-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv("XDG_STATE_HOME", dir); err != nil {
		panic(err)
	}
	return m.Run()
}

// TestConformanceProcesses has each participant of the suite in a process of its
// own, to be stopped and killed for real.
func TestConformanceProcesses(t *testing.T) {
	long.Test(t, "it starts a process a candidate")
	faults := map[electtest.Fault]string{electtest.Cut: "see TestConformance"}
	maps.Copy(faults, cannot)
	clusters := map[testing.TB]*cluster{}
	electtest.Run(t, func(t testing.TB, _, id string) electtest.Participant {
		c := clusters[t]
		if c == nil {
			c = newCluster(t, names("p", size(t)), nil, false)
			clusters[t] = c
			c.startAll()
		}
		c.stop(protocol.NodeID(id))
		return electtest.Spawn(t, c.url(protocol.NodeID(id)), c.name, id)
	}, electtest.Config{
		Cannot: faults, Candidates: protocol.MaxVoters,
	})
}

// TestProcesses: a leader's process is killed, and another node is elected at once. It waits for what was promised.
func TestProcesses(t *testing.T) {
	long.Test(t, "it kills five processes")
	c := newCluster(t, names("n", 3), nil, false)
	open := func(id protocol.NodeID) electtest.Participant {
		return electtest.Spawn(t, c.url(id), c.name, string(id))
	}
	one, two := open("n1"), open("n2")
	open("n3")
	m := win(t, one)
	ctx, cancel := context.WithTimeout(t.Context(), patience())
	defer cancel()
	for range 5 {
		elected := make(chan driver.Mandate, 1)
		failed := make(chan error, 1)
		go func() {
			n, err := two.Campaign(ctx, driver.Candidacy{})
			if err != nil {
				failed <- err
				return
			}
			elected <- n
		}()
		sees(t, two, "the leader", leads(m))
		<-time.After(testPromise) // it has been standing by, and ranks as a candidate
		start := time.Now()
		one.Crash()
		select {
		case n := <-elected:
			t.Logf("elected %v after the kill", time.Since(start))
			if n.Token() <= m.Token() {
				t.Errorf("token %v after %v", n.Token(), m.Token())
			}
			release(t, n)
		case err := <-failed:
			t.Fatal(err)
		case <-time.After(patience()):
			t.Fatal("nobody was elected")
		}
		one = open("n1")
		m = win(t, one)
	}
}
