package flight

import (
	"io"
	"os"

	"github.com/electd/elect/internal/place"
)

// folder is the directory of the segments. Tests replace it with one that is full.
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
	// Truncate removes what a failed write has left.
	Truncate(size int64) error
	io.Closer
}

// root is a real directory.
type root struct{ *place.Dir }

func (r root) List() (map[string]int64, error) {
	names, err := r.Names()
	sizes := make(map[string]int64, len(names))
	for _, name := range names {
		if info, err := r.Lstat(name); err == nil { // else it is gone
			sizes[name] = info.Size
		}
	}
	return sizes, err
}

func (r root) Create(name string) (file, error) { return r.Replace(name, os.O_WRONLY, 0o600) }
