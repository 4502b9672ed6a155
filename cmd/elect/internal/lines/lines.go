// Package lines writes lines for people to stderr without ever waiting: a terminal that was stopped with Ctrl-S, or a
// pipe without a reader, must not keep a leader from starting or stopping its work.
//
// A Writer may be used by any number of goroutines; lines are written in the order of the calls. If the reader is too
// slow, lines are dropped, and a line with their number replaces them. Errors of writing are ignored, because they
// cannot be reported.
package lines

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	prefix  = "elect: "
	backlog = 256 // lines

	// flushTime is how long Close waits for a slow reader.
	flushTime = time.Second
)

// Form is the form of lines. The zero Form is for people: "elect: " and the text.
type Form struct {
	JSON  bool        // a line is an object with time, level, msg and attributes
	Time  bool        // a line for people begins with the time
	About string      // what a line for people is about, if a process has several such things
	Attrs []slog.Attr // of each object
}

// Writer writes lines to a file. Close it before the process ends.
type Writer struct {
	file    *os.File
	form    Form
	queue   chan string
	done    chan struct{}
	once    sync.Once
	dropped atomic.Int64

	mu     sync.RWMutex // held for reading while a line is queued
	closed bool
}

// New returns a Writer to file. The caller owns the file.
func New(file *os.File, form Form) *Writer {
	w := &Writer{file: file, form: form, queue: make(chan string, backlog), done: make(chan struct{})}
	go w.run()
	return w
}

// Say writes one line, formatted from the arguments.
func (w *Writer) Say(format string, args ...any) {
	w.Event(slog.LevelInfo, fmt.Sprintf(format, args...))
}

// Event writes one line. The attributes and the level are in objects only.
func (w *Writer) Event(level slog.Level, msg string, attrs ...slog.Attr) {
	r := slog.NewRecord(time.Now(), level, strings.ReplaceAll(msg, "\n", " "), 0)
	r.AddAttrs(attrs...)
	w.put(w.line(r))
}

// timeFormat is RFC 3339 with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// line is a record in the form of the Writer.
func (w *Writer) line(r slog.Record) string {
	if !w.form.JSON {
		text := prefix + w.about() + r.Message + "\n"
		if w.form.Time {
			text = r.Time.Format(timeFormat) + " " + text
		}
		return text
	}
	var b strings.Builder
	_ = w.objects(&b, slog.LevelDebug).Handle(context.Background(), r) // a Builder accepts everything
	return b.String()
}

func (w *Writer) about() string {
	if w.form.About == "" {
		return ""
	}
	return w.form.About + ": "
}

// objects writes records as objects. A duration is text, for people.
func (w *Writer) objects(to io.Writer, least slog.Level) slog.Handler {
	return slog.NewJSONHandler(to, &slog.HandlerOptions{Level: least, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(rounded(a.Value).String())
		}
		return a
	}}).WithAttrs(w.form.Attrs)
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

// Close writes the queued lines, for a second at most.
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
			line = w.line(slog.NewRecord(time.Now(), slog.LevelWarn, fmt.Sprintf("%d lines were dropped, because stderr was not read", n), 0)) + line
		}
		_, _ = w.file.WriteString(line)
	}
}
