package register_test

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
)

// kept is a store of one record. What it shows is durable when the write, or a later one, was
// acknowledged.
type kept struct {
	mu          sync.Mutex
	text        string
	durable     string
	incarnation string
	frail       bool          // it shows what is written, and acknowledges nothing
	news        chan struct{} // closed, and replaced, by each write that tells news
}

// told returns what the next write that tells news will close.
func (k *kept) told() chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.news == nil {
		k.news = make(chan struct{})
	}
	return k.news
}

// acknowledge makes what is kept durable, with its answer.
func (k *kept) acknowledge(ctx context.Context) error {
	k.mu.Lock()
	frail := k.frail
	if !frail {
		k.durable = k.text
	}
	k.mu.Unlock()
	if frail {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

// fail loses what is not durable.
func (k *kept) fail() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.text = k.durable
}

// standby is the store that takes over, while k lives on, and acknowledges no more.
func (k *kept) standby() *kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.frail = true
	return &kept{text: k.durable, durable: k.durable, incarnation: k.incarnation + "'"}
}

func (k *kept) put(version, text string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.text != version {
		return register.ErrConflict
	}
	if k.news != nil && register.News(version, text) {
		close(k.news)
		k.news = nil
	}
	k.text = text
	return nil
}

func (k *kept) get() register.Kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	return register.Kept{Text: k.text, Version: k.text, Store: k.incarnation}
}

func (k *kept) set(text, incarnation string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.text, k.durable, k.incarnation = text, text, incarnation
}

// line is the way of one participant to a store.
type line struct {
	storetest.Way
	store *kept
}

func newLine(k *kept) *line { return &line{store: k} }

func (l *line) Read(ctx context.Context) (register.Kept, error) {
	return l.do(ctx, false, false, func() (register.Kept, error) { return l.store.get(), nil })
}

func (l *line) Write(ctx context.Context, version, text string) (register.Kept, error) {
	return l.do(ctx, true, strings.Contains(text, `"holder":"`), func() (register.Kept, error) {
		return register.Kept{Text: text, Version: text, Store: l.store.get().Store}, l.store.put(version, text)
	})
}

// watched is a line that hears of news, unless it is cut.
type watched struct{ *line }

var _ register.Watcher = watched{}

func (w watched) Watch(ctx context.Context, changed func()) {
	for told := w.store.told(); ; {
		select {
		case <-told:
			told = w.store.told()
		case <-ctx.Done():
			return
		}
		if w.Pass(ctx) == nil {
			changed()
		}
	}
}

// do makes a request. write: its answer acknowledges it. renews: it acquires or renews, and so is one whose answer may
// be late.
func (l *line) do(ctx context.Context, write, renews bool, do func() (register.Kept, error)) (register.Kept, error) {
	if err := l.Pass(ctx); err != nil {
		return register.Kept{}, err
	}
	k, err := do()
	if err := l.Back(ctx, renews); err != nil {
		return register.Kept{}, err
	}
	if write && err == nil {
		err = l.store.acknowledge(ctx)
	}
	return k, err
}

// open returns a participant of the store.
func open(t testing.TB, k *kept, era uint64, name, id string) electtest.Participant {
	t.Helper()
	l := newLine(k)
	return participant(t, l, l, era, name, id)
}

// participant returns one on a line, which it uses as r.
func participant(t testing.TB, l *line, r register.Register, era uint64, name, id string) electtest.Participant {
	t.Helper()
	e, err := register.New(r, register.Config{
		Config: drive.Config{Name: name, ID: id, Era: era, Now: storetest.Now, Source: source}, Lease: time.Second, MaxLease: 2 * time.Second, Assumes: "a test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return electtest.Participant{Elector: e, Cut: l.Cut, Lose: l.Lose, Delay: l.Delay}
}

func TestConformance(t *testing.T) {
	t.Run("polling", func(t *testing.T) { conforms(t, open) })
	t.Run("watching", func(t *testing.T) {
		conforms(t, func(t testing.TB, k *kept, era uint64, name, id string) electtest.Participant {
			l := newLine(k)
			return participant(t, l, watched{l}, era, name, id)
		})
	})
}

func conforms(t *testing.T, open func(t testing.TB, k *kept, era uint64, name, id string) electtest.Participant) {
	var k *kept
	var of testing.TB
	era := uint64(0)
	electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant {
		if of != t {
			k, of, era = &kept{incarnation: "1"}, t, 0
		}
		return open(t, k, era, name, id)
	}, electtest.Config{
		Bubble: true,
		Cannot: map[electtest.Fault]string{
			electtest.Freeze: "a goroutine cannot freeze another: see the conformance of processes in test/fencing/leases",
			electtest.Crash:  "as Freeze",
		},
		Restart:  func(testing.TB) { k.fail() },
		Recreate: func(testing.TB) { k.set("", "2"); era++ },
	})
}

var _ driver.Elector = (*register.Elector)(nil)

// source is where a witness would find the store: a user, and several hosts.
var source = &url.URL{Scheme: "test", Opaque: "//a:1,b:2/path%20", RawQuery: "key=%2F&x=y", User: url.UserPassword("me", "se:cr/et")}
