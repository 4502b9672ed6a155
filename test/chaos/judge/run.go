//go:build linux

package judge

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/register"
)

// LedgerFile is the name of the ledger in the directory of a run.
const LedgerFile = "ledger"

// term is a term of a node that leads in it.
type term struct {
	node  int
	token uint64
}

// run is the input of a judgement.
type run struct {
	dir     string
	options Options
	events  []Event // by time
	lives   []lives.Life
	ops     []register.Operation // none if it is quick

	from, to int64 // of the run
	tenures  []tenure
	faults   []fault // by when they began
	freezes  []freeze
	stalls   []span
	recorded map[int]int   // by node: steps in its flight records
	shown    map[term]bool // terms whose election, or a lease, is in a flight record
	leased   map[term]bool // terms with a lease that was compared with others
}

// load reads a run.
func load(dir string, o Options) (*run, error) {
	o.Thaw = cmp.Or(o.Thaw, DefaultThaw)
	o.Boot = cmp.Or(o.Boot, DefaultBoot)
	o.Seen = cmp.Or(o.Seen, DefaultSeen)
	o.Patience = cmp.Or(o.Patience, DefaultPatience)
	r := &run{dir: dir, options: o, recorded: map[int]int{}, shown: map[term]bool{}, leased: map[term]bool{}}
	if err := readLines(filepath.Join(dir, HistoryFile), func(_ int, line []byte) error {
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		if e.Kind == "" || e.At <= 0 {
			return errors.New("an event without kind or time")
		}
		r.events = append(r.events, e)
		return nil
	}); err != nil {
		return nil, err
	}
	if len(r.events) == 0 {
		return nil, fmt.Errorf("%s: there is no event in it", filepath.Join(dir, HistoryFile))
	}
	// The clock is read before the wait for the file.
	slices.SortStableFunc(r.events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	path := filepath.Join(dir, LedgerFile)
	if _, err := os.Stat(path); err != nil { // opening it would create one
		return nil, err
	}
	ledger, err := lives.Open(path)
	if err != nil {
		return nil, err
	}
	r.lives = ledger.Lives()
	if err := ledger.Close(); err != nil {
		return nil, err
	}
	if !o.Quick {
		if r.ops, err = register.ReadDir(dir); err != nil {
			return nil, err
		}
	}
	r.arrange()
	return r, nil
}

// called extends each command's life to its last call of the register with its token, whatever the
// outcome: a caller is alive. Another thread stamps, which may have got no processor meanwhile.
func (r *run) called() {
	type process struct{ pid, token int64 }
	of := map[process]int{}
	for i, l := range r.lives {
		if l.Kind == lives.Command {
			of[process{l.Pid, l.Token}] = i
		}
	}
	calls := map[int][]int64{}
	for _, o := range r.ops {
		words := strings.Split(o.Client, "-") // see register.Name
		if len(words) < 3 || o.Op != register.Write && o.Op != register.Stream {
			continue
		}
		pid, err := strconv.ParseInt(words[len(words)-2], 10, 64)
		if i, ok := of[process{pid, o.Token}]; err == nil && ok && o.Call > r.lives[i].Last {
			calls[i] = append(calls[i], o.Call)
		}
	}
	for i, at := range calls {
		l := &r.lives[i]
		if first := slices.Min(at); first-l.Last > int64(lives.Gap) {
			l.Gaps = append(slices.Clone(l.Gaps), lives.Pause{Paused: l.Last, Resumed: first})
		}
		l.Last = slices.Max(at)
	}
}

// arrange finds the beginning and the end of the run, the faults and the tenures.
func (r *run) arrange() {
	r.called()
	r.from, r.to = r.events[0].At, 0
	for _, e := range r.events {
		if e.Kind == Run {
			r.from = e.At
			break
		}
	}
	for _, e := range r.events {
		if e.Kind == Over && r.to == 0 {
			r.to = e.At
		}
	}
	if r.to == 0 { // it goes on, or was interrupted
		r.to = r.events[len(r.events)-1].At
		for _, l := range r.lives {
			r.to = max(r.to, l.Last)
		}
	}
	r.faults = faultsOf(r.events, r.to)
	r.freezes = freezesOf(r.events, r.to)
	for _, e := range r.events {
		if e.Kind == Stall {
			r.stalls = append(r.stalls, span{e.At - int64(e.For), e.At})
		}
	}
	r.stalls = union(r.stalls)
	r.tenures = assemble(r.lives, r.freezes, r.options.Thaw)
}

// since is a time counted from the beginning, as text.
func (r *run) since(at int64) string {
	return time.Duration(at - r.from).Round(100 * time.Microsecond).String()
}

// readLines calls each with the lines of a file and their numbers, from 1. An incomplete last line
// is ignored.
func readLines(path string, each func(n int, line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<16)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := each(n, line); err != nil {
			return fmt.Errorf("%s: line %d: %w", path, n, err)
		}
	}
}
