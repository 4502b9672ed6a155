package peer

import (
	"sync"

	"github.com/electd/elect/peer/internal/wire"
	"github.com/electd/elect/protocol"
)

// maxLetters bounds the letters that wait. A machine takes microseconds for
// each; when more wait, the process hangs, and old letters help nobody.
const maxLetters = 4096

// item is one thing for the loop: a letter if from is set, else do.
type item struct {
	from   protocol.NodeID
	letter wire.Letter
	do     func()
}

// inbox is what waits for the loop. Letters are bounded and the newest is
// dropped when there is no room; everything else is bounded by who waits for
// it, and is always taken.
type inbox struct {
	wake chan struct{} // has room for one

	mu      sync.Mutex
	items   []item
	letters int
	dropped uint64
	closed  bool
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// put reports false when the loop has ended, or has no room.
func (b *inbox) put(it item) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	if it.from != "" {
		if b.letters == maxLetters {
			b.dropped++
			b.mu.Unlock()
			return false
		}
		b.letters++
	}
	b.items = append(b.items, it)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
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
	b.items, b.letters = used[:0], 0
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
