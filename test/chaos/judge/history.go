//go:build linux

package judge

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/electd/elect/test/chaos/lives"
)

// History is a history that is being written. Any number of goroutines may call its methods. An
// event is in the file when Add returns.
type History struct {
	clock lives.Clock

	mu  sync.Mutex
	f   *os.File
	err error // the first
}

// NewHistory begins the history of the run in dir, or continues an existing one.
func NewHistory(dir string) (*History, error) {
	f, err := os.OpenFile(filepath.Join(dir, HistoryFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	return &History{clock: lives.NewClock(), f: f}, nil
}

// Add adds an event, now unless its At is set. Close reports errors. After Close it does nothing.
func (h *History) Add(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.At == 0 {
		e.At = h.clock.Now()
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = h.f.Write(append(line, '\n'))
	}
	if err != nil && h.err == nil && !errors.Is(err, fs.ErrClosed) {
		h.err = err
	}
}

// Close ends the history, and returns its first error. It may be called again.
func (h *History) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.f.Close(); err != nil && h.err == nil && !errors.Is(err, fs.ErrClosed) {
		h.err = err
	}
	return h.err
}
