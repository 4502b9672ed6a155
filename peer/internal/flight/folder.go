package flight

import (
	"io"
	"os"
)

// folder is the directory of the segments. A test puts one in its place that is
// full.
type folder interface {
	// List returns the files with their sizes.
	List() (map[string]int64, error)
	Create(name string) (file, error)
	Rename(from, to string) error
	Remove(name string) error
	Close() error
}

// file is a segment that is being written.
type file interface {
	io.Writer
	// Truncate cuts off what a failed write has left.
	Truncate(size int64) error
	io.Closer
}

// root is a real directory.
type root struct{ *os.Root }

func (r root) List() (map[string]int64, error) {
	d, err := r.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	all, err := d.Readdir(-1)
	sizes := make(map[string]int64, len(all))
	for _, info := range all {
		sizes[info.Name()] = info.Size()
	}
	return sizes, err
}

func (r root) Create(name string) (file, error) {
	return r.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
}
