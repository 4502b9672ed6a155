package keeper

import (
	"encoding/binary"
	"errors"
	"time"
)

// Spec is what the keeper must know. It goes over the lifeline and not in the keeper's arguments, where it could be
// too long and every user could read it.
type Spec struct {
	Path  string
	Dir   string
	Args  []string
	Env   []string
	Grace time.Duration
	// Terminal is whether there is one, Foreground whether to give it to the command at the start, and Group the process
	// group that had it.
	Terminal   bool
	Foreground bool
	Guard      bool // the command is a program that calls Guard
	Group      int
	Hold       int // number of files with locks
	Run        int // number of files to keep, after those
	// Places are the paths at which the files with locks must be found, in their order; "" is any.
	Places []string
	// Addresses are held on network interfaces, as address.Decode reads them.
	Addresses []string
	Network   bool   // the cgroup has a network guard, and its gate comes with the files
	Deadline  int64  // on the shared clock; 0 is none
	Cgroup    string // the path of the family's; "" is none
	Page      string // the path of the lease page; "" is none
	// Testament is for the witness, which speaks if the process Parent is dead. Its pidfd comes with the files; 0 is none.
	Testament string
	Parent    int
}

const specVersion = 7

// Append appends the specification to dst.
func (s *Spec) Append(dst []byte) []byte {
	dst = append(dst, specVersion)
	text := func(t string) {
		dst = binary.AppendUvarint(dst, uint64(len(t)))
		dst = append(dst, t...)
	}
	text(s.Path)
	text(s.Dir)
	text(s.Testament)
	text(s.Cgroup)
	text(s.Page)
	for _, list := range [][]string{s.Args, s.Env, s.Places, s.Addresses} {
		dst = binary.AppendUvarint(dst, uint64(len(list)))
		for _, t := range list {
			text(t)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(s.Grace))
	dst = binary.AppendUvarint(dst, uint64(s.Group))
	dst = binary.AppendUvarint(dst, uint64(s.Hold))
	dst = binary.AppendUvarint(dst, uint64(s.Run))
	dst = binary.AppendUvarint(dst, uint64(s.Parent))
	dst = binary.AppendUvarint(dst, uint64(s.Deadline))
	return append(dst, flag(s.Terminal)|flag(s.Foreground)<<1|flag(s.Guard)<<2|flag(s.Network)<<3)
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

var errSpec = errors.New("supervise: the specification of the command is malformed")

// load reads what Append wrote. It copies what it keeps.
func (s *Spec) load(src []byte) error {
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
	s.Path = text()
	s.Dir = text()
	s.Testament = text()
	s.Cgroup = text()
	s.Page = text()
	for _, list := range []*[]string{&s.Args, &s.Env, &s.Places, &s.Addresses} {
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
	s.Grace = time.Duration(num(most))
	s.Group = int(num(1<<31 - 1))
	s.Hold = int(num(1 << 10))
	s.Run = int(num(MaxKeep))
	s.Parent = int(num(1<<31 - 1))
	s.Deadline = int64(num(most))
	if bad || len(s.Places) > s.Hold || len(s.Addresses) > MaxAddresses || len(src) != 1 || src[0] > 15 {
		return errSpec
	}
	s.Terminal, s.Foreground, s.Guard, s.Network = src[0]&1 != 0, src[0]&2 != 0, src[0]&4 != 0, src[0]&8 != 0
	return nil
}

// MaxKeep bounds the number of files to keep.
const MaxKeep = 64

// MaxAddresses bounds the number of addresses.
const MaxAddresses = 16

// MaxTestament bounds a testament, in bytes.
const MaxTestament = 1 << 20
