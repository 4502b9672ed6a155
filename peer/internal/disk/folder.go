package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/electd/elect/internal/place"
)

// folder is the directory as this package uses it. Tests replace it with one that loses and tears what was not
// synced.
type folder interface {
	// List returns the names of its files.
	List() ([]string, error)
	// Open opens an existing file, for reading and writing.
	Open(name string) (file, error)
	// Create makes a file, and replaces an existing one.
	Create(name string) (file, error)
	Rename(from, to string) error
	// Sync makes creations and renames durable.
	Sync() error
}

// file is an open file.
type file interface {
	io.ReaderAt
	io.WriterAt
	// Sync makes the written data durable.
	Sync() error
	// Forget makes the next read come from the disk, if the system can.
	Forget()
	Close() error
}

// read returns the whole of a small file; nil and no error if it does not exist.
func read(at folder, name string, most int) ([]byte, error) {
	f, err := at.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, 0, int64(most)+1))
}

// replace makes data durable as the content of a file: all of it, or, if it fails or is cut short, none of it.
func replace(at folder, name string, data []byte) error {
	f, err := at.Create(name + temporary)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := at.Rename(name+temporary, name); err != nil {
		return err
	}
	return at.Sync()
}

// temporary ends the names of files that are being written.
const temporary = ".tmp"

// root is a real directory, held by its descriptor: replacing the directory's name has no effect on it.
type root struct{ *place.Dir }

func (r root) List() ([]string, error) { return r.Names() }

func (r root) Open(name string) (file, error) { return opened(r.Dir.Open(name, os.O_RDWR)) }

func (r root) Create(name string) (file, error) {
	return opened(r.Dir.Replace(name, os.O_RDWR, 0o600))
}

func opened(f *os.File, err error) (file, error) {
	if err != nil {
		return nil, err
	}
	return synced{f}, nil
}
