package flight

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/internal/place"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

// settle waits until the recorder has written all that is waiting.
func settle(r *Recorder) {
	r.hurry()
	back := make([]*entry, 0, queued)
	for range r.made {
		back = append(back, <-r.free)
	}
	for _, e := range back {
		r.free <- e
	}
}

// counter is a machine that counts its steps.
type counter struct{ n uint64 }

func (c *counter) state() []byte { return protocol.AppendUint(nil, c.n) }

// step steps at a time, and has it recorded.
func (c *counter) step(r *Recorder, kind protocol.InputKind, at time.Duration) {
	c.n++
	now := protocol.Reading{Boot: protocol.Instant(at), Mono: protocol.Instant(at)}
	r.Step(&protocol.Input{Kind: kind, Now: now}, &protocol.Effects{}, &protocol.View{Role: protocol.Follower, Term: c.n}, c.state)
}

var plain = Config{Node: "n1", Protocol: "counter"}

// fullFolder is a directory on a disk that can be full.
type fullFolder struct {
	files  map[string]*fullFile
	room   int  // bytes that can still be written
	stuck  bool // nothing can be removed
	writes int
	hold   chan struct{} // if not nil, a write waits for it
	begun  chan struct{} // and says so
}

type fullFile struct {
	at   *fullFolder
	text []byte
}

func (d *fullFolder) List() (map[string]int64, error) {
	sizes := map[string]int64{}
	for name, f := range d.files {
		sizes[name] = int64(len(f.text))
	}
	return sizes, nil
}

func (d *fullFolder) Create(name string) (file, error) {
	f := &fullFile{at: d}
	d.files[name] = f
	return f, nil
}

func (d *fullFolder) Rename(from, to string) error {
	d.files[to] = d.files[from]
	delete(d.files, from)
	return nil
}

func (d *fullFolder) Remove(name string) error {
	if d.stuck {
		return syscall.EROFS
	}
	if f := d.files[name]; f != nil {
		d.room += len(f.text)
		delete(d.files, name)
	}
	return nil
}

func (d *fullFolder) Close() error { return nil }

func (d *fullFolder) segments() []string {
	var all []string
	for name := range d.files {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func (f *fullFile) Write(p []byte) (int, error) {
	f.at.writes++
	if f.at.hold != nil {
		f.at.begun <- struct{}{}
		<-f.at.hold
	}
	n := min(len(p), f.at.room)
	f.at.room -= n
	f.text = append(f.text, p[:n]...)
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (f *fullFile) Truncate(size int64) error {
	f.at.room += len(f.text) - int(size)
	f.text = f.text[:size]
	return nil
}

func (f *fullFile) Close() error { return nil }

func startIn(t *testing.T, at folder, cfg Config) *Recorder {
	t.Helper()
	cfg, err := cfg.normal()
	if err != nil {
		t.Fatal(err)
	}
	r, err := start(cfg, at)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// events reads a segment.
func events(t *testing.T, text []byte) []*trace.Event {
	t.Helper()
	d, err := trace.NewDecoder(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	var all []*trace.Event
	for e, err := range d.Events() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	if d.Torn() {
		t.Error("the last line is torn")
	}
	return all
}

// TestFullDisk: a full disk is a gap; the record goes on a second after there is
// room again, from the machine's state, and what was written is whole.
func TestFullDisk(t *testing.T) {
	at := &fullFolder{files: map[string]*fullFile{}, room: 5000}
	r := startIn(t, at, plain)
	c := &counter{}
	c.step(r, protocol.Boot, 0)
	settle(r)
	for i := range 100 { // it fills in the midst of a line
		c.step(r, protocol.Fire, time.Duration(i)*time.Millisecond)
		settle(r)
	}
	if r.Gaps() != 1 || at.room > 200 {
		t.Fatalf("%d gaps, room for %d bytes; want one gap", r.Gaps(), at.room)
	}
	c.step(r, protocol.Fire, 2*time.Second) // it asks
	settle(r)
	c.step(r, protocol.Fire, 2*time.Second) // and fails again
	settle(r)
	if r.Gaps() != 1 {
		t.Errorf("%d gaps; want it to be the same one", r.Gaps())
	}
	at.room = 100_000
	c.step(r, protocol.Fire, 2500*time.Millisecond) // too early
	settle(r)
	c.step(r, protocol.Fire, 3*time.Second)
	settle(r)
	c.step(r, protocol.Fire, 3*time.Second)
	settle(r)
	c.step(r, protocol.Fire, 3*time.Second)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if got := at.segments(); len(got) != 2 {
		t.Fatalf("%v; want two segments", got)
	}
	first, second := events(t, at.files[nameOf(1)].text), events(t, at.files[nameOf(2)].text)
	if len(first) < 10 || first[len(first)-1].Kind != trace.Step {
		t.Errorf("%d events; want whole lines, and no end", len(first))
	}
	if len(second) != 3 || second[0].Kind != trace.State || second[2].Kind != trace.End || second[1].View.Term != c.n {
		t.Fatalf("%d events; want a state, a step and the end", len(second))
	}
	if says := second[0].Says; says != "the record goes on; before it steps are missing: no space left on device" {
		t.Errorf("%q", says)
	}
	if !slices.Equal(second[0].State, protocol.AppendUint(nil, c.n-1)) {
		t.Errorf("state %x of step %d", second[0].State, c.n-1)
	}
}

// TestFullAtTheEnd: what the record lacks at its end, Close tells.
func TestFullAtTheEnd(t *testing.T) {
	at := &fullFolder{files: map[string]*fullFile{}}
	r := startIn(t, at, plain)
	(&counter{}).step(r, protocol.Boot, 0)
	if err := r.Close(); !errors.Is(err, syscall.ENOSPC) || r.Gaps() != 1 || len(at.files) != 0 {
		t.Errorf("%v, %d gaps, %v", err, r.Gaps(), at.segments())
	}
}

// TestOverrun: while the disk hangs, Step does not wait; what does not fit is a
// gap, and the record says how many steps it lacks.
func TestOverrun(t *testing.T) {
	at := &fullFolder{files: map[string]*fullFile{}, room: 1 << 20, hold: make(chan struct{}), begun: make(chan struct{}, 1)}
	r := startIn(t, at, plain)
	c := &counter{}
	c.step(r, protocol.Boot, 0)
	<-at.begun
	for range queued + 100 { // one of the entries is with the writer
		c.step(r, protocol.Fire, 0)
	}
	if r.Gaps() != 1 {
		t.Errorf("%d gaps; want 1", r.Gaps())
	}
	close(at.hold)
	go func() {
		for range at.begun {
		}
	}()
	settle(r)
	c.step(r, protocol.Fire, 0)
	c.step(r, protocol.Fire, 0)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	close(at.begun)
	if got := at.segments(); len(got) != 2 {
		t.Fatalf("%v; want two segments", got)
	}
	first, second := events(t, at.files[nameOf(1)].text), events(t, at.files[nameOf(2)].text)
	if len(first) != queued+1 || first[queued].Says != "it goes on in flight-00000002.ndjson" {
		t.Errorf("%d events, the last %+v", len(first), first[len(first)-1])
	}
	if want := "the record goes on; before it 101 steps are missing: too many were waiting"; len(second) != 3 || second[0].Says != want {
		t.Errorf("%d events, the first says %q\nwant: %q", len(second), second[0].Says, want)
	}
	if at.writes > 8 {
		t.Errorf("%d writes; want what waits to be written at once", at.writes)
	}
}

// TestAge: a segment that is old is followed by another.
func TestAge(t *testing.T) {
	at := &fullFolder{files: map[string]*fullFile{}, room: 1 << 20}
	r := startIn(t, at, plain)
	c := &counter{}
	for i := range 12 {
		kind := protocol.Fire
		if i == 0 {
			kind = protocol.Boot
		}
		c.step(r, kind, time.Duration(i)*time.Minute)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got := at.segments(); len(got) != 3 {
		t.Errorf("%v; want one in five minutes", got)
	}
}

// TestOldLives: the segments of earlier lives stay, as many as there is room
// for; what a crash has left behind does not.
func TestOldLives(t *testing.T) {
	at := &fullFolder{files: map[string]*fullFile{"history.ndjson": {}, "flight-00000009.ndjson.tmp": {}, "flight-x.ndjson": {}}, room: 1 << 20}
	for range 40 {
		r := startIn(t, at, plain)
		c := &counter{}
		c.step(r, protocol.Boot, 0)
		c.step(r, protocol.Fire, 0)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	got := at.segments()
	if len(got) != kept+1+2 || got[0] != nameOf(40-kept) || got[kept] != nameOf(40) {
		t.Errorf("%v; want the last %d, and what is not ours", got, kept+1)
	}
	if e := events(t, at.files[nameOf(40)].text); e[0].Life != 40 || e[0].N != 1 {
		t.Errorf("%+v; want life 40, from 1", e[0])
	}
	// Long ones go sooner.
	for _, name := range got[:kept] {
		at.files[name].text = make([]byte, 1_000_000)
	}
	cfg := plain
	cfg.MaxBytes = 1_500_000
	r := startIn(t, at, cfg)
	(&counter{}).step(r, protocol.Boot, 0)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got := at.segments(); len(got) != 4+2 { // two long ones, the short one, the new one
		t.Errorf("%v; want less than %d bytes beside the new one", got, 2*cfg.MaxBytes)
	}
	// One that cannot be removed stays, and is no reason to record nothing.
	at.stuck = true
	r = startIn(t, at, plain)
	(&counter{}).step(r, protocol.Boot, 0)
	if err := r.Close(); err != nil || r.Gaps() > 0 {
		t.Errorf("%v, %d gaps", err, r.Gaps())
	}
}

// TestNotFromTheBoot: a record that begins later begins with a state.
func TestNotFromTheBoot(t *testing.T) {
	at := &fullFolder{files: map[string]*fullFile{}, room: 1 << 20}
	r := startIn(t, at, plain)
	c := &counter{}
	c.step(r, protocol.Fire, 0)
	c.step(r, protocol.Fire, 0)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if e := events(t, at.files[nameOf(1)].text); len(e) != 3 || e[0].Kind != trace.State || e[1].Kind != trace.Step || r.Gaps() > 0 {
		t.Errorf("%d events, %d gaps", len(e), r.Gaps())
	}
}

// TestCopies: nothing of what Step is given is kept.
func TestCopies(t *testing.T) {
	at := &fullFolder{files: map[string]*fullFile{}, room: 1 << 20, hold: make(chan struct{}), begun: make(chan struct{}, 9)}
	r := startIn(t, at, plain)
	(&counter{}).step(r, protocol.Boot, 0)
	<-at.begun
	in := protocol.Input{Kind: protocol.Replied, Durable: []byte("one"), Answer: protocol.Answer{Status: protocol.StatusDone, Entries: []protocol.Entry{{Order: 1}}}}
	fx := protocol.Effects{Orders: []protocol.Order{{Kind: protocol.Lead, Token: 1}}, Asks: []protocol.Ask{{Number: 1, Op: protocol.Write}}}
	fx.Sends = append(fx.Sends, protocol.Send{To: "n2", Message: protocol.Message{Term: 1}})
	for i := range 3 {
		fx.Save(uint64(i+1), func(dst []byte) []byte { return append(dst, "save"[:i+1]...) })
	}
	v := protocol.View{Role: protocol.Leader, Term: 1}
	r.Step(&in, &fx, &v, nil)
	want, err := trace.Digest(&fx)
	if err != nil {
		t.Fatal(err)
	}
	in.Durable[0], in.Answer.Entries[0].Order, v.Term = 'x', 9, 9
	fx.Orders[0].Token, fx.Asks[0].Number, fx.Sends[0].Message.Term, fx.Saves[2].Data[0] = 9, 9, 9, 'x'
	close(at.hold)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	e := events(t, at.files[nameOf(1)].text)[1]
	if got, err := trace.Digest(e.Effects); err != nil || got != want || string(e.Input.Durable) != "one" || e.Input.Answer.Entries[0].Order != 1 || e.View.Term != 1 {
		t.Errorf("%+v, %+v, %+v, %v", e.Input, e.Effects, e.View, err)
	}
}

// TestStepAllocatesNothing: the memory of a step is used again.
func TestStepAllocatesNothing(t *testing.T) {
	var e entry
	in := protocol.Input{Kind: protocol.Receive, Message: protocol.Message{Term: 1}}
	fx := protocol.Effects{Sends: make([]protocol.Send, 28), Orders: make([]protocol.Order, 1)}
	fx.Save(1, func(dst []byte) []byte { return append(dst, make([]byte, 8000)...) })
	v := protocol.View{Role: protocol.Leader}
	e.set(&in, &fx, &v)
	if n := testing.AllocsPerRun(100, func() { e.set(&in, &fx, &v) }); n > 0 {
		t.Errorf("%v allocations a step; want none", n)
	}
}

// written is how many events a kill at this moment would leave behind.
func written(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, nameOf(1)))
	if err != nil {
		t.Fatal(err)
	}
	return len(events(t, text))
}

// TestWrittenSoon: without Close, an ordinary step is in the file after patience,
// and at once where it follows a silence; any other one is at once, and with it
// what came before. A kill loses nothing else.
func TestWrittenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := plain
		cfg.Dir = place.At{Path: t.TempDir()}
		r, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}()
		in, fx := &protocol.Input{Kind: protocol.Boot}, &protocol.Effects{}
		view := &protocol.View{Role: protocol.Follower, Term: 1}
		total := 0
		step := func(soon bool) {
			t.Helper()
			before := total
			r.Step(in, fx, view, nil)
			total++
			synctest.Wait()
			if soon {
				before = total
			}
			if got := written(t, cfg.Dir.Path); soon && got != total || !soon && got >= total {
				t.Fatalf("%d events of %d after step %d; want it written at once: %v", got, total, before, soon)
			}
		}
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		step(true)
		in.Kind = protocol.Receive
		step(false)
		pass(patience)
		if got := written(t, cfg.Dir.Path); got != total {
			t.Fatalf("%d events of %d after %v", got, total, patience)
		}
		for range 20 {
			step(false)
			pass(patience / 5)
			if got := written(t, cfg.Dir.Path); got < total-5 {
				t.Fatalf("%d events of %d; want those that are older than %v", got, total, patience)
			}
		}
		pass(3 * patience)
		step(true) // after a silence
		for name, change := range map[string]func(){
			"an order":      func() { fx.Orders = []protocol.Order{{Kind: protocol.Stop, Token: 1}} },
			"a save":        func() { fx.Save(1, func(dst []byte) []byte { return append(dst, 1) }) },
			"an ask":        func() { fx.Asks = []protocol.Ask{{Number: 1, Op: protocol.Write}} },
			"a closed peer": func() { in.Kind = protocol.PeerClosed },
			"a command":     func() { in.Kind = protocol.Do },
			"a role":        func() { view.Role = protocol.PreCandidate },
			"a leader":      func() { view.Leader.ID = "n2" },
		} {
			step(false)
			change()
			step(true)
			t.Log(name)
			in.Kind, fx = protocol.Fire, &protocol.Effects{}
		}
	})
}

// TestKicksAreNotLost: whatever is put in while the writer falls asleep is written.
func TestKicksAreNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := &fullFolder{files: map[string]*fullFile{}, room: 1 << 24}
		r := startIn(t, at, plain)
		c := &counter{}
		c.step(r, protocol.Boot, 0)
		for i := range 200 {
			for range i % 3 {
				c.step(r, protocol.Fire, 0)
			}
			<-time.After(time.Duration(i) * patience / 100)
		}
		<-time.After(patience)
		synctest.Wait()
		if got := events(t, at.files[nameOf(1)].text); uint64(len(got)) != c.n {
			t.Errorf("%d events of %d", len(got), c.n)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestConfig: what cannot be recorded is refused at once.
func TestConfig(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]Config{
		"no node":      {Dir: place.At{Path: dir}, Protocol: "quorum"},
		"no protocol":  {Dir: place.At{Path: dir}, Node: "n1"},
		"no JSON":      {Dir: place.At{Path: dir}, Node: "n1", Protocol: "quorum", Config: []byte("{")},
		"no size":      {Dir: place.At{Path: dir}, Node: "n1", Protocol: "quorum", MaxBytes: -1},
		"no age":       {Dir: place.At{Path: dir}, Node: "n1", Protocol: "quorum", MaxAge: -1},
		"no directory": {Dir: place.At{Path: filepath.Join(dir, "none")}, Node: "n1", Protocol: "quorum"},
	} {
		if r, err := Open(c); err == nil || !strings.HasPrefix(err.Error(), "flight: ") {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// TestReadOnly: a directory in which nothing can be written is a gap, and no
// error.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	r, err := Open(Config{Dir: place.At{Path: dir}, Node: "n1", Protocol: "counter"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	(&counter{}).step(r, protocol.Boot, 0)
	if err := r.Close(); err == nil || r.Gaps() != 1 {
		t.Errorf("%v, %d gaps", err, r.Gaps())
	}
}
