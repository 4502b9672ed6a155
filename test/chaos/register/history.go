package register

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// The files of a run that the register makes, in its directory.
const (
	Socket = "register.sock"
	ends   = "register.ndjson"
	ops    = "ops"
)

// request names one operation.
type request struct {
	client string
	n      int64
}

// ReadDir reads what all clients of the run in dir have written down, in the order
// of the calls, with the outcomes that only the server knew. It may be called while
// the run goes on; what is under way is unknown then. A log's last line may be
// half a line, of a process that could not write more.
func ReadDir(dir string) ([]Operation, error) {
	last, closed, err := readEnds(filepath.Join(dir, ends))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	logs, err := filepath.Glob(filepath.Join(dir, ops, "*.ndjson"))
	if err != nil {
		return nil, err
	}
	var all []Operation
	for _, log := range logs {
		if all, err = readOps(all, log); err != nil {
			return nil, err
		}
	}
	for i := range all {
		o := &all[i]
		if o.Result != Unknown && o.Result != Failed {
			continue
		}
		switch l, ok := last[request{o.Client, o.N}]; {
		case ok:
			o.Return, o.Resolved, o.Result = l.Return, true, l.Result
			o.Highest, o.Seen, o.Last = l.Highest, l.Seen, l.Last
		case closed:
			o.Return, o.Resolved, o.Result = 0, true, Never
		default:
			o.Return, o.Result = 0, Unknown
		}
	}
	slices.SortFunc(all, func(a, b Operation) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Client, b.Client), cmp.Compare(a.N, b.N))
	})
	return all, nil
}

// readEnds reads the server's log: what it did last for each connection, and whether
// it had ended them all.
func readEnds(path string) (last map[request]line, closed bool, err error) {
	last = map[request]line{}
	err = lines(path, func(l line) error {
		if l.Closed != 0 {
			closed = true
		} else {
			last[request{l.Client, l.N}] = l
		}
		return nil
	})
	return last, closed, err
}

// readOps appends the operations of one client.
func readOps(all []Operation, path string) ([]Operation, error) {
	first := len(all)
	err := lines(path, func(l line) error {
		if len(all) > first && l.Client == all[first].Client {
			l.Client = all[first].Client // one string for all
		}
		if l.Return == 0 {
			all = append(all, Operation{
				Client: l.Client, N: l.N, Op: l.Op, Key: l.Key, Token: l.Token, Value: l.Value, Position: l.Position,
				Call: l.Call, Result: Unknown,
			})
			return nil
		}
		if len(all) == first {
			return errors.New("a return before the first call")
		}
		o := &all[len(all)-1]
		if o.Client != l.Client || o.N != l.N || o.Return != 0 {
			return fmt.Errorf("the return of %s %d after the call of %s %d", l.Client, l.N, o.Client, o.N)
		}
		o.Return, o.Result, o.Highest, o.Seen, o.Last = l.Return, l.Result, l.Highest, l.Seen, l.Last
		return nil
	})
	return all, err
}

// lines calls each with all lines of a file. A last one that does not end is left
// out.
func lines(path string, each func(line) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		l, err := parse(bytes.TrimSpace(text))
		if err == nil {
			err = each(l)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
}
