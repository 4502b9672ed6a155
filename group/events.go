package group

import (
	"sync"
	"time"
)

// events are those that Config.OnEvent has not had. It is called by a goroutine that is there while there are some: no
// loop waits for it.
type events struct {
	mu    sync.Mutex
	queue []Event
	lost  int           // had no room in the queue
	busy  chan struct{} // closed when the goroutine has ended; nil if there is none
}

// event leaves an event for OnEvent.
func (g *Group) event(e Event) {
	if g.cfg.OnEvent == nil {
		return
	}
	q := &g.events
	q.mu.Lock()
	defer q.mu.Unlock()
	e.At = time.Now()
	if len(q.queue) >= MaxKeys {
		q.lost++
		return
	}
	q.queue = append(q.queue, e)
	if q.busy == nil {
		q.busy = make(chan struct{})
		go g.tell(q.busy)
	}
}

// tell calls OnEvent until there are no more events.
func (g *Group) tell(over chan struct{}) {
	defer close(over)
	q := &g.events
	for {
		q.mu.Lock()
		all, lost := q.queue, q.lost
		q.queue, q.lost = nil, 0
		if len(all) == 0 {
			q.busy = nil
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		for _, e := range all {
			g.cfg.OnEvent(e)
		}
		if lost > 0 {
			g.log.Warn("events are lost; want an OnEvent that returns quickly", "events", lost, "most", MaxKeys)
		}
	}
}

// wait waits until OnEvent has had all.
func (q *events) wait() {
	q.mu.Lock()
	busy := q.busy
	q.mu.Unlock()
	if busy != nil {
		<-busy
	}
}
