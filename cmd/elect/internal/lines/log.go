package lines

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect/cmd/elect/internal/brief"
)

// Logger returns a logger for the back end and the supervisor. If verbose, it writes everything, in slog's own form.
// Otherwise it writes only warnings and errors, as lines for people, and a repeated line once a minute. It omits the
// messages in except, because the caller reports the same in other words.
func (w *Writer) Logger(verbose bool, except ...string) *slog.Logger {
	if verbose && w.form.JSON {
		return slog.New(w.objects(w, slog.LevelDebug))
	}
	if verbose {
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			return slog.Attr{Key: a.Key, Value: rounded(a.Value)}
		}}))
	}
	return slog.New(&handler{to: w, least: slog.LevelWarn, said: &memory{at: map[string]time.Time{}}, except: except})
}

// Steps is Logger for a program that tells what it does by its log: it writes what is for information, too, and each line.
func (w *Writer) Steps(verbose bool) *slog.Logger {
	if verbose {
		return w.Logger(true)
	}
	return slog.New(&handler{to: w, least: slog.LevelInfo})
}

// rounded rounds a time for people.
func rounded(v slog.Value) slog.Value {
	if v.Kind() != slog.KindDuration {
		return v
	}
	return slog.DurationValue(brief.Round(v.Duration()))
}

const repeatAfter = time.Minute

type handler struct {
	to     *Writer
	least  slog.Level
	attrs  []slog.Attr
	said   *memory // nil: a line may come again
	except []string
}

type memory struct {
	mu sync.Mutex
	at map[string]time.Time
}

// again reports whether key was logged within the last minute, and records it.
func (m *memory) again(key string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last, ok := m.at[key]; ok && now.Sub(last) < repeatAfter {
		return true
	}
	if len(m.at) >= backlog {
		clear(m.at)
	}
	m.at[key] = now
	return false
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.least }

// Handle implements slog.Handler.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	if slices.Contains(h.except, r.Message) {
		return nil
	}
	var text, key strings.Builder
	text.WriteString(r.Message)
	key.WriteString(r.Message)
	add := func(a slog.Attr) bool {
		text.WriteString("; " + a.Key + ": " + rounded(a.Value).String())
		if a.Value.Kind() != slog.KindDuration { // a growing pause is the same trouble
			key.WriteString("\x00" + a.Value.String())
		}
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	if h.said != nil && h.said.again(key.String(), time.Now()) {
		return nil
	}
	if !h.to.form.JSON {
		h.to.Event(r.Level, text.String())
		return nil
	}
	r = r.Clone()
	r.AddAttrs(h.attrs...)
	h.to.put(h.to.line(r))
	return nil
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{to: h.to, least: h.least, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...), said: h.said, except: h.except}
}

// WithGroup implements slog.Handler. Lines for people have no groups.
func (h *handler) WithGroup(string) slog.Handler { return h }
