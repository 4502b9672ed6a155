// Package lines writes what a person follows on stderr without ever waiting for
// it: a terminal that was stopped with Ctrl-S, or a pipe that nobody reads, must
// not keep a leader from starting or stopping its work.
//
// A Writer may be used by any number of goroutines; lines come out in the order
// in which they were said. When the reader does not keep up, lines are dropped,
// and how many is said in their place. Errors of writing are ignored: there is
// nobody to tell.
package lines

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	prefix  = "elect: "
	backlog = 256 // lines

	// flushTime is how long Close waits for a reader that does not read.
	flushTime = time.Second
)

// Writer writes lines to a file. Close it before the process ends.
type Writer struct {
	file    *os.File
	queue   chan string
	done    chan struct{}
	once    sync.Once
	dropped atomic.Int64

	mu     sync.RWMutex // held for reading while a line is queued
	closed bool
}

// New returns a Writer to file, which stays the caller's.
func New(file *os.File) *Writer {
	w := &Writer{file: file, queue: make(chan string, backlog), done: make(chan struct{})}
	go w.run()
	return w
}

// Say writes one line, "elect: " and what the arguments format to.
func (w *Writer) Say(format string, args ...any) {
	w.put(prefix + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ") + "\n")
}

// Write takes whole lines, for a slog.Handler. It always succeeds.
func (w *Writer) Write(p []byte) (int, error) {
	w.put(string(p))
	return len(p), nil
}

func (w *Writer) put(line string) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return
	}
	select {
	case w.queue <- line:
	default:
		w.dropped.Add(1)
	}
}

// Close writes what was said, for a second at most.
func (w *Writer) Close() {
	w.once.Do(func() {
		w.mu.Lock()
		w.closed = true
		w.mu.Unlock()
		close(w.queue)
	})
	select {
	case <-w.done:
	case <-time.After(flushTime):
	}
}

func (w *Writer) run() {
	defer close(w.done)
	fromBackground()
	for line := range w.queue {
		if n := w.dropped.Swap(0); n > 0 {
			line = fmt.Sprintf("%s%d lines were dropped, because nobody read them\n", prefix, n) + line
		}
		_, _ = w.file.WriteString(line)
	}
}
