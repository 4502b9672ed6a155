package fence

import (
	"context"
	"sync"
)

// Mark keeps the greatest token that was claimed for each resource: the resource's
// high-water mark. It is for servers that check tokens themselves, with a [Guard];
// the packages beneath this one guard databases, files and services. Its methods are
// safe for concurrent use, by several processes where an implementation says so.
type Mark interface {
	// Raise makes token the mark of the resource, unless that is greater already,
	// and returns when it is durable: a process that is killed, or a machine that
	// loses power, after Raise has returned nil does not forget it. A greater mark is a
	// [StaleError]. After any other error it is not known whether the mark was
	// raised; it is never lower than before. The same token again is no error.
	Raise(ctx context.Context, resource Resource, token Token) error

	// Highest returns the mark of the resource, 0 if it was never claimed.
	Highest(ctx context.Context, resource Resource) (Token, error)
}

// Sharer is a Mark that several guards may have in common, in several processes.
type Sharer interface {
	Mark

	// Share checks that the mark of the resource is not above token, as Raise does,
	// and holds it there: until release is called nobody raises it, here or elsewhere,
	// and whoever wants to waits. The write happens between the two. A release that
	// fails means that the hold may have been lost before: what was written meanwhile
	// may have met a later leader's.
	Share(ctx context.Context, resource Resource, token Token) (release func() error, err error)
}

// Clearer is a Mark that wants to know what has ended, and not only what was claimed:
// one that outlives its guard knows by it whether work of smaller tokens may be left.
type Clearer interface {
	Mark

	// Cleared is told that the mark of the resource is at token, and that all work of
	// smaller tokens which the guard has admitted has ended. A [Guard] calls it before it
	// admits the first work of a token, which waits for it. If the mark cannot keep that,
	// it is as if Cleared had not been called.
	Cleared(ctx context.Context, resource Resource, token Token)
}

// Memory is a Mark that forgets everything with its process. It is right only where
// what it guards is in the memory of the same process, too, and in tests. The zero
// Memory is empty and ready; it must not be copied.
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
