package group

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/group/placement"
	"github.com/electd/elect/store/memory"
)

// world is the members of a test, in one store and one network.
type world struct {
	t     testing.TB
	store *memory.Store
	net   *network
	began time.Time
	slept atomic.Int64                         // how long the machines have slept
	place func(*memory.Elector) driver.Elector // nil: the memory's own
	elect elect.Config                         // of the coordinator's election

	mu  sync.Mutex
	all []*part
}

// part is one member with its faults.
type part struct {
	w *world
	*Group
	id    string
	place *memory.Elector
	gate  gate
	event []Event
}

func newWorld(t testing.TB) *world {
	return &world{t: t, store: memory.NewStore(0), net: newNetwork(), began: time.Now()}
}

// eager placement does not wait for quiet.
func eager() (placement.Placer, error) { return placement.New(placement.Settings{Quiet: -1}) }

func (w *world) join(id string, change func(*Config)) (*part, error) {
	p := &part{w: w, id: id}
	var err error
	if p.place, err = w.store.New("group", id, memory.Config{}); err != nil {
		return nil, err
	}
	var place driver.Elector = p.place
	if w.place != nil {
		place = w.place(p.place)
	}
	e, err := elect.New(place, w.elect)
	if err != nil {
		return nil, err
	}
	cfg := Config{ID: id, Listener: w.net.listen(id), Promise: time.Second, Placement: eager, OnEvent: func(e Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		p.event = append(p.event, e)
	}}
	if os.Getenv("GROUP_TEST_LOG") != "" {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("member", id)
	}
	if change != nil {
		change(&cfg)
	}
	p.Group, err = join(w.t.Context(), e, cfg, env{
		now:  w.now,
		dial: w.net.dial(id),
		gate: p.gate.pass,
	})
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.all = append(w.all, p)
	w.mu.Unlock()
	w.t.Cleanup(func() { p.end() })
	return p, nil
}

func (w *world) member(id string, change func(*Config)) *part {
	w.t.Helper()
	p, err := w.join(id, change)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// end is the end of a test, in whatever state the member is.
func (p *part) end() {
	p.gate.shut(false)
	p.place.Freeze(false)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = p.Leave(ctx, 0)
}

func (p *part) cut(on bool) {
	p.place.Cut(on)
	p.w.net.sever(p.id, on)
}

func (p *part) freeze(on bool) {
	p.place.Freeze(on)
	p.gate.shut(on)
}

// crash is the death of its process: nothing is given up, and nothing more is sent.
func (p *part) crash() {
	p.w.net.sever(p.id, true)
	p.place.Crash()
	p.gate.shut(false)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.Leave(ctx, 0)
	p.w.net.sever(p.id, false)
}

// until waits for a condition, in fake time.
func (w *world) until(what string, within time.Duration, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(within); !is(); {
		if time.Now().After(end) {
			w.t.Fatalf("waited %v for %s\n%.600s", within, what, w.describe())
		}
		<-time.After(time.Millisecond)
	}
}

// describe is how the group is, as its coordinators see it.
func (w *world) describe() (text string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	w.mu.Lock()
	all := slices.Clone(w.all)
	w.mu.Unlock()
	for _, p := range all {
		s, err := p.Status(ctx)
		keys, _ := p.Keys(ctx)
		text += fmt.Sprintf("%s: %+v %v\n\t%+v\n\t%+v\n", p.id, s, err, keys, p.Counts())
	}
	return text
}

// holding is who works on which shard, as the work itself says.
type holding struct {
	t      testing.TB
	mu     sync.Mutex
	by     map[string]string
	tokens map[string]elect.Token
	shards map[string]*Shard
	begun  int
}

func newHolding(t testing.TB) *holding {
	return &holding{t: t, by: map[string]string{}, tokens: map[string]elect.Token{}, shards: map[string]*Shard{}}
}

// work holds a key until its context ends. No two do at once.
func (h *holding) work(id string) func(context.Context, *Shard) error {
	return func(ctx context.Context, s *Shard) error {
		h.begin(id, s)
		<-ctx.Done()
		h.end(s)
		return nil
	}
}

func (h *holding) begin(id string, s *Shard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other := h.shards[s.Key()]; other != nil && other.Check() == nil && s.Check() == nil {
		h.t.Errorf("%s holds %s, and %s begins with it", h.by[s.Key()], s.Key(), id)
	}
	if s.Token() <= h.tokens[s.Key()] {
		h.t.Errorf("%s has token %v after %v", s.Key(), s.Token(), h.tokens[s.Key()])
	}
	h.by[s.Key()], h.tokens[s.Key()], h.shards[s.Key()] = id, s.Token(), s
	h.begun++
}

func (h *holding) end(s *Shard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shards[s.Key()] == s {
		delete(h.by, s.Key())
		delete(h.shards, s.Key())
	}
}

// held returns the tokens of a member's keys.
func (h *holding) held(id string) map[string]elect.Token {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[string]elect.Token{}
	for k, by := range h.by {
		if by == id {
			all[k] = h.tokens[k]
		}
	}
	return all
}

func (h *holding) count() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := map[string]int{}
	for _, id := range h.by {
		n[id]++
	}
	return n
}

func (h *holding) total() (n int) {
	for _, c := range h.count() {
		n += c
	}
	return n
}

// run has a member work on its shards in the background.
func (p *part) run(h *holding) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = p.Run(ctx, h.work(p.id)) })
	stop = sync.OnceFunc(func() {
		cancel()
		done.Wait()
	})
	p.w.t.Cleanup(stop)
	return stop
}

func name(i int) string { return fmt.Sprintf("m%d", i) }
