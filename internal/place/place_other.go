//go:build !linux && !darwin && !freebsd

package place

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

var errHere = fmt.Errorf("%w: want Linux, macOS or FreeBSD, this is %s", errors.ErrUnsupported, runtime.GOOS)

// Dir is an open directory. On this system there is none.
type Dir struct{}

// Open returns an error that matches errors.ErrUnsupported, as every call on this system does.
func (a At) Open() (*Dir, error) {
	return nil, &fs.PathError{Op: "open", Path: a.String(), Err: errHere}
}

// Make is Open.
func (a At) Make() (*Dir, error) { return a.Open() }

// Again and the methods below are for systems that have a Dir.
func (d *Dir) Again() (*Dir, error) { return nil, errHere }

// File returns nil.
func (d *Dir) File() *os.File { return nil }

// Path returns nothing.
func (d *Dir) Path() string { return "" }

// Info returns nothing.
func (d *Dir) Info() Info { return Info{} }

// Lock fails.
func (d *Dir) Lock() error { return errHere }

// Close fails.
func (d *Dir) Close() error { return errHere }

// Open fails.
func (d *Dir) Open(string, int) (*os.File, error) { return nil, errHere }

// Create fails.
func (d *Dir) Create(string, int, fs.FileMode) (*os.File, error) { return nil, errHere }

// Replace fails.
func (d *Dir) Replace(string, int, fs.FileMode) (*os.File, error) { return nil, errHere }

// OpenOrCreate fails.
func (d *Dir) OpenOrCreate(string, int, fs.FileMode) (*os.File, bool, error) {
	return nil, false, errHere
}

// Lstat fails.
func (d *Dir) Lstat(string) (Info, error) { return Info{}, errHere }

// Remove fails.
func (d *Dir) Remove(string) error { return errHere }

// Rename fails.
func (d *Dir) Rename(string, string) error { return errHere }

// Names fails.
func (d *Dir) Names() ([]string, error) { return nil, errHere }

// Sync fails.
func (d *Dir) Sync() error { return errHere }

// Stat fails.
func Stat(*os.File) (Info, error) { return Info{}, errHere }
