package peer

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
)

// maxLines bounds the lines that are queued for a slow log.
const maxLines = 256

// lines passes what turns and links log to a goroutine of its own. A log may block (a stopped terminal, a pipe
// without a reader), and a leader must go on. When the queue is full, the newest line is dropped and counted.
type lines struct {
	queue  chan line
	lost   atomic.Uint64
	joined sync.WaitGroup

	mu     sync.RWMutex
	closed bool
}

type line struct {
	to     slog.Handler
	record slog.Record
}

// startLines returns a logger that writes to log and never blocks.
func startLines(log *slog.Logger) (*lines, *slog.Logger) {
	l := &lines{queue: make(chan line, maxLines)}
	l.joined.Go(func() {
		told := uint64(0)
		for w := range l.queue {
			// An error of a log cannot be reported anywhere.
			_ = w.to.Handle(context.Background(), w.record)
			if lost := l.lost.Load(); lost > told && len(l.queue) == 0 {
				log.Warn("lines were left out: the log takes them slower than they come", "lines", lost-told)
				told = lost
			}
		}
	})
	return l, slog.New(&lineHandler{l, log.Handler()})
}

// close writes what is queued. Later lines are dropped.
func (l *lines) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.mu.Unlock()
	l.joined.Wait()
}

func (l *lines) put(w line) {
	l.mu.RLock() // nothing blocks while it is held
	defer l.mu.RUnlock()
	if l.closed {
		return
	}
	select {
	case l.queue <- w:
	default:
		l.lost.Add(1)
	}
}

type lineHandler struct {
	lines *lines
	to    slog.Handler
}

func (h *lineHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	h.lines.put(line{h.to, r.Clone()})
	return nil
}

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &lineHandler{h.lines, h.to.WithAttrs(attrs)}
}

func (h *lineHandler) WithGroup(name string) slog.Handler {
	return &lineHandler{h.lines, h.to.WithGroup(name)}
}
