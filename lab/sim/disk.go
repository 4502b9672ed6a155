package sim

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// disk keeps a participant's durable state as a runtime does: in two slots, each with a checksum
// and a number, written in turn, so that an interrupted write leaves the previous content.
type disk struct {
	slots   [2]slot
	number  uint64  // of the last write that reached a slot
	queue   []write // the write in progress, and those that wait
	spare   [][]byte
	rand    stream
	saved   uint64 // the greatest Save of this incarnation that is durable
	failing int    // operations by which writes fail,
	full    int    // by ENOSPC
	slow    time.Duration
}

// slot is a place for one state. Its data is never changed, only replaced.
type slot struct {
	data   []byte
	number uint64
	bad    bool // its checksum does not match
}

// write is a Save on its way.
type write struct {
	number uint64
	data   []byte
	coin   uint64 // decides the outcome if the write is interrupted
}

// content is the valid content by the checksums; false if the disk was written and nothing on it
// can be read.
func (d *disk) content() (data []byte, ok bool) {
	var best *slot
	bad := false
	for i := range d.slots {
		s := &d.slots[i]
		bad = bad || s.bad
		if s.number > 0 && !s.bad && (best == nil || s.number > best.number) {
			best = s
		}
	}
	if best != nil {
		return best.data, true
	}
	return nil, !bad || d.number == 0
}

// target is the slot for the next write: not the valid one.
func (d *disk) target() *slot {
	a, b := &d.slots[0], &d.slots[1]
	if a.number == 0 || a.bad || b.number > a.number && !b.bad {
		return a
	}
	return b
}

// land makes a write the content of the disk. The slot gets a copy: others may still read its old
// data.
func (d *disk) land(data []byte) {
	t := d.target()
	d.number++
	*t = slot{data: slices.Clone(data), number: d.number}
}

// tear leaves a slot that no checksum matches.
func (d *disk) tear() {
	if t := d.target(); t.number > 0 || d.number > 0 {
		t.bad = true
	}
}

func (d *disk) copySlots() *[2]slot {
	c := d.slots
	return &c
}

// save begins a write, or queues it behind the one in progress. A queued write may be replaced, as
// a runtime may do.
func (w *World) save(n *node, s *protocol.Save) {
	d := &n.disk
	coin := d.rand.Uint64()
	var data []byte
	if last := len(d.spare) - 1; last >= 0 {
		data, d.spare = d.spare[last][:0], d.spare[:last]
	}
	next := write{number: s.Number, data: append(data, s.Data...), coin: coin}
	if last := len(d.queue) - 1; last > 0 && coin&1 == 0 {
		d.spare = append(d.spare, d.queue[last].data)
		d.queue[last] = next
		return
	}
	if d.queue = append(d.queue, next); len(d.queue) == 1 {
		w.write(n)
	}
}

// write begins the first write of the queue.
func (w *World) write(n *node) {
	noise := &w.schedule.Disks
	tail := noise.Tail
	if w.mended(n) {
		tail = 0
	}
	t := noise.Sync + n.disk.rand.Tail(noise.Jitter, tail) + n.disk.slow
	w.in(t, event{kind: evDisk, node: int32(n.index), life: n.life})
}

// How far a write has come when its process is frozen; an evDisk's ref.
const (
	diskOver    = iota // the disk is done with it
	diskDurable        // and its data is durable; the process does not know it yet
	diskFailed
)

// written is evDisk.
func (w *World) written(n *node, e event) bool {
	if !n.up || n.life != e.life {
		return false
	}
	d := &n.disk
	first := &d.queue[0]
	if n.clock.asleep {
		w.shelve(n, e)
		return true
	}
	if e.ref == diskOver {
		switch {
		case d.full > 0:
			e.ref = diskFailed
		case d.failing > 0:
			// The disk reports a failure, but the data may be there.
			e.ref = diskFailed
			if first.coin&2 == 0 {
				d.tear()
			} else {
				d.land(first.data)
			}
		default:
			e.ref = diskDurable
			d.land(first.data)
			w.durable(n, first)
		}
	}
	if n.frozen {
		w.shelve(n, e)
		return true
	}
	number := first.number
	d.spare = append(d.spare, first.data)
	d.queue = append(d.queue[:0], d.queue[1:]...)
	if e.ref == diskDurable {
		d.saved = max(d.saved, number)
	}
	w.release(n, number, e.ref == diskDurable)
	if len(d.queue) > 0 {
		w.write(n)
	}
	w.input.Kind, w.input.Number, w.input.Failed = protocol.Saved, number, e.ref == diskFailed
	w.step(n, &w.input)
	w.input.Number, w.input.Failed = 0, false
	return true
}

// durable handles a write that the disk now holds.
func (w *World) durable(n *node, wr *write) {
	if n.incarnation == 0 {
		if w.protocol.Incarnation == nil {
			n.incarnation = uint64(n.life)
		} else if k, err := w.protocol.Incarnation(wr.data); err == nil {
			n.incarnation = k
		}
		w.introduce(n)
	}
	w.tell(n, RecordDurable, "")
	w.oracle.durable(w, n, wr.data)
}

// release sends the messages that waited for a save, or drops them if it failed.
func (w *World) release(n *node, number uint64, durable bool) {
	kept := n.held[:0]
	for _, h := range n.held {
		switch {
		case h.after > number:
			kept = append(kept, h)
			continue
		case durable:
			m := &w.waiting.all[h.ref]
			w.send(n, &m.send, m.cause)
		}
		w.waiting.put(h.ref)
	}
	n.held = kept
}

// death is how a process ends.
type death uint8

const (
	byKill       death = iota // what was handed to the kernel is written in the end
	byPowerLoss               // the write in progress may be there, or torn
	byLostWrites              // it is torn
)

// cut decides the outcome of the unfinished writes.
func (d *disk) cut(how death) {
	if len(d.queue) > 0 {
		first := &d.queue[0]
		there := first.coin&2 != 0
		switch {
		case d.full > 0:
		case how == byLostWrites, how == byPowerLoss && !there:
			d.tear()
		case there:
			d.land(first.data)
		}
	}
	for i := range d.queue {
		d.spare = append(d.spare, d.queue[i].data)
	}
	d.queue = d.queue[:0]
	d.saved = 0
}
