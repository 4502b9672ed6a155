package pool

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// source opens values, which are numbers, and knows which are open.
type source struct {
	opened atomic.Int64
	open   atomic.Int64
}

func (s *source) make() (int64, func() error, error) {
	s.open.Add(1)
	return s.opened.Add(1), func() error { s.open.Add(-1); return nil }, nil
}

// TestShared: a value is opened by its first user, and closed by its last.
func TestShared(t *testing.T) {
	var p Pool[string, int64]
	var s source
	use := func(key string, want int64) func() error {
		t.Helper()
		v, done, err := p.Use(key, s.make)
		if err != nil || v != want {
			t.Fatalf("%d, %v; want %d", v, err, want)
		}
		return done
	}
	a, b, other := use("x", 1), use("x", 1), use("y", 2)
	for _, done := range []func() error{a, a, a} { // once counts
		if err := done(); err != nil || s.open.Load() != 2 {
			t.Fatalf("%v, %d are open; want one user to disturb no other", err, s.open.Load())
		}
	}
	if err := b(); err != nil || s.open.Load() != 1 {
		t.Fatalf("%v, %d are open; want the last user to close x", err, s.open.Load())
	}
	again := use("x", 3)
	if err := errors.Join(b(), other(), again()); err != nil || s.open.Load() != 0 || len(p.all) != 0 {
		t.Errorf("%v, %d are open, %d are kept", err, s.open.Load(), len(p.all))
	}
}

// TestFailure: a failure is that of all who waited for it, and not of the next one.
func TestFailure(t *testing.T) {
	var p Pool[string, int64]
	var s source
	fail, went := make(chan struct{}), errors.New("no")
	var work sync.WaitGroup
	for range 10 {
		work.Go(func() {
			_, done, err := p.Use("secret", func() (int64, func() error, error) { <-fail; return 0, nil, went })
			if !errors.Is(err, went) || done != nil {
				t.Errorf("%v; want the failure", err)
			}
		})
	}
	for waiting := 0; waiting < 10; runtime.Gosched() {
		p.mu.Lock()
		if e := p.all["secret"]; e != nil {
			waiting = e.users
		}
		p.mu.Unlock()
	}
	close(fail)
	work.Wait()
	v, done, err := p.Use("secret", s.make)
	if err != nil || v != 1 {
		t.Fatalf("%d, %v; want another try", v, err)
	}
	if err := done(); err != nil || s.open.Load() != 0 {
		t.Errorf("%v, %d are open", err, s.open.Load())
	}
}

// TestPanic: a call whose open panics, or ends its goroutine, is a failure to the one that waited, and is forgotten.
func TestPanic(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("no") }, "Goexit": runtime.Goexit} {
		var p Pool[string, int64]
		var s source
		begun, fail := make(chan struct{}), make(chan struct{})
		var work sync.WaitGroup
		work.Go(func() {
			defer func() { _ = recover() }()
			_, _, err := p.Use("x", func() (int64, func() error, error) { close(begun); <-fail; end(); return s.make() })
			t.Errorf("%s: it has returned %v", name, err)
		})
		work.Go(func() {
			<-begun
			v, done, err := p.Use("x", s.make)
			if !errors.Is(err, errPanicked) || done != nil {
				t.Errorf("%s: %d, %v; want the failure", name, v, err)
			}
		})
		for waiting := 0; waiting < 2; runtime.Gosched() {
			p.mu.Lock()
			if e := p.all["x"]; e != nil {
				waiting = e.users
			}
			p.mu.Unlock()
		}
		close(fail)
		work.Wait()
		v, done, err := p.Use("x", s.make)
		if err != nil || v != 1 {
			t.Fatalf("%s: %d, %v; want another try", name, v, err)
		}
		if err := done(); err != nil || len(p.all) != 0 {
			t.Errorf("%s: %v, %d are kept", name, err, len(p.all))
		}
	}
}

// TestConcurrent: at no time are two values of one key given out, or a closed one.
func TestConcurrent(t *testing.T) {
	var p Pool[string, int64]
	var s source
	var work sync.WaitGroup
	var closed sync.Map
	for range 8 {
		work.Go(func() {
			for range 200 {
				v, done, err := p.Use("x", func() (int64, func() error, error) {
					v, end, err := s.make()
					return v, func() error { closed.Store(v, true); return end() }, err
				})
				if _, is := closed.Load(v); is || err != nil {
					t.Errorf("%d is closed, %v", v, err)
				}
				if err := done(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if s.open.Load() != 0 || len(p.all) != 0 {
		t.Errorf("%d are open, %d are kept", s.open.Load(), len(p.all))
	}
}

// TestTopics: a wake reaches those who watch the topic, once for several, and the last one to leave is told so.
func TestTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var topics Topics
		var woken [3]atomic.Int32
		var lasts []bool
		watch := func(topic string, who int) (end func()) {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				lasts = append(lasts, topics.Watch(ctx, topic, func() {}, func() { woken[who].Add(1) }))
			}()
			synctest.Wait()
			return func() { cancel(); synctest.Wait() }
		}
		endA, endB, endC := watch("x", 0), watch("x", 1), watch("y", 2)
		if !topics.Wake("x") || topics.Wake("z") {
			t.Error("who watches is not known")
		}
		synctest.Wait()
		topics.WakeAll()
		synctest.Wait()
		if a, b, c := woken[0].Load(), woken[1].Load(), woken[2].Load(); a != 2 || b != 2 || c != 1 {
			t.Errorf("woken %d, %d and %d times; want 2, 2 and 1", a, b, c)
		}
		endA()
		endB()
		endC()
		if want := []bool{false, true, true}; !slices.Equal(lasts, want) || topics.Wake("x") {
			t.Errorf("the last: %v; want %v, and nobody left", lasts, want)
		}
	})
}
