package check

// seen is a set of fingerprints, which are not 0.
type seen struct {
	slots []uint64
	n     int
}

// add reports whether the fingerprint is new.
func (s *seen) add(f uint64) bool {
	if 4*(s.n+1) > 3*len(s.slots) {
		s.grow()
	}
	mask := uint64(len(s.slots) - 1)
	for i := f >> 8 & mask; ; i = (i + 1) & mask {
		switch s.slots[i] {
		case f:
			return false
		case 0:
			s.slots[i] = f
			s.n++
			return true
		}
	}
}

func (s *seen) grow() {
	old := s.slots
	s.slots = make([]uint64, max(1<<12, 2*len(old)))
	mask := uint64(len(s.slots) - 1)
	for _, f := range old {
		if f == 0 {
			continue
		}
		i := f >> 8 & mask
		for s.slots[i] != 0 {
			i = (i + 1) & mask
		}
		s.slots[i] = f
	}
}
