package sim

import "time"

// eventKind is what an event is.
type eventKind uint8

const (
	_          eventKind = iota
	evBoot               // a process starts
	evFire               // a machine's NextFire may have come; ref is the timer's generation
	evDeliver            // ref is a flight's place
	evClosed             // a connection's end; ref is a flight's place
	evDisk               // a write is done
	evReply              // an answer that had to wait; ref is an index into World.delayed
	evCommand            // a command that had to wait; ref is an index into World.delayed
	evThaw               // a process may run again
	evWake               // a machine may wake again
	evOp                 // an operation begins; ref is its place in the schedule
	evTick               // an operation goes on, as its Every says
	evOpEnd              // an operation ends
	evSnapshot           // a disk is copied, for an operation that restores it
	evHeal               // the faults are over
	evEnd                // the run ends
	evStore              // an event of the store
	evWork               // an event of the work
	evWrite              // a write reaches the guarded resource
	evAppend             // the leader's position advances
	evLocate             // a participant's position advances; ref is an index into World.delayed
)

// event happens at a true time. It has no pointers: its further data is in a slab, at ref.
type event struct {
	at   Time
	seq  uint64 // orders simultaneous events: the first planned comes first
	kind eventKind
	node int32
	life uint32 // of the node; 0 where it does not matter
	ref  int32
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// agenda holds the events to come, as a heap with four children to a node: the heap is flat, and
// children share cache lines.
type agenda []event

func (h *agenda) push(e event) {
	*h = append(*h, e)
	a := *h
	i := len(a) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(&a[up]) {
			break
		}
		a[i] = a[up]
		i = up
	}
	a[i] = e
}

func (h *agenda) pop() event {
	a := *h
	top := a[0]
	last := len(a) - 1
	e := a[last]
	a = a[:last]
	*h = a
	if last == 0 {
		return top
	}
	i := 0
	for {
		first := 4*i + 1
		if first >= last {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, last); c++ {
			if a[c].before(&a[least]) {
				least = c
			}
		}
		if !a[least].before(&e) {
			break
		}
		a[i] = a[least]
		i = least
	}
	a[i] = e
	return top
}

// in schedules e at d from now; with 0, after all events that are due now.
func (w *World) in(d time.Duration, e event) {
	w.seq++
	e.at, e.seq = w.now+Time(max(d, 0)), w.seq
	w.agenda.push(e)
	if w.tracer != nil {
		w.causes[e.seq] = w.cause
	}
}

// again schedules an event that could not happen yet for now, after all events that are due. Its
// cause does not change.
func (w *World) again(e event) {
	was := e.seq
	w.in(0, e)
	if w.tracer != nil {
		w.causes[w.seq] = w.causes[was]
		delete(w.causes, was)
	}
}

// slab holds the data of events. A freed place is used again.
type slab[T any] struct {
	all  []T
	free []int32
}

// get returns a place, with its old content.
func (s *slab[T]) get() int32 {
	if last := len(s.free) - 1; last >= 0 {
		i := s.free[last]
		s.free = s.free[:last]
		return i
	}
	var zero T
	s.all = append(s.all, zero)
	return int32(len(s.all) - 1)
}

func (s *slab[T]) put(i int32) { s.free = append(s.free, i) }
