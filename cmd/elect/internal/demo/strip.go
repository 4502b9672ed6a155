package demo

import "time"

// mark is the state of one node during one slot of the strip.
type mark byte

const (
	blank          mark = iota // dead, or not started
	standing                   // standing by
	frozen                     // paused
	severed                    // cut off
	working                    // its job wrote
	frozenWorking              // its job wrote, while elect run was paused
	severedWorking             // its job wrote, while it was cut off
)

// worked reports whether the job wrote.
func (k mark) worked() bool { return k >= working }

// slot is the time of one mark of the strip. A column of the picture has two.
const slot = 125 * time.Millisecond

// slots is the number of kept slots.
const slots = 1024

// strip is the past, slot by slot. In each slot at most one node has worked: the one that wrote last in it, so that a
// takeover within a slot does not look like two at once. The ledger decides whether there were two at once.
type strip struct {
	marks [][size]mark
	first int // the number of marks[0]; the slot of the time 0 has number 0
}

// at returns the marks of a slot, and whether they are kept and known.
func (s *strip) at(number int) (*[size]mark, bool) {
	if i := number - s.first; i >= 0 && i < len(s.marks) {
		return &s.marks[i], true
	}
	return nil, false
}

// end is the number of the slot after the last one.
func (s *strip) end() int { return s.first + len(s.marks) }

// advance fills the strip up to the slot of now.
func (s *strip) advance(now time.Duration, what func(node int) mark) {
	for number := int(now / slot); s.end() <= number; {
		var m [size]mark
		for i := range m {
			m[i] = what(i)
		}
		s.marks = append(s.marks, m)
		if extra := len(s.marks) - slots; extra > 0 {
			s.marks = append(s.marks[:0], s.marks[extra:]...)
			s.first += extra
		}
	}
}

// work records that a node's job wrote at that time. The slot may be past: the log is read a moment after it was
// written.
func (s *strip) work(at time.Duration, node int) {
	number := int(at / slot)
	s.advance(at, func(i int) mark {
		if last, ok := s.at(s.end() - 1); ok {
			return last[i].rest()
		}
		return standing
	})
	m, ok := s.at(number)
	if !ok || node < 0 {
		return
	}
	for i := range m {
		m[i] = m[i].rest()
	}
	switch m[node] {
	case frozen:
		m[node] = frozenWorking
	case severed:
		m[node] = severedWorking
	default:
		m[node] = working
	}
}

// rest is the mark without the work.
func (k mark) rest() mark {
	switch k {
	case working:
		return standing
	case frozenWorking:
		return frozen
	case severedWorking:
		return severed
	}
	return k
}
