package peer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// TestOneBadVoter: a voter with a directory of another founding ends its own candidacy, and no other.
func TestOneBadVoter(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		found := func() {
			nodes := v.openAll()
			release(t, win(t, nodes[0]))
			for _, n := range nodes {
				_ = n.Close()
			}
		}
		found()
		first := v.data
		v.data = t.TempDir()
		found()
		bad, place := filepath.Join(first, "n3", "elections", "job"), filepath.Join(v.data, "n3", "elections", "job")
		if err := errors.Join(os.RemoveAll(place), os.Rename(bad, place)); err != nil {
			t.Fatal(err)
		}
		one, two := v.open("n1"), v.open("n2")
		m := win(t, one)
		waits := campaign(t.Context(), two)
		three := v.open("n3")
		_, err := three.Campaign(t.Context(), driver.Candidacy{})
		refusedFor(t, err, "n1 refuses this node", "(n2 refuses it too)", "begin anew")
		<-time.After(30 * time.Second)
		if err := m.Check(); err != nil {
			t.Errorf("the leader is disturbed: %v", err)
		}
		release(t, m)
		o := within(t, waits, "the victory of the one that stands by")
		if o.err != nil {
			t.Fatalf("one bad voter has ended a candidacy of a healthy majority: %v", o.err)
		}
		release(t, o.m)
	})
}

// TestObserversRefusalsDoNotCount: all voters began anew, and an observer did
// not. It is left out, and the election goes on.
func TestObserversRefusalsDoNotCount(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		v.obs = names("o", 1)
		for _, n := range v.openAll() {
			_ = n.Close()
		}
		for _, id := range v.all {
			if err := os.RemoveAll(filepath.Join(v.data, string(id))); err != nil {
				t.Fatal(err)
			}
		}
		o := v.open("o1")
		for _, id := range v.all {
			v.open(id)
		}
		<-time.After(5 * time.Second)
		release(t, win(t, v.node(t, "n1")))
		s := sees(t, o, "who refuses it", func(s driver.State) bool { return s.Cause != nil })
		if !s.Stale || !strings.Contains(s.Cause.Error(), "n1 refuses this node: n1 ") && !strings.Contains(s.Cause.Error(), "waiting for n1") {
			t.Errorf("it shows %+v", s)
		}
	})
}

// TestWipedWithOneOther: one voter's refusal is no reason to give up while another might know better. The node shows
// the refusal all the time.
func TestWipedWithOneOther(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		_, _ = nodes[1].Close(), nodes[2].Close()
		if err := os.RemoveAll(nodes[1].at.String()); err != nil {
			t.Fatal(err)
		}
		wiped := v.open("n2")
		waits := campaign(t.Context(), wiped)
		<-time.After(time.Minute)
		select {
		case o := <-waits:
			t.Fatalf("refused by one of three it gave up: %v", o.err)
		default:
		}
		s := sees(t, wiped, "that it is refused", func(s driver.State) bool { return s.Cause != nil })
		if text := s.Cause.Error(); !strings.HasPrefix(text, "n1 refuses this node: n1 knows n2 by the data directory") || strings.Count(text, "knows n2") != 1 || !strings.Contains(text, "waiting for n1, n3 (away). A voter that") || !strings.Contains(text, "elect member replace") {
			t.Errorf("the cause is %q", text)
		}
		v.open("n3")
		refusedFor(t, within(t, waits, "its end when a majority refuses it").err, "n1 refuses this node", "(n3 refuses it too)", "never a backup")
	})
}

// TestRefusalForgotten: a refusal that is not repeated no longer counts, and the log says that it ended.
func TestRefusalForgotten(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		n := nodes[0]
		for _, by := range []protocol.NodeID{"n2", "n3"} {
			n.run.Call(func() {
				n.founding.refused(by, &wire.Refusal{Code: wire.CodeDirectory, Says: "it was wiped", Final: true})
			})
		}
		<-time.After(refusalRepeat - time.Second)
		_, err := n.Campaign(t.Context(), driver.Candidacy{})
		refusedFor(t, err, "it was wiped", "higher era")
		<-time.After(2 * time.Second)
		release(t, win(t, n))
	})
}

// neighbours are links that only list their peers.
type neighbours struct {
	links
	peers []link.PeerInfo
}

func (n *neighbours) Peers() []link.PeerInfo { return n.peers }

func TestForget(t *testing.T) {
	var logged bytes.Buffer
	town := &neighbours{}
	var now protocol.Reading
	run := runtime.New(runtime.Config{Now: func() protocol.Reading { return now }})
	f := &facts{cfg: local(), dialect: quorumDialect{}, plan: Plan{Voters: 3, Quorum: 2, Promise: 4 * time.Second}, log: slog.New(slog.NewTextHandler(&logged, nil))}
	ms := &membership{facts: f}
	rs := &refusals{ms, &contacts{ms, town}, run, map[protocol.NodeID]refusal{}}
	refused := &wire.Refusal{Code: wire.CodeDirectory, Says: "wiped", Final: true}
	for _, c := range []struct {
		what  string
		peer  link.PeerInfo
		age   time.Duration
		stays bool
	}{
		{"it is repeated by and by", link.PeerInfo{ID: "n2", Err: refused}, 11 * time.Second, true},
		{"three promises have passed", link.PeerInfo{ID: "n2", Err: refused}, 13 * time.Second, false},
		{"nobody listens any more, since a moment", link.PeerInfo{ID: "n2", Err: errGaveUp}, 2 * time.Second, true},
		{"nobody listens any more", link.PeerInfo{ID: "n2", Err: errGaveUp}, 4 * time.Second, false},
		{"it is connected", link.PeerInfo{ID: "n2", Connected: true}, 4 * time.Second, false},
		{"it was never tried", link.PeerInfo{ID: "n2"}, 4 * time.Second, true},
		{"this node knows it of itself", link.PeerInfo{ID: "n1", Err: errGaveUp}, time.Hour, true},
	} {
		town.peers = []link.PeerInfo{c.peer}
		clear(rs.from)
		now.Boot = protocol.Instant(time.Hour)
		run.Read()
		(&founding{membership: ms, refusals: rs, run: run}).refused(c.peer.ID, refused)
		now.Boot = now.Boot.Add(c.age)
		run.Read()
		rs.forget()
		if _, stays := rs.from[c.peer.ID]; stays != c.stays {
			t.Errorf("%s: the refusal stays: %v; want %v", c.what, stays, c.stays)
		}
	}
	logged.Reset()
	(&founding{membership: ms, refusals: rs, run: run}).refused("n3", refused)
	rs.admitted("n3")
	rs.admitted("n3")
	if text := logged.String(); strings.Count(text, "level=WARN msg=\"this node is refused\"") != 1 || strings.Count(text, "level=WARN msg=\"this node is refused no more\"") != 1 {
		t.Errorf("the log is\n%s\nwant both ends of a trouble told once, and as loud", text)
	}
}

// TestWaitsForDirectory: a node logs that it waits for another process, and not at once.
func TestWaitsForDirectory(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, v *fakeCluster) {
		first := v.open("n1")
		var logged bytes.Buffer
		cfg := v.config("n1")
		cfg.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))
		ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer cancel()
		if _, err := open(ctx, cfg); err == nil || strings.Contains(logged.String(), "waiting") {
			t.Errorf("%v, and the log\n%s\nwant an error, and no line within the first second", err, &logged)
		}
		time.AfterFunc(2*time.Second, func() { _ = first.Close() })
		n, err := open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		_ = n.Close()
		for _, says := range []string{"waiting for the data directory", "the data directory is free now"} {
			if strings.Count(logged.String(), says) != 1 {
				t.Errorf("the log does not say %q once:\n%s", says, &logged)
			}
		}
	})
}
