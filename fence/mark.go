package fence

import (
	"context"
	"sync"
)

// Mark keeps the greatest token that was claimed for each resource, for servers that check tokens by a [Guard]. Its
// methods are safe for concurrent use. An implementation documents whether several processes may use it.
type Mark interface {
	// Raise makes token the mark of the resource, unless that is greater, and returns when it is durable: it survives
	// the death of the process and a loss of power. If the mark is greater the error is a [StaleError]. After any other
	// error it is not known whether the mark was raised; it is never lower than before. Raising it to the same token
	// again succeeds.
	Raise(ctx context.Context, resource Resource, token Token) error

	// Highest returns the mark of the resource, 0 if it was never claimed.
	Highest(ctx context.Context, resource Resource) (Token, error)
}

// Sharer is a Mark that several guards may share, in several processes.
type Sharer interface {
	Mark

	// Share checks that the mark is not above token, as Raise does, and holds it there: until release is called every
	// attempt to raise it, here or elsewhere, waits. The write happens between the two. If a release fails the hold may
	// have been lost before, and the write may have overlapped with those of a later leader.
	Share(ctx context.Context, resource Resource, token Token) (release func() error, err error)
}

// Clearer is a Mark that also records which work has ended, for a mark that outlives its guard.
type Clearer interface {
	Mark

	// Cleared reports that the mark is at token, and that all admitted work of smaller tokens has ended. A [Guard]
	// calls it before it admits the first work of a token, which waits for it. A mark that cannot store that behaves as
	// if Cleared had not been called.
	Cleared(ctx context.Context, resource Resource, token Token)
}

// Memory is a [Mark] that forgets everything with its process: for tests, and for data in the memory of the same
// process. The zero Memory is ready; it must not be copied.
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
