package flight

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

const (
	// kept is how many segments there may be beside the current one. keptBytes bounds their total size, as a multiple of
	// MaxBytes.
	kept      = 15
	keptBytes = 2
	// batch is the approximate greatest size of one write.
	batch = 256 << 10
	// pause is the time between a failure and the next attempt.
	pause = time.Second

	prefix, suffix, temporary = "flight-", ".ndjson", ".tmp"
)

// segment is a finished file.
type segment struct {
	number uint64
	size   int64 // without the head, for those of this life
}

func nameOf(number uint64) string { return fmt.Sprintf("%s%08d%s", prefix, number, suffix) }

func numberOf(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	digits, ok2 := strings.CutSuffix(digits, suffix)
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && ok2 && err == nil && nameOf(n) == name
}

// writer is the recorder's goroutine.
type writer struct {
	r     *Recorder
	at    folder
	older []segment // by ascending number

	number uint64 // of the last segment
	life   uint64 // the number of the first segment of this life
	n      uint64 // of the last event

	f     file // nil: nothing can be recorded before there is a state
	enc   *trace.Encoder
	lines lines
	buf   bytes.Buffer // encoded and not written
	taken []*entry     // encoded or left out, and not yet returned
	size  int64        // written
	head  int64        // of that, the state of a group, which may be longer than MaxBytes
	asked bool         // a state was requested

	err   error            // why nothing is recorded
	retry protocol.Instant // time of the next attempt
	now   protocol.Instant // of the last entry
	event trace.Event
}

func newWriter(r *Recorder, at folder) (*writer, error) {
	w := &writer{r: r, at: at}
	files, err := at.List()
	if err != nil {
		return nil, errors.Join(err, at.Close())
	}
	for name, size := range files {
		if n, ok := numberOf(name); ok {
			w.older = append(w.older, segment{n, size})
		} else if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, temporary) {
			_ = at.Remove(name) // if it stays it is overwritten, or does no harm
		}
	}
	slices.SortFunc(w.older, func(a, b segment) int { return cmp.Compare(a.number, b.number) })
	if len(w.older) > 0 {
		w.number = w.older[len(w.older)-1].number
	}
	w.life = w.number + 1
	return w, nil
}

// run writes until the queue is closed. It writes when it is kicked, and then at each patience until nothing more
// comes.
func (w *writer) run() {
	soon := time.NewTimer(patience)
	defer soon.Stop()
	soon.Stop()
	for {
		select {
		case <-w.r.kick:
			if w.r.asleep.Load() {
				w.r.asleep.Store(false)
				soon.Reset(patience)
			}
		case <-soon.C:
			if len(w.r.queue) == 0 {
				w.r.asleep.Store(true)
				if len(w.r.queue) == 0 {
					continue // an entry from here on finds it asleep
				}
				w.r.asleep.Store(false)
			}
			soon.Reset(patience)
		}
		open := w.drain()
		w.flush()
		if !open {
			break
		}
	}
	w.end("the recorder was closed")
	if w.f != nil {
		w.flush()
	}
	if w.f != nil {
		w.stop(w.f.Close())
	}
}

// drain encodes the queue, and reports whether it is open.
func (w *writer) drain() bool {
	for {
		select {
		case e, ok := <-w.r.queue:
			if !ok {
				return false
			}
			w.take(e)
		default:
			return true
		}
	}
}

func (w *writer) take(e *entry) {
	w.record(e)
	w.taken = append(w.taken, e)
	if w.buf.Len() >= batch {
		w.flush()
	}
}

// giveBack returns the memory of written entries.
func (w *writer) giveBack() {
	for _, e := range w.taken {
		e.turn = nil
		e.in.Message, e.in.Answer = protocol.Message{}, protocol.Answer{} // drop shared memory
		clear(e.fx.Sends)
		w.r.free <- e // it has room for every entry that was made
	}
	clear(w.taken)
	w.taken = w.taken[:0]
}

func (w *writer) record(e *entry) {
	w.now = e.in.Now.Boot
	boots := e.stepped && e.boots
	if w.err != nil && !boots && e.state == nil {
		if !w.asked && w.now >= w.retry {
			w.asked = true
			w.r.wanted.Store(true)
		}
		return
	}
	switch {
	case boots:
		w.begin(e)
	case e.stepped && w.f != nil && e.turn != nil:
		w.encode(w.step(e))
	case e.stepped && w.f != nil:
		if line, ok := w.lines.step(w.n+1, w.life, w.r.cfg.Node, &e.in, &e.fx, &e.view); ok {
			w.n++
			w.buf.Write(line)
		} else {
			w.encode(w.step(e))
		}
	}
	if e.state != nil {
		w.asked = false
		w.begin(e)
	}
	if !w.asked && w.f != nil && w.size+int64(w.buf.Len()) >= w.head+w.r.cfg.MaxBytes {
		w.asked = true
		w.r.wanted.Store(true)
	}
}

// step is the event of a step.
func (w *writer) step(e *entry) *trace.Event {
	w.n++
	if e.turn != nil {
		w.event = trace.Event{N: w.n, Node: w.r.cfg.Node, Life: w.life, Kind: trace.Turn, Turn: e.turn}
		return &w.event
	}
	w.event = trace.Event{N: w.n, Node: w.r.cfg.Node, Life: w.life, Kind: trace.Step, Input: &e.in, View: &e.view}
	switch fx := &e.fx; {
	case len(fx.Orders)+len(fx.Saves)+len(fx.Asks) > 0:
		w.event.Effects = fx
	case len(fx.Sends) > 0:
		digest, err := trace.Digest(fx)
		if err != nil { // invalid JSON: the encoder will report it
			w.event.Effects = fx
		}
		w.event.Digest = digest
	}
	return &w.event
}

// begin ends the present segment, if any, and begins the next one with the entry.
func (w *writer) begin(e *entry) {
	next := nameOf(w.number + 1)
	w.end("it goes on in " + next)
	w.flush()
	if w.f != nil {
		err := w.f.Close()
		w.older = append(w.older, segment{w.number, w.size - w.head})
		if w.f = nil; err != nil {
			w.fail(err)
			return
		}
	}
	w.prune()
	if err := w.create(next, e); err != nil {
		w.fail(err)
		return
	}
	w.err = nil
}

// create makes the segment. It gets its name only when it has its first event.
func (w *writer) create(name string, e *entry) (err error) {
	f, err := w.at.Create(name + temporary)
	if err != nil {
		return err
	}
	w.buf.Reset()
	if w.enc, err = trace.NewEncoder(&w.buf, w.r.cfg.header()); err == nil {
		err = w.enc.Event(w.first(e))
	}
	if err == nil {
		_, err = f.Write(w.buf.Bytes())
	}
	if err == nil {
		err = w.at.Rename(name+temporary, name)
	}
	if err != nil {
		return errors.Join(err, f.Close(), w.at.Remove(name+temporary))
	}
	w.number++
	w.f, w.size, w.head = f, int64(w.buf.Len()), 0
	if e.turn != nil && e.state != nil {
		w.head = w.size
	}
	w.buf.Reset()
	return nil
}

// first is the first event of a segment.
func (w *writer) first(e *entry) *trace.Event {
	if e.state == nil {
		return w.step(e)
	}
	w.n++
	says := "the record goes on"
	switch {
	case e.missing == 1:
		says += "; before it 1 step is missing: too many were waiting"
	case e.missing > 1:
		says += fmt.Sprintf("; before it %d steps are missing: too many were waiting", e.missing)
	case w.err != nil:
		says += "; before it steps are missing: " + w.err.Error()
	}
	if e.turn != nil {
		turn := &trace.GroupTurn{Tenure: e.turn.Tenure, State: e.state}
		return &trace.Event{N: w.n, Node: w.r.cfg.Node, Life: w.life, Kind: trace.Turn, Now: e.in.Now, Turn: turn, Says: says}
	}
	return &trace.Event{N: w.n, Node: w.r.cfg.Node, Life: w.life, Kind: trace.State, Now: e.in.Now, State: e.state, View: &e.view, Says: says}
}

// encode encodes an event. One that cannot be encoded is a gap.
func (w *writer) encode(ev *trace.Event) {
	if err := w.enc.Event(ev); err != nil {
		w.flush()
		if w.f != nil {
			w.abandon(err)
		}
	}
}

// end writes the last event.
func (w *writer) end(says string) {
	if w.f != nil {
		w.n++
		w.encode(&trace.Event{N: w.n, Kind: trace.End, Says: says})
	}
}

// flush writes the encoded events.
func (w *writer) flush() {
	defer w.giveBack()
	if w.f == nil || w.buf.Len() == 0 {
		w.buf.Reset()
		return
	}
	n, err := w.f.Write(w.buf.Bytes())
	if err == nil {
		w.size += int64(n)
		w.buf.Reset()
		return
	}
	// Of the partly written lines, the whole ones stay.
	whole := w.size + int64(bytes.LastIndexByte(w.buf.Bytes()[:n], '\n')+1)
	if w.f.Truncate(whole) == nil {
		w.size = whole
	} else {
		w.size += int64(n)
	}
	w.buf.Reset()
	w.abandon(err)
}

// abandon leaves the segment as it is.
func (w *writer) abandon(err error) {
	err = errors.Join(err, w.f.Close())
	w.older = append(w.older, segment{w.number, w.size - w.head})
	w.f = nil
	w.stop(err)
	w.retry = w.now.Add(pause)
}

// fail records that a segment could not begin.
func (w *writer) fail(err error) {
	w.stop(err)
	w.asked, w.retry = false, w.now.Add(pause)
}

// stop records why nothing is recorded any more. The gap is counted once.
func (w *writer) stop(err error) {
	if err != nil && w.err == nil {
		w.r.gaps.Add(1)
	}
	if err != nil {
		w.err = err
	}
}

// prune removes the oldest segments. If a removal fails it is tried again with the next segment.
func (w *writer) prune() {
	var sum int64
	stay := len(w.older)
	for stay > 0 && len(w.older)-stay < kept {
		if sum += w.older[stay-1].size; sum > keptBytes*w.r.cfg.MaxBytes {
			break
		}
		stay--
	}
	var left []segment
	for _, s := range w.older[:stay] {
		if w.at.Remove(nameOf(s.number)) != nil {
			left = append(left, s)
		}
	}
	w.older = append(left, w.older[stay:]...)
}

// close closes the directory, after run.
func (w *writer) close() error { return errors.Join(w.err, w.at.Close()) }
