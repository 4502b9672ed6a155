//go:build linux

package storm

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// CopyFlight returns a function that copies the flight record of a node, for the judge of
// the run in dir: what is below from. Lost says that the disk is about to lose something. Any
// number of goroutines may call it.
func CopyFlight(dir string, node int) func(from string, lost bool) error {
	return newFlightCopies(dir, node).copy
}

func newFlightCopies(dir string, node int) *flightCopies {
	return &flightCopies{dir: filepath.Join(dir, "flight", "n"+strconv.Itoa(node+1))}
}

// flightCopies are the copies of a node's flight records, in the judge's layout: in numbered
// folders, a new one after each loss of the disk. Any number of goroutines may use it.
type flightCopies struct {
	dir string

	mu     sync.Mutex
	number int               // of the folder
	heads  map[string]record // what was copied last, by name
}

// record is a segment of a flight record that was copied.
type record struct {
	head string // its first two lines
	size int
}

// copy copies what is below from. Segments that were copied before are replaced when they have
// grown; those that a loss of power has left with holes are skipped, because a whole copy was made
// before. Lost says that the disk is about to lose something.
func (a *flightCopies) copy(from string, lost bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.number == 0 {
		a.number, a.heads = 1, map[string]record{}
	}
	err := a.walk(from)
	if lost {
		a.number++
	}
	return err
}

func (a *flightCopies) walk(from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone meanwhile: the node may run
		}
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(d.Name(), ".tmp") {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), "flight-") {
			return a.segment(rel, text)
		}
		return a.write(rel, text)
	})
}

func (a *flightCopies) segment(rel string, text []byte) error {
	if bytes.IndexByte(text, 0) >= 0 {
		return nil
	}
	lines := bytes.SplitAfterN(text, []byte{'\n'}, 3)
	if len(lines) < 3 {
		return nil // nothing was recorded yet
	}
	now := record{string(lines[0]) + string(lines[1]), len(text)}
	switch before := a.heads[rel]; {
	case before.head == now.head && before.size >= now.size:
		return nil
	case before.head != "" && before.head != now.head:
		if _, err := os.Stat(a.path(rel)); err == nil {
			a.number++ // a loss was not announced
		}
	}
	a.heads[rel] = now
	return a.write(rel, text)
}

func (a *flightCopies) path(rel string) string {
	return filepath.Join(a.dir, strconv.Itoa(a.number), rel)
}

func (a *flightCopies) write(rel string, text []byte) error {
	target := a.path(rel)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return os.WriteFile(target, text, 0o644)
}
