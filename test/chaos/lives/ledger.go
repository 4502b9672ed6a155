//go:build linux

package lives

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Most is how many lives a ledger holds. At ten a second that is a day. The file
// is sparse: what was never claimed takes no space.
const Most = 1 << 20

// Gap is the time between two stamps above which a life remembers it.
const Gap = 10 * time.Millisecond

// Gaps is how many of them a life remembers beside the longest: the latest. Ten
// times Gap hold at most nine gaps, so the ledger always has what came before a life's
// last 100 ms.
const Gaps = 11

// magic begins a ledger and names its form.
const magic = 0x7365_7669_6c20_0004

// header is the first page of the file.
type header struct {
	magic int64
	next  int64 // how many slots were claimed
}

// slot is one life in the file. All of it is written by one process, and read by
// any; the words are aligned and used atomically.
type slot struct {
	token, pid, keeper, node, kind int64
	start, last                    int64
	longest                        gap
	latest                         [Gaps]gap // by turns
	key                            int64     // and with it 256 bytes, its own cache lines: two processes stamp side by side
}

// gap is the stamps around a time without one. A process may be killed between any
// two stores, so a gap is valid only if it ends after it began, and not after the
// last stamp, which is stored after it.
type gap struct{ paused, resumed int64 }

func (g *gap) store(paused, resumed int64) {
	atomic.StoreInt64(&g.paused, paused)
	atomic.StoreInt64(&g.resumed, resumed)
}

// load is the gap of a life whose last stamp was read before; the zero Pause if it
// is not valid.
func (g *gap) load(last int64) Pause {
	p := Pause{atomic.LoadInt64(&g.paused), atomic.LoadInt64(&g.resumed)}
	if p.Resumed <= p.Paused || p.Resumed > last {
		return Pause{}
	}
	return p
}

const (
	headerBytes = 4096
	slotBytes   = int(unsafe.Sizeof(slot{}))
)

// Ledger is an open ledger.
type Ledger struct {
	clock Clock
	mem   []byte
	slots []slot
}

// Open opens the ledger at path, and makes it if there is none.
func Open(path string) (*Ledger, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := headerBytes + Most*slotBytes
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != 0 && info.Size() != int64(size) {
		return nil, fmt.Errorf("lives: %s has %d bytes; a ledger has %d", path, info.Size(), size)
	}
	if err := f.Truncate(int64(size)); err != nil { // a concurrent opener does the same
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("lives: %s: mmap: %w", path, err)
	}
	l := &Ledger{clock: NewClock(), mem: mem, slots: unsafe.Slice((*slot)(unsafe.Pointer(&mem[headerBytes])), Most)}
	h := l.header()
	if !atomic.CompareAndSwapInt64(&h.magic, 0, magic) && atomic.LoadInt64(&h.magic) != magic {
		_ = l.Close()
		return nil, fmt.Errorf("lives: %s is no ledger of this form", path)
	}
	return l, nil
}

// Close unmaps the ledger. Nothing of it may be in use, nor its slots.
func (l *Ledger) Close() error { return unix.Munmap(l.mem) }

func (l *Ledger) header() *header { return (*header)(unsafe.Pointer(&l.mem[0])) }

// Now reads the clock by which the ledger is stamped.
func (l *Ledger) Now() int64 { return l.clock.Now() }

// Len is how many lives were begun.
func (l *Ledger) Len() int { return min(int(atomic.LoadInt64(&l.header().next)), Most) }

// Begin claims a slot for a life. Pid 0 is that of this process, Start 0 is now;
// Last and what follows it are not used. The life is not listed before its first
// stamp. It panics when the ledger is full: a life that is not recorded would
// not be judged.
func (l *Ledger) Begin(life Life) *Slot {
	born := l.Now()
	n := atomic.AddInt64(&l.header().next, 1) - 1
	if n >= Most {
		panic("lives: the ledger is full")
	}
	if life.Pid == 0 {
		life.Pid = int64(os.Getpid())
	}
	if life.Start == 0 {
		life.Start = born
	}
	s := &l.slots[n]
	atomic.StoreInt64(&s.token, life.Token)
	atomic.StoreInt64(&s.pid, life.Pid)
	atomic.StoreInt64(&s.keeper, life.Keeper)
	atomic.StoreInt64(&s.node, life.Node)
	atomic.StoreInt64(&s.kind, int64(life.Kind))
	atomic.StoreInt64(&s.key, life.Key)
	atomic.StoreInt64(&s.start, life.Start)
	return &Slot{ledger: l, slot: s, number: int(n), last: life.Start}
}

// Slot is where one life is stamped. It belongs to one goroutine.
type Slot struct {
	ledger  *Ledger
	slot    *slot
	number  int
	last    int64
	longest int64 // time between two stamps
	gaps    int   // how many there were
}

// Number is that of the life, from 0.
func (s *Slot) Number() int { return s.number }

// Stamp says that the life goes on now.
func (s *Slot) Stamp() { s.StampAt(0, s.ledger.Now()) }

// StampAt says that the life began at start, unless that is 0, and went on at
// last. A stamp before the one before it is ignored.
func (s *Slot) StampAt(start, last int64) {
	if start != 0 {
		atomic.StoreInt64(&s.slot.start, start)
		s.last = max(s.last, start)
	}
	if last < s.last {
		return
	}
	if gap := last - s.last; gap > int64(Gap) {
		s.slot.latest[s.gaps%Gaps].store(s.last, last)
		s.gaps++
		if gap > s.longest {
			s.longest = gap
			s.slot.longest.store(s.last, last)
		}
	}
	s.last = last
	atomic.StoreInt64(&s.slot.last, last)
}

// Lives returns all lives that were stamped so far, in the order in which they
// were begun.
func (l *Ledger) Lives() []Life {
	lives := l.Since(0)
	for i := range lives {
		lives[i].Gaps = l.slots[lives[i].Number].gaps(&lives[i])
	}
	return lives
}

// Since returns those whose number is at least n, without their Gaps. A caller
// that polls for present lives passes Len less a few.
func (l *Ledger) Since(n int) []Life {
	n = max(n, 0)
	end := l.Len()
	lives := make([]Life, 0, max(end-n, 0))
	for i := n; i < end; i++ {
		if life := l.life(i); life.Last != 0 { // otherwise it was killed as it claimed the slot, or is about to stamp
			lives = append(lives, life)
		}
	}
	return lives
}

// Prolong says that the life with that number went on at last: a process that belongs to it saw that, beside the one that
// stamps it. Any number may.
func (l *Ledger) Prolong(number int, last int64) {
	at := &l.slots[number].last
	for have := atomic.LoadInt64(at); have < last && !atomic.CompareAndSwapInt64(at, have, last); {
		have = atomic.LoadInt64(at)
	}
}

func (l *Ledger) life(i int) Life {
	s := &l.slots[i]
	life := Life{
		Token: atomic.LoadInt64(&s.token), Pid: atomic.LoadInt64(&s.pid), Keeper: atomic.LoadInt64(&s.keeper),
		Node: atomic.LoadInt64(&s.node), Kind: Kind(atomic.LoadInt64(&s.kind)), Key: atomic.LoadInt64(&s.key),
		Start: atomic.LoadInt64(&s.start), Last: atomic.LoadInt64(&s.last),
		Number: i,
	}
	longest := s.longest.load(life.Last)
	life.Paused, life.Resumed = longest.Paused, longest.Resumed
	return life
}

// gaps are those of a life that was read from the slot.
func (s *slot) gaps(life *Life) []Pause {
	var all []Pause
	for i := range s.latest {
		if p := s.latest[i].load(life.Last); p != (Pause{}) {
			all = append(all, p)
		}
	}
	if longest := (Pause{life.Paused, life.Resumed}); longest != (Pause{}) && !slices.Contains(all, longest) {
		all = append(all, longest)
	}
	slices.SortFunc(all, func(a, b Pause) int { return cmp.Compare(a.Paused, b.Paused) })
	return all
}
