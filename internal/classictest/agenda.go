package classictest

import (
	"container/heap"
	"time"
)

// Agenda is the list of future events in a world. Of two events at one time, the one that was added first comes
// first. The zero Agenda is empty, at the time 0.
type Agenda struct {
	Now   time.Duration // since the world began
	queue events
	order uint64
}

// In schedules do after d, at once if d is not positive.
func (a *Agenda) In(d time.Duration, do func()) {
	a.order++
	heap.Push(&a.queue, event{a.Now + max(d, 0), a.order, do})
}

// Next runs the next event if it comes until end, and reports whether there was one.
func (a *Agenda) Next(end time.Duration) bool {
	if len(a.queue) == 0 || a.queue[0].at > end {
		return false
	}
	e := heap.Pop(&a.queue).(event)
	a.Now = e.at
	e.do()
	return true
}

// Run runs all events of the next d.
func (a *Agenda) Run(d time.Duration) {
	end := a.Now + d
	for a.Next(end) {
	}
	a.Now = end
}

type event struct {
	at    time.Duration
	order uint64
	do    func()
}

// events are a heap.
type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(e any)   { *q = append(*q, e.(event)) }
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}
