package runtime

import (
	"sync"

	"github.com/electd/elect/internal/protocol"
)

// maxQueued bounds the queued messages of one sender, so that a sender that floods excludes no other one. A machine
// takes microseconds for each. If more are queued the process hangs, and old messages are of no use.
const maxQueued = 128

// Incoming is a message that was received. If it reports that its sender leads, see [protocol.Send].Leads, it has what
// the sender's runtime adds about that. The fields are 0 in any other message.
type Incoming struct {
	Message protocol.Message
	Since   int64  // since when it leads: Unix time in nanoseconds, by its wall clock
	Token   uint64 // the count of its token
}

// item is one thing for the loop: a message if from is set, else do.
type item struct {
	from    protocol.NodeID
	message Incoming
	do      func()
}

// inbox is the queue of the loop. Each sender's messages are bounded, and the newest is dropped if there is no room.
// Everything else is bounded by its waiting callers, and is always accepted.
type inbox struct {
	wake chan struct{} // has room for one

	mu      sync.Mutex
	helper  func() // nil before the loop runs
	items   []item
	queued  map[protocol.NodeID]int // queued ones, by sender
	dropped uint64
	closed  bool
}

func newInbox() *inbox {
	return &inbox{wake: make(chan struct{}, 1), queued: make(map[protocol.NodeID]int)}
}

// help sets the function that put calls after it has queued a message.
func (b *inbox) help(helper func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.helper = helper
}

// ring wakes the loop.
func (b *inbox) ring() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// put returns false if the loop has ended, or there is no room. The message may be handled before put returns, so the
// caller must hold no lock.
func (b *inbox) put(it item) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	if it.from != "" {
		if b.queued[it.from] == maxQueued {
			b.dropped++
			b.mu.Unlock()
			return false
		}
		b.queued[it.from]++
	}
	b.items = append(b.items, it)
	helper := b.helper
	b.mu.Unlock()
	if it.from != "" && helper != nil {
		helper()
	} else {
		b.ring()
	}
	return true
}

// take returns the whole queue, in order. It reuses used, with which the caller is done, for the next one.
func (b *inbox) take(used []item) []item {
	clear(used)
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.items
	b.items = used[:0]
	clear(b.queued)
	return all
}

// close stops accepting, and returns what was left.
func (b *inbox) close() []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	left := b.items
	b.items = nil
	return left
}

func (b *inbox) lost() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped
}
