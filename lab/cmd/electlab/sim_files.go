package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/lab/sim"
)

// readSchedule reads a schedule, or the one in a trace, and the result that was written with it. A
// world can be made from the schedule.
func readSchedule(path string) (*sim.Protocol, *sim.Schedule, error) {
	in, err := openInput(path)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	if path == "-" {
		path = "stdin"
	}
	s, err := parseSchedule(in)
	if err != nil {
		return nil, nil, exit.Usagef("%w", named(path, err))
	}
	p, err := protocolNamed(s.Protocol)
	if err != nil {
		return nil, nil, exit.Usagef("%s: %w", path, err)
	}
	if _, err := sim.New(p, s); err != nil {
		return nil, nil, exit.Usagef("%s: %w", path, err)
	}
	return p, s, nil
}

// named gives an error the file's name, and its line where it has one, as
// compilers do.
func named(path string, err error) error {
	if e, ok := errors.AsType[*sim.ParseError](err); ok {
		return fmt.Errorf("%s:%d:%d: %s", path, e.Line, e.Column, e.Says())
	}
	return fmt.Errorf("%s: %w", path, err)
}

// parseSchedule reads no more of a schedule than it may have, and a trace line by
// line.
func parseSchedule(in io.Reader) (*sim.Schedule, error) {
	r := bufio.NewReaderSize(io.LimitReader(in, sim.MaxText+1), 64<<10)
	var first []byte
	for {
		part, err := r.ReadSlice('\n')
		first = append(first, part...)
		if err == nil || errors.Is(err, io.EOF) {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
	var kind struct{ Source trace.Source }
	if len(first) > sim.MaxText || json.Unmarshal(first, &kind) != nil || kind.Source == "" {
		rest, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		return sim.ParseSchedule(append(first, rest...))
	}
	behind, err := r.Peek(r.Buffered())
	if err != nil {
		return nil, err
	}
	d, err := trace.NewDecoder(io.MultiReader(bytes.NewReader(first), bytes.NewReader(behind), in))
	if err != nil {
		return nil, err
	}
	return tracedSchedule(d)
}

// tracedSchedule is the schedule in a trace's header, with what the trace says
// came of it.
func tracedSchedule(d *trace.Decoder) (*sim.Schedule, error) {
	if d.Header().Schedule == nil {
		return nil, fmt.Errorf("it is a trace without a schedule (source %s); want a schedule, or a trace of the simulator", d.Header().Source)
	}
	s, err := sim.ParseSchedule(d.Header().Schedule)
	if e, ok := errors.AsType[*sim.ParseError](err); ok {
		return nil, fmt.Errorf("line 1: field schedule: %s", e.Says())
	}
	if err != nil {
		return nil, err
	}
	s.Expected = nil
	var violated sim.Invariant
	for e, err := range d.Events() {
		if err != nil {
			return nil, err
		}
		switch e.Kind {
		case trace.Violation:
			violated = sim.Invariant(e.Invariant)
		case trace.End:
			s.Expected = &sim.Expected{Hash: e.Hash, Build: d.Header().Build, Invariant: violated}
		}
	}
	return s, nil
}

// openInput opens a file, or stdin for "-". A file that cannot be opened is a usage error.
func openInput(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, exit.Usagef("%s", strings.TrimPrefix(err.Error(), "open "))
	}
	return f, nil
}

// keepSchedule writes a schedule with what came of it.
func keepSchedule(path string, s *sim.Schedule, r *sim.Result) error {
	kept := *s
	kept.Expected = &sim.Expected{Hash: digits(r.Hash), Build: cli.Program()}
	if r.Violation != nil {
		kept.Expected.Invariant = r.Violation.Invariant
	}
	text, err := kept.Encode()
	if err != nil {
		return exit.With(exit.CannotCreate, fmt.Errorf("%s: %w", path, err))
	}
	f := &sideFile{path: path}
	_, _ = f.Write(text) // Close returns the error
	return f.Close()
}

// sideFile is a file that a verb writes beside its answer. The first byte creates it, so that a
// failure leaves none behind. After its first error, which Close returns, it discards what is
// written, so the answer is not affected.
type sideFile struct {
	path string
	f    *os.File
	out  *bufio.Writer
	err  error
}

func (f *sideFile) Write(p []byte) (int, error) {
	if f.err == nil && f.f == nil {
		if f.f, f.err = os.Create(f.path); f.err == nil {
			f.out = bufio.NewWriterSize(f.f, 64<<10)
		}
	}
	if f.err == nil {
		_, f.err = f.out.Write(p)
	}
	return len(p), nil
}

// Close ends the file. It removes a regular file to which nothing could be written.
func (f *sideFile) Close() error {
	if f.f != nil {
		if f.err == nil {
			f.err = f.out.Flush()
		}
		info, err := f.f.Stat()
		empty := err == nil && info.Mode().IsRegular() && info.Size() == 0
		f.err = errors.Join(f.err, f.f.Close())
		if f.err != nil && empty {
			f.err = errors.Join(f.err, os.Remove(f.path))
		}
	}
	if f.err != nil {
		return exit.With(exit.CannotCreate, f.err)
	}
	return nil
}
