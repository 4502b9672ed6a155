// Package durable keeps the counter from which the tokens of one election are
// made, in one small file that survives a crash of the machine at any instant.
//
// It serves one caller at a time: whoever holds the election's lock. It keeps no
// state between calls and starts no goroutine. On failure nothing was promised:
// a number that [Next] did not return may be skipped, and is never returned
// later by mistake as if it were new, because Next returns a number only after
// the disk has confirmed it.
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

// Name is the counter's file, and newName the one that becomes it.
const (
	Name    = "counter"
	newName = "counter.new"
)

// leap is what a count is raised by when one of the two slots cannot be read.
// Such a slot may have held the greatest number ever returned. It may also be
// the victim of a write that the crash tore. The two look alike, so the count
// goes beyond all that the slot can have held: one more than the other slot after
// a clean history, and one more again for each attempt that failed on a disk
// with errors. A million is more than any such streak, and 2^48 has room for
// 268 million leaps.
const leap = 1 << 20

var (
	// ErrMissing: there is no counter where there must be one.
	ErrMissing = errors.New("the token counter is missing")
	// ErrCorrupt: neither slot can be read.
	ErrCorrupt = errors.New("the token counter is damaged")
	// ErrVersion: the counter is of a format that this program does not know.
	ErrVersion = errors.New("the token counter has an unknown format")
	// ErrExhausted: the era has no number left.
	ErrExhausted = errors.New("the token counter is exhausted")
)

// EraError says that the configured era lies below the stored one, so that a
// token of it would be smaller than one already given out.
type EraError struct{ Configured, Stored uint64 }

// Error implements error.
func (e *EraError) Error() string {
	return fmt.Sprintf("era %d is below era %d, which the token counter has reached", e.Configured, e.Stored)
}

// File is one open file. Sync returns after what was written is on the disk.
type File interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
	Close() error
}

// FS is the directory of one election, as far as the counter needs it. Names
// have no slashes. Errors for missing and existing files match fs.ErrNotExist
// and fs.ErrExist.
type FS interface {
	Open(name string) (File, error)   // existing, for reading and writing
	Create(name string) (File, error) // must not exist
	Rename(from, to string) error
	Remove(name string) error
	// Sync returns after the names of the directory, and those of the
	// directories that lead to it, are on the disk.
	Sync() error
}

// Request says which token is asked for.
type Request struct {
	// Era is the token's. Floor is a token that is known to have been given
	// out, or 0: the new one will be greater.
	Era   uint64
	Floor fence.Token

	// Create allows a missing counter to be made, and Replace a damaged one.
	// Without them they are ErrMissing and ErrCorrupt: a new counter starts at
	// 1 in its era.
	Create, Replace bool
}

// Next returns a token of the era that is greater than the floor and than all
// that were returned before, once that is on the disk.
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
	// What is left in the other slot must never be further behind than a leap
	// makes good. After a leap, or a jump to the floor, it would be: then both
	// slots start anew.
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

	// Whoever made the file may have been stopped before its name was on the
	// disk, and what is written below says that it is.
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

// renew makes a new file and puts it in the place of the counter, if there is
// one. It appears under its name only when it is whole and on the disk, so that
// a crash leaves the old one or the new one. The name is not on the disk yet.
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
