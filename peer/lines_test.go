package peer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
)

// stuck is a log that blocks from some time on.
type stuck struct {
	slog.Handler
	mu   *sync.Mutex
	gate *chan struct{}
}

func (s stuck) Handle(context.Context, slog.Record) error {
	s.mu.Lock()
	gate := *s.gate
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return nil
}

func (s stuck) Enabled(context.Context, slog.Level) bool { return true }

// TestLogBlocks: a log that blocks keeps nobody from leading, and no call from
// ending with its context.
func TestLogBlocks(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		var mu sync.Mutex
		var gate chan struct{}
		cfg := v.config("n1")
		cfg.Logger = slog.New(stuck{nil, &mu, &gate})
		n, err := open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		v.open("n2")
		v.open("n3")
		<-time.After(time.Second)
		blocks := make(chan struct{})
		defer close(blocks)
		mu.Lock()
		gate = blocks
		mu.Unlock()
		m := win(t, n) // it logs that
		for range 3 * maxLines {
			n.log.Info("one more")
		}
		<-time.After(time.Minute)
		if err := m.Check(); err != nil {
			t.Errorf("with a log that blocks leadership is lost: %v", err)
		}
		release(t, m)
		held := win(t, v.node(t, "n2"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Campaign(ctx, driver.Candidacy{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a campaign whose context has ended: %v", err)
		}
		release(t, held)
	})
}

func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l, log := startLines(slog.New(slog.NewTextHandler(&out, nil)).With("node", "n1"))
		log.With("a", 1).WithGroup("g").Info("deep", "b", 2)
		log.Debug("hidden")
		for range maxLines + 10 {
			log.Info("many") // faster than anybody writes: this goroutine never waits
		}
		synctest.Wait()
		log.Info("last")
		l.close()
		l.close()
		log.Info("too late")
		text := out.String()
		if !strings.Contains(text, "msg=deep node=n1 a=1 g.b=2") || !strings.Contains(text, "msg=last") || strings.Contains(text, "hidden") || strings.Contains(text, "too late") {
			t.Errorf("the log is\n%s", text)
		}
		if many := strings.Count(text, "msg=many"); many < maxLines+10 && !strings.Contains(text, "lines were left out") {
			t.Errorf("%d of %d lines are there, and it does not say that any are missing", many, maxLines+10)
		}
	})
}
