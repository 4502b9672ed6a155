package classictest

import (
	"time"

	"github.com/electd/elect/protocol"
)

// event is an input that is on its way.
type event struct {
	at   time.Duration
	seq  int
	to   int
	life int
	in   protocol.Input
}

// events are a heap: what is due first comes first, and of two what was sent first.
type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}
