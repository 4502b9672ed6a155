// Package pool shares what is expensive to open, such as the client of a store, between the elections of a process. A
// [Pool] is safe for concurrent use. A failure to open is returned to all calls that waited for it, and the next call
// tries again. A panic of the opening call is a failure for those that waited.
//
// A [Batch] makes one request of many, so that a thousand elections of a process do not need a thousand requests.
package pool

import (
	"errors"
	"sync"
)

// Pool has one value for each key that is in use. Its zero value is empty. It shows its keys to
// nobody, so a key may contain a password.
type Pool[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]*entry[V]
}

// entry is a value, or the failure to open it.
type entry[V any] struct {
	once  sync.Once
	users int // guarded by the lock of the Pool
	value V
	close func() error
	err   error
}

var errPanicked = errors.New("pool: the call that was to open it has panicked")

// Use returns the value of a key. The first call opens it, and calls at the same time wait for that.
// done ends one use, and may be called more than once; the last one of a value closes it, and returns
// what that returned.
func (p *Pool[K, V]) Use(key K, open func() (value V, close func() error, err error)) (value V, done func() error, err error) {
	p.mu.Lock()
	e := p.all[key]
	if e == nil {
		if p.all == nil {
			p.all = map[K]*entry[V]{}
		}
		e = &entry[V]{}
		p.all[key] = e
	}
	e.users++
	p.mu.Unlock()
	opened := false
	defer func() {
		if !opened { // open has failed, or panics
			p.leave(key, e)
		}
	}()
	e.once.Do(func() {
		e.err = errPanicked // unless it returns
		e.value, e.close, e.err = open()
	})
	if opened = e.err == nil; !opened {
		return value, nil, e.err
	}
	return e.value, sync.OnceValue(func() error {
		if p.leave(key, e) {
			return e.close()
		}
		return nil
	}), nil
}

// leave ends a use, and reports whether it was the last one. A value that is to be closed, or was not
// opened, is forgotten: the next Use opens another one.
func (p *Pool[K, V]) leave(key K, e *entry[V]) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.users--
	if last = e.users == 0; (last || e.err != nil) && p.all[key] == e {
		delete(p.all, key)
	}
	return last
}
