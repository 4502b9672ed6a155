package place

import (
	"errors"
	"io"
	"os"
)

// Save makes text durable as the content of a file of mode 0600: after a crash at any point the file is whole, or as it
// was. One Save of a name runs at a time; it uses the name with .new appended, too.
func (d *Dir) Save(name string, text []byte) error {
	f, err := d.Replace(name+".new", os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := d.Rename(name+".new", name); err != nil {
		return err
	}
	return d.Sync()
}

// Read reads a file, of which it returns at most most bytes.
func (d *Dir) Read(name string, most int64) ([]byte, error) {
	f, err := d.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}
