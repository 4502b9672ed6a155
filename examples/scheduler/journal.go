package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/electd/elect"
)

// entry is one run of the job, a line in the log:
//
//	tick=17 token=3 pid=4711
type entry struct {
	tick  uint64
	token elect.Token
	pid   int
}

const entryFormat = "tick=%d token=%d pid=%d\n"

// journal appends to the log.
type journal struct {
	file *os.File
	last entry
}

// openJournal reads what earlier leaders did and cuts off a line that one of
// them was killed in the middle of.
func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	j := &journal{file: f}
	whole, err := readEntries(f, func(e entry) error { j.last = e; return nil })
	if err == nil {
		err = f.Truncate(whole)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekEnd)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return j, nil
}

func (j *journal) append(e entry) error {
	_, err := fmt.Fprintf(j.file, entryFormat, e.tick, uint64(e.token), e.pid)
	return err
}

func (j *journal) Close() error { return j.file.Close() }

// readEntries passes each whole line to f and returns how many bytes they have.
func readEntries(r io.Reader, f func(entry) error) (whole int64, err error) {
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			return whole, nil
		}
		if err != nil {
			return whole, err
		}
		var e entry
		if _, err := fmt.Fscanf(strings.NewReader(line), entryFormat, &e.tick, (*uint64)(&e.token), &e.pid); err != nil {
			return whole, fmt.Errorf("line %d, %q, is not an entry of this log", n, strings.TrimSpace(line))
		}
		if err := f(e); err != nil {
			return whole, fmt.Errorf("line %d: %w", n, err)
		}
		whole += int64(len(line))
	}
}

// verifyLog proves that one scheduler ran at a time.
func verifyLog(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var last entry
	leaders := 0
	_, err = readEntries(f, func(e entry) error {
		switch {
		case e.tick != last.tick+1:
			return fmt.Errorf("tick %d after %d: a tick ran twice or was left out", e.tick, last.tick)
		case e.token < last.token:
			return fmt.Errorf("token %d after %d: an old leader wrote after a new one", e.token, last.token)
		case e.token == last.token && e.pid != last.pid:
			return fmt.Errorf("token %d was used by process %d and by %d", e.token, last.pid, e.pid)
		case e.token != last.token:
			leaders++
		}
		last = e
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	fmt.Printf("ticks: %d, leaders: %d; each tick ran once, none was left out, tokens never fell\n", last.tick, leaders)
	return nil
}
