package classictest

import (
	"container/heap"
	"time"
)

// Agenda is what is to happen in a world, and when. Of two things at one time, what
// was put down first comes first. The zero Agenda is empty, at the time 0.
type Agenda struct {
	Now   time.Duration // since the world began
	queue events
	order uint64
}

// In has something happen after d, at once if d is not positive.
func (a *Agenda) In(d time.Duration, do func()) {
	a.order++
	heap.Push(&a.queue, event{a.Now + max(d, 0), a.order, do})
}

// Next has happen what comes next, if it comes until end, and reports whether
// anything did.
func (a *Agenda) Next(end time.Duration) bool {
	if len(a.queue) == 0 || a.queue[0].at > end {
		return false
	}
	e := heap.Pop(&a.queue).(event)
	a.Now = e.at
	e.do()
	return true
}

// Run goes on for d.
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
