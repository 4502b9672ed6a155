package peer

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
)

// notes are what each node of a cluster has logged.
type notes struct {
	mu sync.Mutex
	by map[protocol.NodeID]*bytes.Buffer
}

type noteOf struct {
	l  *notes
	id protocol.NodeID
}

func (w noteOf) Write(p []byte) (int, error) {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	if w.l.by[w.id] == nil {
		w.l.by[w.id] = &bytes.Buffer{}
	}
	return w.l.by[w.id].Write(p)
}

// of returns the lines of a node that have all of the texts.
func (l *notes) of(id protocol.NodeID, texts ...string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[id] == nil {
		return nil
	}
next:
	for line := range strings.Lines(l.by[id].String()) {
		for _, t := range texts {
			if !strings.Contains(line, t) {
				continue next
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// keepLogs has the nodes that are opened from now on log to what it returns.
func (v *fakeCluster) keepLogs() *notes {
	l := &notes{by: map[protocol.NodeID]*bytes.Buffer{}}
	v.change = func(c *setup) { c.Logger = slog.New(slog.NewTextHandler(noteOf{l, c.ID}, nil)) }
	return l
}

// TestOverdueFounding: a node that waits for the founding of its election logs so once, with the voters that it waits
// for.
func TestOverdueFounding(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		l := v.keepLogs()
		n := v.open("n1")
		v.open("n2")
		<-time.After(n.plan.Promise / 2)
		if got := l.of("n1", "has not begun"); got != nil {
			t.Errorf("it says so before a promise is over: %q", got)
		}
		<-time.After(time.Minute)
		if got := l.of("n1", "the election has not begun", "needs all its voters: waiting for n3"); len(got) != 1 {
			t.Errorf("after a minute it has said %d times for whom it waits: %q", len(got), l.of("n1"))
		}
		v.open("n3")
		<-time.After(time.Second / 2)
		if got := l.of("n1", runtime.NoLeaderKnown); got != nil {
			t.Errorf("it is founded since half a second, and says %q", got)
		}
	})
}

// TestOverdueLeader: a node says once why it has known no leader for longer than a
// promise, and again the next time.
func TestOverdueLeader(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		l := v.keepLogs()
		nodes := v.openAll()
		promise := nodes[0].plan.Promise
		says := func(what string, times int, texts ...string) {
			t.Helper()
			if got := l.of("n1", append(texts, runtime.NoLeaderKnown)...); len(got) != times {
				t.Errorf("%s: said %d times, want %d, with %q; the log has %q", what, len(got), times, texts, l.of("n1", runtime.NoLeaderKnown))
			}
		}
		<-time.After(10 * promise)
		says("nobody campaigns", 1, "a majority of the voters is heard, and has elected nobody; n1 does not campaign")
		m := win(t, nodes[0])
		<-time.After(10 * promise)
		says("it leads", 1)
		release(t, m)
		if err := nodes[0].Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * promise)
		says("it is paused", 1, "n1 is paused")
		says("in all", 2)
		if err := nodes[0].Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		win(t, nodes[0])
		_ = nodes[2].Close()
		v.isolate("n1", true)
		<-time.After(10 * promise)
		says("it is cut off", 1, "no majority of the voters was heard for 1s: waiting for n2", "n3")
		says("in all", 3)
	})
}
