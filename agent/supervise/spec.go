package supervise

import (
	"encoding/binary"
	"errors"
	"time"
)

// spec is what the keeper must know. It goes over the lifeline and not in the keeper's arguments, where it could be
// too long and every user could read it.
type spec struct {
	path  string
	dir   string
	args  []string
	env   []string
	grace time.Duration
	// terminal is whether there is one. foreground is whether to give it to the command at the start. group is the group
	// that had it.
	terminal   bool
	foreground bool
	guard      bool // the command is a program that calls Guard
	group      int
	hold       int // number of files with locks
	keep       int // number of files to keep, after those
	// places are the paths at which the files with locks must be found, in their order; "" is any.
	places   []string
	network  bool   // the cgroup has a network guard, and its gate comes with the files
	deadline int64  // on the shared clock; 0 is none
	cgroup   string // the path of the family's; "" is none
	// testament is for the witness, which speaks if the process parent is dead.
	testament string
	parent    int
}

const specVersion = 5

func (s *spec) append(dst []byte) []byte {
	dst = append(dst, specVersion)
	text := func(t string) {
		dst = binary.AppendUvarint(dst, uint64(len(t)))
		dst = append(dst, t...)
	}
	text(s.path)
	text(s.dir)
	text(s.testament)
	text(s.cgroup)
	for _, list := range [][]string{s.args, s.env, s.places} {
		dst = binary.AppendUvarint(dst, uint64(len(list)))
		for _, t := range list {
			text(t)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(s.grace))
	dst = binary.AppendUvarint(dst, uint64(s.group))
	dst = binary.AppendUvarint(dst, uint64(s.hold))
	dst = binary.AppendUvarint(dst, uint64(s.keep))
	dst = binary.AppendUvarint(dst, uint64(s.parent))
	dst = binary.AppendUvarint(dst, uint64(s.deadline))
	return append(dst, flag(s.terminal)|flag(s.foreground)<<1|flag(s.guard)<<2|flag(s.network)<<3)
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

var errSpec = errors.New("supervise: the specification of the command is malformed")

// load reads what append wrote. It copies what it keeps.
func (s *spec) load(src []byte) error {
	if len(src) == 0 || src[0] != specVersion {
		return errSpec
	}
	src = src[1:]
	bad := false
	num := func(most uint64) uint64 {
		v, n := binary.Uvarint(src)
		if n <= 0 || v > most {
			bad, src = true, nil
			return 0
		}
		src = src[n:]
		return v
	}
	text := func() string {
		n := num(uint64(len(src))) // no text is longer than the rest
		if bad || n > uint64(len(src)) {
			bad = true
			return ""
		}
		t := string(src[:n])
		src = src[n:]
		return t
	}
	s.path = text()
	s.dir = text()
	s.testament = text()
	s.cgroup = text()
	for _, list := range []*[]string{&s.args, &s.env, &s.places} {
		n := num(uint64(len(src))) // each takes a byte at least
		*list = make([]string, 0, min(n, 1024))
		for range n {
			*list = append(*list, text())
			if bad {
				return errSpec
			}
		}
	}
	const most = 1<<63 - 1
	s.grace = time.Duration(num(most))
	s.group = int(num(1<<31 - 1))
	s.hold = int(num(1 << 10))
	s.keep = int(num(maxKeep))
	s.parent = int(num(1<<31 - 1))
	s.deadline = int64(num(most))
	if bad || len(s.places) > s.hold || len(src) != 1 || src[0] > 15 {
		return errSpec
	}
	s.terminal, s.foreground, s.guard, s.network = src[0]&1 != 0, src[0]&2 != 0, src[0]&4 != 0, src[0]&8 != 0
	return nil
}
