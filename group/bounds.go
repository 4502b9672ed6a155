package group

import (
	"fmt"
	"sync"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/group/internal/wire"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
)

// What a connection, or all of one member, may hold at a coordinator. The machine bounds keys, sessions and what is
// handed over. What goes beyond is refused by a line that says what would be right.
const (
	maxUnknown = 256 // connections that have not said who they are
	// maxConns is how many connections a member takes: each costs some 20 KB, and as many descriptors.
	maxConns = 8192
	// maxClients is how many of these only ask: members always find room.
	maxClients = maxConns / 2
	// maxMemberConns is how many are of one member. It has one; those that died without a word stay until the kernel's
	// probes see it, after two to three minutes, and a member connects anew after two promises.
	maxMemberConns = 64
	// maxClientConns is how many of those that only ask show one id: many processes may share a certificate.
	maxClientConns = 1024

	// maxQueued and maxQueuedBytes are how many messages of one connection wait for the loop before the connection is
	// not read any more. One message may be longer.
	maxQueued      = 256
	maxQueuedBytes = 8 << 20
	// maxAsked bounds a message of somebody who only asks, in bytes: the keys of all answers that a Client keeps.
	maxAsked = 2 << 20

	// maxClientWatches is how many keys a connection follows that only asks. A member follows as many as it may want.
	maxClientWatches = 1 << 16
	// maxShown is how long the metadata of one key is as JSON: six bytes for each of driver.MaxMetadata at most, and
	// quotation marks.
	maxShown = 8 * driver.MaxMetadata
	// maxMemberShown is how long all metadata is that one member shows: 128 bytes for each of the greatest number of keys.
	maxMemberShown = 128 << 20

	// maxCalls is how many requests of a connection wait for a change, or for a holder's answer.
	maxCalls = 1024
	// maxLists is how many requests of a connection for keys or plans wait, and maxAllLists how many of all.
	maxLists    = 8
	maxAllLists = 1024
	// pageSize is how many keys one answer has: it is made in the loop, in a few milliseconds, and fits into one message.
	pageSize = 4096
)

// backlog is what one connection has brought and the loop has not handled. One goroutine adds to it.
type backlog struct {
	freed chan struct{} // has room for one

	mu    sync.Mutex
	n     int
	bytes int
}

func newBacklog() *backlog { return &backlog{freed: make(chan struct{}, 1)} }

// add waits for room, unless one of the channels is closed. It reports whether there is room.
func (b *backlog) add(p *wire.Packet, ended, over <-chan struct{}) bool {
	size := p.Size()
	for {
		b.mu.Lock()
		if b.n == 0 || b.n < maxQueued && b.bytes+size <= maxQueuedBytes {
			b.n++
			b.bytes += size
			b.mu.Unlock()
			return true
		}
		b.mu.Unlock()
		select {
		case <-b.freed:
		case <-ended:
			return false
		case <-over:
			return false
		}
	}
}

// done says that the loop begins with a packet.
func (b *backlog) done(p *wire.Packet) {
	size := p.Size()
	b.mu.Lock()
	b.n--
	b.bytes -= size
	b.mu.Unlock()
	ring(b.freed)
}

// enter counts a connection as one that is known, or says why there is no room for it. It is called before the other end
// has its welcome: that may connect again at once, and find room.
func (l *acceptor) enter(from *connection) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	same, asking, most := 0, 0, maxMemberConns
	for o := range l.all {
		if o.control {
			asking++
		}
		if o.control == from.control && o.name == from.name {
			same++
		}
	}
	if from.control {
		most = maxClientConns
	}
	switch {
	case same >= most:
		return fmt.Sprintf("%d connections of %s are open; want at most %d with one id", same, from.name, most)
	case from.control && asking >= maxClients:
		return fmt.Sprintf("%d connections only ask; want at most %d", asking, maxClients)
	case len(l.all) >= maxConns:
		return fmt.Sprintf("%d connections are open; want at most %d", len(l.all), maxConns)
	}
	l.all[from] = struct{}{}
	l.unknown--
	return ""
}

// leave ends what enter began; nil is a connection that did not enter.
func (l *acceptor) leave(from *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from == nil {
		l.unknown--
	}
	delete(l.all, from)
}

// deny tells the other end that what it has sent without asking for an answer is refused.
func (c *coordinator) deny(from *connection, format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if c.g.acceptor.news(err.Error()) {
		c.g.log.Warn("what a member sends is refused", "member", from.name, "error", err)
	}
	c.answer(from, 0, err)
}

// watch has a connection told of a key. It reports false if that were too many.
func (c *coordinator) watch(from *connection, k machine.Key) bool {
	if _, twice := from.watches[k]; twice {
		return true
	}
	if len(from.watches) >= from.mostWatches() {
		return false
	}
	if from.watches == nil {
		from.watches = map[machine.Key]bool{}
	}
	from.watches[k] = false
	c.watchers[k] = append(c.watchers[k], from)
	return true
}

func (from *connection) mostWatches() int {
	if from.control {
		return maxClientWatches
	}
	return machine.MaxKeys
}

// show keeps what a holder shows beside itself. What is too long is left out.
func (c *coordinator) show(e *wire.Entry) (err error) {
	k := machine.Key(e.Key)
	c.unshow(k)
	switch n := len(e.Metadata); {
	case n > maxShown:
		err = fmt.Errorf("the metadata of %q has %d bytes; want at most %d", e.Key, n, maxShown)
	case c.shownBytes[e.Member]+n > maxMemberShown:
		err = fmt.Errorf("%s shows metadata of %d bytes; want at most %d for all its keys", e.Member, c.shownBytes[e.Member]+n, maxMemberShown)
	}
	if err != nil {
		e.Metadata = nil
	}
	c.shown[k] = e
	c.shownBytes[e.Member] += len(e.Metadata)
	return err
}

func (c *coordinator) unshow(k machine.Key) {
	e := c.shown[k]
	if e == nil {
		return
	}
	delete(c.shown, k)
	if c.shownBytes[e.Member] -= len(e.Metadata); c.shownBytes[e.Member] == 0 {
		delete(c.shownBytes, e.Member)
	}
}

// crowded reports whether a connection has as many of something as it may, and answers that.
func (c *coordinator) crowded(from *connection, call uint64, n, most int) bool {
	if n >= most {
		c.answer(from, call, fmt.Errorf("%d requests of this connection wait; want at most %d at a time", n, most))
	}
	return n >= most
}

// handedOver says that more than may wait is handed over, before the machine drops it.
func (c *coordinator) handedOver(from *connection, held []machine.Held) {
	n := c.machine.Waiting(protocol.NodeID(from.member))
	before := n
	for i := range held {
		n += len(held[i].State)
	}
	if n > machine.MaxWaiting && n > before {
		c.deny(from, "%d bytes of %s wait to be handed over; want at most %d: the rest is dropped", n, from.member, machine.MaxWaiting)
	}
}
