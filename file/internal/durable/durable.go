// Package durable keeps the counter for the tokens of one election, in one small file that survives a crash of the
// machine at any instant.
//
// It serves one caller at a time: the holder of the election's lock. It keeps no state between calls and starts no
// goroutine. After a failure nothing is promised: a number that [Next] did not return may be skipped. Next returns a
// number only after the disk has confirmed it, so it never returns one twice.
//
// The file system calls of one Next on an existing counter, in order, are:
// openat, pread, pread, pwrite (512 bytes), fdatasync, close.
package durable

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/electd/elect/fence"
)

// Name is the counter's file. newName is the file that replaces it.
const (
	Name    = "counter"
	newName = "counter.new"
)

// leap is the increment of a count when one of the two slots cannot be read. Such a slot may have held the greatest
// number ever returned. It may also be a write that the crash tore. The two look alike, so the count goes beyond
// everything that the slot can have held: one more than the other slot after a clean history, and one more again for
// each attempt that failed on a disk with errors. A million is more than any such series, and 2^48 has room for 268
// million leaps.
const leap = 1 << 20

var (
	// ErrMissing means that there is no counter where one must be.
	ErrMissing = errors.New("the token counter is missing")
	// ErrCorrupt means that neither slot can be read.
	ErrCorrupt = errors.New("the token counter is damaged")
	// ErrVersion means that the counter has a format that this program does not know.
	ErrVersion = errors.New("the token counter has an unknown format")
	// ErrExhausted means that the era has no number left.
	ErrExhausted = errors.New("the token counter is exhausted")
)

// EraError means that the configured era is below the stored one, so that a token of it would be smaller than an
// issued one.
type EraError struct{ Configured, Stored uint64 }

// Error implements error.
func (e *EraError) Error() string {
	return fmt.Sprintf("era %d is below era %d, which the token counter has reached", e.Configured, e.Stored)
}

// File is one open file. Sync returns when the written data is on the disk.
type File interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
	Close() error
}

// FS is the directory of one election, as the counter uses it. Names have no slashes. Errors for missing and existing
// files match fs.ErrNotExist and fs.ErrExist.
type FS interface {
	Open(name string) (File, error)   // existing, for reading and writing
	Create(name string) (File, error) // must not exist
	Rename(from, to string) error
	Remove(name string) error
	// Sync returns when the names in the directory, and those of the directories above it, are on the disk.
	Sync() error
}

// Request describes the requested token.
type Request struct {
	// Era is the token's. Floor is a token that is known to have been issued, or 0: the new one will be greater.
	Era   uint64
	Floor fence.Token

	// Create allows Next to make a missing counter, and Replace a damaged one. Without them these are ErrMissing and
	// ErrCorrupt: a new counter starts at 1 in its era.
	Create, Replace bool
}

// Next returns a token of the era that is greater than the floor and than all earlier ones, once it is on the disk.
func Next(fsys FS, r Request) (fence.Token, error) {
	token, err := open(fsys, r)
	if r.Create && errors.Is(err, ErrMissing) || r.Replace && errors.Is(err, ErrCorrupt) {
		if err := renew(fsys, value{era: r.Era}, value{era: r.Era}); err != nil {
			return 0, err
		}
		return open(fsys, r)
	}
	return token, err
}

func open(fsys FS, r Request) (fence.Token, error) {
	f, err := fsys.Open(Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, ErrMissing
	case err != nil:
		return 0, err
	}
	token, err := next(fsys, f, r)
	if err = cmp.Or(err, f.Close()); err != nil {
		return 0, err
	}
	return token, nil
}

func next(fsys FS, f File, r Request) (fence.Token, error) {
	top := value{era: r.Floor.Era(), count: r.Floor.Count()}
	target, readable := 0, 0
	var values [slots]value
	for i := range values {
		v, err := read(f, i)
		switch {
		case errors.Is(err, errSlot):
			target = i
		case err != nil:
			return 0, err
		default:
			values[i] = v
			readable++
			top = later(top, v)
		}
	}
	switch {
	case readable == 0:
		return 0, ErrCorrupt
	case top.era > r.Era:
		return 0, &EraError{Configured: r.Era, Stored: top.era}
	case readable == slots && values[1].less(values[0]):
		target = 1
	}

	v := top.next(r.Era)
	if readable < slots {
		v.count += leap
	}
	// The other slot must never be further behind than a leap makes good. After a leap, or a jump to the floor, it would
	// be: then both slots are written anew.
	jump := readable < slots || values[1-target].next(r.Era).less(v)
	if jump {
		v.count++
	}
	token, err := fence.NewToken(v.era, v.count)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrExhausted, err)
	}
	if jump {
		if err := renew(fsys, value{era: v.era, count: v.count - 1}, v); err != nil {
			return 0, err
		}
		return token, fsys.Sync()
	}

	// The process that made the file may have been stopped before its name was on the disk, and the write below says
	// that the name is.
	if values[0].unnamed && values[1].unnamed {
		if err := fsys.Sync(); err != nil {
			return 0, err
		}
	}
	b := encode(target, v)
	if _, err := f.WriteAt(b[:], offset(target)); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	return token, nil
}

func read(f File, i int) (value, error) {
	var b [slotSize]byte
	n, err := f.ReadAt(b[:], offset(i))
	if err != nil && !errors.Is(err, io.EOF) {
		return value{}, err
	}
	return decode(i, b[:n])
}

// renew makes a new file and replaces the counter with it, if there is one. It appears under its name only when it is
// whole and on the disk, so that a crash leaves the old one or the new one. The name is not yet on the disk.
func renew(fsys FS, values ...value) error {
	if err := fsys.Remove(newName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Create(newName)
	if err != nil {
		return err
	}
	// The gap between the slots is written too: no later write to the file
	// needs a new block.
	whole := make([]byte, offset(slots-1)+slotSize)
	for i, v := range values {
		v.unnamed = true
		b := encode(i, v)
		copy(whole[offset(i):], b[:])
	}
	_, err = f.WriteAt(whole, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = cmp.Or(err, f.Close()); err != nil {
		return err
	}
	return fsys.Rename(newName, Name)
}
