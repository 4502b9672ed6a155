package fence

import (
	"context"
	"sync"
)

// Mark keeps the greatest token that was claimed for each resource. It is for servers that check tokens themselves,
// with a [Guard]; the packages below this one guard databases, files and services. Its methods are safe for
// concurrent use. An implementation documents whether several processes may use it.
type Mark interface {
	// Raise makes token the mark of the resource, unless the mark is already greater, and returns when that is durable:
	// it survives the death of the process and a loss of power. If the mark is greater the error is a [StaleError].
	// After any other error it is not known whether the mark was raised; it is never lower than before. Raising it to
	// the same token again succeeds.
	Raise(ctx context.Context, resource Resource, token Token) error

	// Highest returns the mark of the resource, 0 if it was never claimed.
	Highest(ctx context.Context, resource Resource) (Token, error)
}

// Sharer is a Mark that several guards may share, in several processes.
type Sharer interface {
	Mark

	// Share checks that the mark of the resource is not above token, as Raise does, and holds it there: until release is
	// called every attempt to raise it, here or elsewhere, waits. The write happens between the two. If a release fails
	// the hold may have been lost before, and what was written meanwhile may have overlapped with a later leader's
	// writes.
	Share(ctx context.Context, resource Resource, token Token) (release func() error, err error)
}

// Clearer is a Mark that also records which work has ended. If it outlives its guard, it knows whether work of
// smaller tokens may be left.
type Clearer interface {
	Mark

	// Cleared reports that the mark of the resource is at token, and that all admitted work of smaller tokens has ended.
	// A [Guard] calls it before it admits the first work of a token, which waits for it. If the mark cannot store that,
	// it is as if Cleared had not been called.
	Cleared(ctx context.Context, resource Resource, token Token)
}

// Memory is a Mark that forgets everything with its process. It is correct only if the guarded data is in the memory
// of the same process too, and in tests. The zero Memory is empty and ready; it must not be copied.
type Memory struct {
	mu    sync.Mutex
	marks map[Resource]Token
}

// Raise implements [Mark].
func (m *Memory) Raise(_ context.Context, resource Resource, token Token) error {
	if err := CheckShown(resource, token); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if highest := m.marks[resource]; token < highest {
		return &StaleError{Shown: token, Highest: highest}
	}
	if m.marks == nil {
		m.marks = map[Resource]Token{}
	}
	m.marks[resource] = token
	return nil
}

// Highest implements [Mark].
func (m *Memory) Highest(_ context.Context, resource Resource) (Token, error) {
	if _, err := ParseResource(string(resource)); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marks[resource], nil
}
