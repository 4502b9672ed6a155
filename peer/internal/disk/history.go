package disk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/place"
	"github.com/electd/elect/internal/protocol"
)

// History is a change of leadership as this node saw it.
type History struct {
	At     time.Time       `json:"at"`               // by the wall clock of the node
	Event  string          `json:"event"`            // elected, active, lost or follows
	Leader protocol.NodeID `json:"leader"`           // the node that the event is about
	Token  fence.Token     `json:"token"`            // of the leader; 0 if not known
	Reason string          `json:"reason,omitempty"` // for people
}

// MaxHistory is the size, in bytes, at which a new history file begins; the file before is kept beside it.
const MaxHistory = 256 << 10

// maxNote is the greatest length of a line.
const maxNote = 4 << 10

// history appends to the file. One goroutine uses it, and any goroutine may read the counter turns.
type history struct {
	f      *os.File
	size   int64
	ragged bool          // the last line has no end
	turns  atomic.Uint64 // rises before and after a rotation
}

// Note appends to the history. It does not wait for the disk, so a crash of the machine may lose a line; a crash of
// the process does not.
func (d *Dir) Note(h History) error {
	line, err := json.Marshal(h)
	if err == nil && len(line) >= maxNote {
		err = fmt.Errorf("%d bytes; want less than %d", len(line), maxNote)
	}
	if err == nil {
		err = d.history.append(d.root, append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("%s: history: %w", d.path, err)
	}
	return nil
}

func (h *history) append(at *place.Dir, line []byte) error {
	if h.f != nil && h.size+int64(len(line)) > MaxHistory {
		if err := h.turn(at); err != nil {
			return err
		}
	}
	if h.f == nil {
		if err := h.open(at); err != nil {
			return err
		}
	}
	if h.ragged {
		line = append([]byte{'\n'}, line...)
	}
	n, err := h.f.Write(line)
	h.size += int64(n)
	h.ragged = n > 0 && line[n-1] != '\n' || n == 0 && h.ragged
	return err
}

func (h *history) open(at *place.Dir) error {
	f, _, err := at.OpenOrCreate(historyName, os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	h.f, h.size = f, info.Size()
	if h.size > 0 {
		var last [1]byte
		_, err := f.ReadAt(last[:], h.size-1)
		h.ragged = err != nil || last[0] != '\n'
	}
	return nil
}

// turn begins a new file and keeps the present one as the older one.
func (h *history) turn(at *place.Dir) error {
	h.turns.Add(1)
	defer h.turns.Add(1)
	if err := at.Rename(historyName, olderName); err != nil {
		return err
	}
	f := h.f
	h.f, h.size, h.ragged = nil, 0, false
	return f.Close()
}

func (h *history) close() error {
	if h.f == nil {
		return nil
	}
	return h.f.Close()
}

// History returns the events in the files, the oldest first. It skips lines that cannot be read, such as one that a
// crash has cut short.
func (d *Dir) History() ([]History, error) {
	for {
		turns := d.history.turns.Load()
		var all []History
		for _, name := range []string{olderName, historyName} {
			text, err := d.readHistory(name)
			if err != nil {
				return nil, fmt.Errorf("%s: history: %w", d.path, err)
			}
			all = decodeHistory(all, text)
		}
		if turns%2 == 0 && turns == d.history.turns.Load() {
			return all, nil
		}
	}
}

func (d *Dir) readHistory(name string) ([]byte, error) {
	f, err := d.root.Open(name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxHistory+maxNote))
}

// decodeHistory appends the lines that can be read.
func decodeHistory(all []History, text []byte) []History {
	for line := range bytes.Lines(text) {
		var h History
		if line[len(line)-1] == '\n' && json.Unmarshal(line, &h) == nil {
			all = append(all, h)
		}
	}
	return all
}
