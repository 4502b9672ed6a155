//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/electd/elect"
	"github.com/electd/elect/fence"
)

// entry is one line of a worker.
type entry struct {
	token   elect.Token
	program int // the pid of the program whose worker wrote it
}

// readLog calls each for each whole line.
func readLog(r io.Reader, each func(entry) error) error {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		var text string
		var e entry
		if _, err := fmt.Sscanf(lines.Text(), "token=%s program=%d", &text, &e.program); err != nil {
			return fmt.Errorf("line %d: %q is no entry", n, lines.Text())
		}
		var err error
		if e.token, err = fence.ParseToken(text); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := each(e); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

// verifyLog proves that no worker wrote after one of a later leader.
func verifyLog(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var last entry
	return readLog(f, func(e entry) error {
		if e.token < last.token {
			return fmt.Errorf("a worker with token %v wrote after one with token %v", e.token, last.token)
		}
		last = e
		return nil
	})
}
