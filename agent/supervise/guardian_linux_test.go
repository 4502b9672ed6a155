package supervise

import (
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise/internal/keeper"
	"github.com/electd/elect/driver"
)

// fixed is a mandate that has always as much left.
type fixed struct {
	driver.Mandate // of which nobody asks for anything else
	left           time.Duration
}

func (f fixed) Remaining() (time.Duration, bool) { return f.left, true }

// able is a mandate that the kernel holds, and that has a witness.
type able struct {
	fixed
	files []*os.File
	will  driver.Testament
}

func (m able) Files() []*os.File                    { return m.files }
func (m able) Entrust(func() bool, <-chan struct{}) {}
func (m able) Testament() driver.Testament          { return m.will }

// asked is the keeper's end of a Guardian's connection, in a test.
type asked struct {
	t    *testing.T
	conn *os.File
	in   keeper.Decoder
}

func newAsked(t *testing.T) (*Guardian, *asked) {
	t.Helper()
	a, b, err := keeper.SocketPair()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(b, true); err != nil {
		t.Fatal(err)
	}
	g := &Guardian{log: slog.New(slog.DiscardHandler), conn: os.NewFile(uintptr(a), "keeper")}
	k := &asked{t: t, conn: os.NewFile(uintptr(b), "program")}
	_ = k.conn.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() {
		g.conn.Close()
		k.conn.Close()
	})
	return g, k
}

// next is the next frame that the program has sent.
func (a *asked) next() (keeper.Kind, keeper.Lead) {
	a.t.Helper()
	for {
		k, payload, ok, err := a.in.Next()
		if err != nil {
			a.t.Fatal(err)
		}
		if ok {
			l, err := keeper.LoadLead(payload)
			if err != nil {
				a.t.Fatal(err)
			}
			return k, l
		}
		n, err := a.conn.Read(a.in.Room())
		if err != nil {
			a.t.Fatal(err)
		}
		a.in.Took(n)
	}
}

func (a *asked) answer(errno syscall.Errno) {
	a.t.Helper()
	if _, err := a.conn.Write(keeper.AppendNumber(nil, keeper.KindTaken, int64(errno))); err != nil {
		a.t.Fatal(err)
	}
}

// TestGuardianSlowLead: while the keeper owes one Lead its answer, the deadline of
// another goes on being pushed out, and it can be given up.
func TestGuardianSlowLead(t *testing.T) {
	g, k := newAsked(t)
	type result struct {
		done func()
		err  error
	}
	begin := func() chan result {
		c := make(chan result, 1)
		go func() {
			done, err := g.Lead(driver.Guarded{Mandate: fixed{left: 80 * time.Millisecond}, Exclusive: true})
			c <- result{done, err}
		}()
		return c
	}
	first := begin()
	if kind, l := k.next(); kind != keeper.KindLead || l.Id != 1 || l.At == 0 {
		t.Fatalf("%q %+v, want a lead", kind, l)
	}
	k.answer(0)
	one := <-first
	if one.err != nil {
		t.Fatal(one.err)
	}
	second := begin()
	for kind, l := k.next(); l.Id != 2; kind, l = k.next() {
		if kind != keeper.KindExtend || l.Id != 1 {
			t.Fatalf("%q %+v, want the first to be extended", kind, l)
		}
	}
	var last int64
	for range 5 { // of the first, and the second has no answer yet
		kind, l := k.next()
		if kind != keeper.KindExtend || l.Id != 1 || l.At <= last {
			t.Fatalf("%q %+v after %d, want the first to be extended", kind, l, last)
		}
		last = l.At
	}
	one.done()
	for kind, _ := k.next(); kind != keeper.KindDone; kind, _ = k.next() {
	}
	select {
	case r := <-second:
		t.Fatalf("the second Lead ended without an answer: %v", r.err)
	default:
	}
	k.answer(syscall.EMFILE)
	if r := <-second; r.err == nil {
		t.Error("the keeper refused, and Lead did not say so")
	}
}

// TestGuardianWithoutLease: work that is fenced by its token has no deadline.
func TestGuardianWithoutLease(t *testing.T) {
	g, k := newAsked(t)
	ended := make(chan error, 1)
	go func() {
		done, err := g.Lead(driver.Guarded{Mandate: fixed{}})
		if err == nil {
			done()
		}
		ended <- err
	}()
	if kind, l := k.next(); kind != keeper.KindLead || l.At != 0 {
		t.Errorf("%q %+v, want a lead without a deadline", kind, l)
	}
	k.answer(0)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if kind, l := k.next(); kind != keeper.KindDone {
		t.Errorf("%q %+v, want that it is over", kind, l)
	}
}

// TestGuardianKeepsWhatTheMandateHas: the keeper holds the files of the mandate and
// those of its testament, and is told the testament.
func TestGuardianKeepsWhatTheMandateHas(t *testing.T) {
	g, k := newAsked(t)
	file := func() *os.File {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	m := driver.Guarded{Exclusive: true, Mandate: able{
		fixed{left: time.Minute}, []*os.File{file(), file()}, driver.Testament{Data: []byte("of n1"), Keep: []*os.File{file()}},
	}}
	var c Command
	c.Under(m)
	if left, bounded := c.under.lease(); left != time.Minute || !bounded || len(c.under.hold) != 2 || c.under.entrust == nil || len(c.under.keep) != 1 || string(c.under.testament) != "of n1" {
		t.Errorf("the command is %+v; want all that the mandate has", c)
	}
	if c.Under(driver.Guarded{Mandate: m.Mandate}); c.under.lease != nil || len(c.under.hold) != 2 {
		t.Errorf("the command of work that is not exclusive is %+v; want no lease", c)
	}
	if c.Under(driver.Guarded{Mandate: fixed{}}); c.under.hold != nil || c.under.entrust != nil || c.under.keep != nil || c.under.testament != nil {
		t.Errorf("the command is %+v; want nothing of an earlier mandate", c)
	}
	led := make(chan error, 1)
	go func() {
		done, err := g.Lead(m)
		if err == nil {
			done()
		}
		led <- err
	}()
	if kind, l := k.next(); kind != keeper.KindLead || l.Files != 3 || string(l.Testament) != "of n1" {
		t.Errorf("%q %+v; want a lead with three files and the testament", kind, l)
	}
	k.answer(0)
	if err := <-led; err != nil {
		t.Error(err)
	}
}

// TestGuardianLosesItsKeeper: to campaign again is of no use then.
func TestGuardianLosesItsKeeper(t *testing.T) {
	g, k := newAsked(t)
	_ = k.conn.Close()
	if _, err := g.Lead(driver.Guarded{Mandate: fixed{left: time.Minute}, Exclusive: true}); !driver.IsPermanent(err) {
		t.Errorf("without a keeper Lead returned %v; want a permanent error", err)
	}
	g, k = newAsked(t)
	go func() {
		k.next()
		k.answer(syscall.EMFILE)
	}()
	if _, err := g.Lead(driver.Guarded{Mandate: fixed{left: time.Minute}, Exclusive: true}); err == nil || driver.IsPermanent(err) {
		t.Errorf("when the keeper refused, Lead returned %v; want an error that is passing", err)
	}
}
