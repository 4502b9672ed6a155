//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/electd/elect/test/chaos/lives"
)

// surroundings are what the environment says of the run.
type surroundings struct {
	dir  string
	node int64 // -1: it says nothing
	rate int   // of operations, in a second
}

const (
	defaultRate = 100
	mostRate    = 10_000
)

func readSurroundings() (surroundings, error) {
	s := surroundings{dir: os.Getenv("CHAOS_DIR"), node: -1, rate: defaultRate}
	if s.dir == "" {
		return s, errors.New("CHAOS_DIR is not set; want the directory of the run")
	}
	if text := os.Getenv("CHAOS_NODE"); text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return s, fmt.Errorf("CHAOS_NODE=%q; want a number from 0", text)
		}
		s.node = n
	}
	if text := os.Getenv("CHAOS_RATE"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostRate {
			return s, fmt.Errorf("CHAOS_RATE=%q; want operations in a second, from 1 to %d", text, mostRate)
		}
		s.rate = n
	}
	return s, nil
}

func (s surroundings) ledgerPath() string { return filepath.Join(s.dir, "ledger") }

func (s surroundings) ledger() (*lives.Ledger, error) { return lives.Open(s.ledgerPath()) }

// name is what this node's files begin with.
func (s surroundings) name(otherwise string) string {
	if s.node < 0 {
		return otherwise
	}
	return "n" + strconv.FormatInt(s.node+1, 10)
}

var errGone = errors.New("the directory of the run has gone")

// gone waits until the ledger has gone, which it then returns as an error, or ctx
// ends.
func (s surroundings) gone(ctx context.Context) error {
	looks := time.NewTicker(time.Second)
	defer looks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-looks.C:
			if _, err := os.Stat(s.ledgerPath()); errors.Is(err, fs.ErrNotExist) {
				return errGone
			}
		}
	}
}
