//go:build linux

package judge

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/internal/protocol/trace/replay"
)

// The places of records below the directory of a run. Before a node's disk is removed, a copy of
// its record is put aside in dir/flight/NODE/NUMBER. Copies are read in the order of their numbers,
// and then the records in dir/data. A segment that is found again counts once, and the longest of
// its files is read.
const (
	dataDir   = "data"
	flightDir = "flight"
)

// segment is one file of a flight recorder.
type segment struct {
	path string
	node protocol.NodeID
	// What it has of each life, in its order.
	lives  []recorded
	won    []uint64 // the terms in which its node was elected
	leases []lease
	steps  int
	ours   bool // it is of the quorum protocol, whose promises are checked here
}

// recorded is a segment's record of one life of a node.
type recorded struct {
	life uint64
	// booted is the term with which it booted, if the segment has the boot; durable the highest
	// that was durable when the segment ended, 0 if that is not known.
	boots           bool
	booted, durable uint64
	bootedAt        protocol.Instant // by the node's clock, as durableAt: when the save of that term was done
	durableAt       protocol.Instant
}

// flights reads all records, replays them through the machines, and checks whether a restarted node
// knew what it had made durable, and whether a term had two leaders.
func (r *run) flights(found *findings, report *Report) error {
	paths, err := r.segments()
	if err != nil {
		return err
	}
	all := make([]*segment, len(paths))
	errs := make([]error, len(paths))
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				all[i], errs[i] = replaySegment(paths[i], found)
			}
		})
	}
	for i := range paths {
		next <- i
	}
	close(next)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	byNode := map[protocol.NodeID][]*segment{}
	winner := map[uint64]protocol.NodeID{}
	for _, s := range all {
		if s == nil {
			continue
		}
		report.Segments++
		report.Steps += s.steps
		r.recorded[nodeNumber(s.node)] += s.steps
		if !s.ours {
			continue
		}
		byNode[s.node] = append(byNode[s.node], s)
		for _, won := range s.won {
			r.shown[term{nodeNumber(s.node), won}] = true
		}
		for _, term := range s.won {
			if who, ok := winner[term]; ok && who != s.node {
				found.add(Violation{Check: CheckTerm, Node: NoNode, Text: fmt.Sprintf("%s and %s were both elected in term %d (%s)", who, s.node, term, s.path)})
				continue
			}
			winner[term] = s.node
		}
	}
	dials := r.dials()
	for node, segments := range byNode {
		r.remembers(node, segments, dials[nodeNumber(node)], found)
	}
	r.sweepLeases(byNode, found, report)
	return nil
}

// segments are the paths of all records, those put aside first.
func (r *run) segments() ([]string, error) {
	var all []string
	for _, top := range []string{flightDir, dataDir} {
		err := filepath.WalkDir(filepath.Join(r.dir, top), func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // taken away meanwhile, or never there
			case err != nil:
				return err
			}
			if name := d.Name(); d.Type().IsRegular() && strings.HasPrefix(name, "flight-") && strings.HasSuffix(name, ".ndjson") {
				all = append(all, path)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	// The shorter path is of the lower number, where no more than that differs.
	slices.SortStableFunc(all, func(a, b string) int {
		return cmp.Or(-cmp.Compare(top(r.dir, a), top(r.dir, b)), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return distinct(all)
}

// top is the place of a path; flight comes after data in the alphabet.
func top(dir, path string) string {
	rest, _ := filepath.Rel(dir, path)
	first, _, _ := strings.Cut(rest, string(filepath.Separator))
	return first
}

// distinct removes duplicate segments, and those without a complete line after the header. Of two
// the first place is kept, with the longer file. A segment is identified by its first event, which
// has a reading of the clock and a random number.
func distinct(paths []string) ([]string, error) {
	var out []string
	seen := map[string]int{} // place, by name and first lines
	size := map[string]int64{}
	for _, path := range paths {
		head, length, err := headOf(path)
		if err != nil {
			return nil, err
		}
		if head == "" {
			continue
		}
		key := filepath.Base(path) + "\n" + head
		switch i, ok := seen[key]; {
		case !ok:
			seen[key], size[key] = len(out), length
			out = append(out, path)
		case length > size[key]:
			out[i], size[key] = path, length
		}
	}
	return out, nil
}

// headOf returns the first two lines of a file, or "" if they are incomplete.
func headOf(path string) (head string, size int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, nil // a running node has removed it
	}
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	in := bufio.NewReader(f)
	for range 2 {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return "", 0, nil
		}
		if err != nil {
			return "", 0, err
		}
		head += line
	}
	if strings.ContainsRune(head, 0) {
		return "", 0, nil // a loss of power has left a hole
	}
	return head, info.Size(), nil
}

// replaySegment verifies a segment, and reads it.
func replaySegment(path string, found *findings) (*segment, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &segment{path: path}
	d, err := trace.NewDecoder(bufio.NewReaderSize(f, 1<<16))
	if err == nil {
		h := d.Header()
		s.node, s.ours = h.Nodes[0].ID, h.Protocol == quorum.Name
		watch := &watching{s: s}
		var report *trace.Report
		report, err = d.Verify(watch.makers(h))
		s.steps = int(report.Steps)
		watch.finish()
	}
	if err == nil {
		return s, nil
	}
	if different, ok := errors.AsType[*trace.Disagreement](err); ok {
		found.add(Violation{Check: CheckTrace, Node: nodeNumber(s.node), Text: fmt.Sprintf("%s: the machine does something else: %v", path, different)})
		return s, nil
	}
	if _, ok := errors.AsType[*trace.Error](err); ok {
		found.add(Violation{Check: CheckTrace, Node: nodeNumber(s.node), Text: fmt.Sprintf("%s: a defective record: %v", path, err)})
		return s, nil
	}
	return s, fmt.Errorf("%s: %w", path, err)
}

// nodeNumber is the number of a node by the name that the harness gave it.
func nodeNumber(id protocol.NodeID) int {
	var n int
	if _, err := fmt.Sscanf(string(id), "n%d", &n); err != nil || n < 1 {
		return NoNode
	}
	return n - 1
}

// remembers checks whether terms that were durable ever fell. A disk that was wiped or restored may
// forget what it knew before, at the boots after that.
func (r *run) remembers(node protocol.NodeID, segments []*segment, dials []dial, found *findings) {
	var wiped []int64
	for _, e := range r.events {
		if e.Kind == Wiped && e.Node == nodeNumber(node) {
			wiped = append(wiped, e.At)
		}
	}
	var durable uint64
	var known int64 // when it was last seen that it knows that term
	knows := func(term uint64, at protocol.Instant) {
		if term >= durable {
			first, _ := when(dials, at)
			durable, known = term, max(known, first)
		}
	}
	for _, s := range segments {
		for _, l := range s.lives {
			if l.boots && l.booted < durable {
				_, booted := when(dials, l.bootedAt)
				if !slices.ContainsFunc(wiped, func(at int64) bool { return at > known && at <= booted }) {
					found.add(Violation{Check: CheckMemory, Node: nodeNumber(node), Text: fmt.Sprintf("%s had made term %d durable, and booted with %d in life %d (%s)",
						node, durable, l.booted, l.life, s.path)})
				}
				durable, known = 0, 0
			}
			if l.boots {
				knows(l.booted, l.bootedAt)
			}
			if l.durable > 0 {
				knows(l.durable, l.durableAt)
			}
		}
	}
}

// told checks whether the term that a node reports falls while its process is the same, and counts
// the comparisons.
func (r *run) told(found *findings) (compared int) {
	last := map[int]Event{}
	for _, e := range r.events {
		switch e.Kind {
		case Start, End:
			delete(last, e.Node) // what was not durable may be lost
		case Told:
			before, ok := last[e.Node]
			if ok {
				compared++
			}
			if ok && e.Term < before.Term {
				found.add(Violation{Check: CheckMemory, At: e.At, Node: e.Node, Text: fmt.Sprintf("%s said that it is in term %d, %s after it had said %d",
					nodeName(e.Node), e.Term, r.since(e.At-before.At+r.from), before.Term)})
			}
			last[e.Node] = e
		}
	}
	return compared
}

// watching is between the verifier and its machines, and sees each step: so a record is read once
// only.
type watching struct {
	s       *segment
	current *watched
}

// makers makes the machines of a record.
func (w *watching) makers(h *trace.Header) map[string]trace.Maker {
	all := replay.Makers([]string{h.Protocol})
	fresh := all[h.Protocol]
	if fresh == nil {
		return nil // the verifier reports an unknown protocol
	}
	return map[string]trace.Maker{h.Protocol: func(node protocol.NodeID, config json.RawMessage) (protocol.Machine, error) {
		m, err := fresh(node, config)
		if err != nil {
			return nil, err
		}
		w.finish()
		w.current = &watched{Machine: m, s: w.s, terms: map[uint64]uint64{}}
		w.current.is.life = uint64(len(w.s.lives)) + 1
		return w.current, nil
	}}
}

// finish records what was seen of a life.
func (w *watching) finish() {
	if w.current != nil {
		w.current.over(w.current.seen)
		w.s.lives = append(w.s.lives, w.current.is)
		w.current = nil
	}
}

// watched is a machine that is watched.
type watched struct {
	protocol.Machine
	s     *segment
	is    recorded
	terms map[uint64]uint64 // number of a save → the term in it
	won   uint64            // the term that it leads in

	active      bool // it has a lease
	from, until protocol.Instant
	seen        protocol.Instant // of the last step
	token       uint64
}

// Step implements protocol.Machine.
func (m *watched) Step(in *protocol.Input, fx *protocol.Effects) {
	m.Machine.Step(in, fx)
	v := m.View()
	switch in.Kind {
	case protocol.Boot:
		m.is.boots, m.is.booted, m.is.bootedAt = true, v.Term, in.Now.Boot
	case protocol.Saved:
		for number, term := range m.terms {
			if number > in.Number {
				continue
			}
			if !in.Failed && term >= m.is.durable {
				m.is.durable, m.is.durableAt = term, in.Now.Boot
			}
			delete(m.terms, number)
		}
	}
	for _, s := range fx.Saves {
		m.terms[s.Number] = v.Term
	}
	m.leads(in.Now.Boot, &v)
	if v.Elected && v.Leader.Term != m.won { // it may go on in a higher term
		m.won = v.Leader.Term
		m.s.won = append(m.s.won, m.won)
	}
}
