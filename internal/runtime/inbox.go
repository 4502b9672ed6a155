package runtime

import (
	"sync"

	"github.com/electd/elect/internal/protocol"
)

// maxLetters bounds the letters of one sender that wait, so that a sender that floods
// keeps no other sender's out. A machine takes microseconds for each. When more wait, the
// process hangs, and old letters are of no use.
const maxLetters = 128

// Letter is a message, with what its sender's runtime adds of its leadership if the
// message tells of that, see [protocol.Send].Leads. They are 0 in any other letter.
type Letter struct {
	Message protocol.Message
	Since   int64  // since when it leads: Unix time in nanoseconds, by its wall clock
	Token   uint64 // the count of its token
}

// item is one thing for the loop: a letter if from is set, else do.
type item struct {
	from   protocol.NodeID
	letter Letter
	do     func()
}

// inbox is what waits for the loop. Each sender's letters are bounded and the
// newest is dropped when there is no room; everything else is bounded by
// those that wait for it, and is always taken.
type inbox struct {
	wake chan struct{} // has room for one

	mu      sync.Mutex
	helper  func() // nil before the loop runs
	items   []item
	letters map[protocol.NodeID]int // that wait, by sender
	dropped uint64
	closed  bool
}

func newInbox() *inbox {
	return &inbox{wake: make(chan struct{}, 1), letters: make(map[protocol.NodeID]int)}
}

// help sets what put calls once a letter is in.
func (b *inbox) help(helper func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.helper = helper
}

// ring has the loop look.
func (b *inbox) ring() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// put reports false when the loop has ended, or has no room. A letter may be
// handled before it returns, so the caller holds no lock.
func (b *inbox) put(it item) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	if it.from != "" {
		if b.letters[it.from] == maxLetters {
			b.dropped++
			b.mu.Unlock()
			return false
		}
		b.letters[it.from]++
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

// take returns all that waits, in the order in which it came. It makes used,
// which the caller has done with, the place of what comes next.
func (b *inbox) take(used []item) []item {
	clear(used)
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.items
	b.items = used[:0]
	clear(b.letters)
	return all
}

// close takes nothing any more, and returns what was left.
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
