package cable_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/cable"
)

const deadline = 10 * time.Second

// rig is a target, a cable to it, and one connection through it.
type rig struct {
	cable     *cable.Cable
	target    net.Listener
	near, far net.Conn
}

func newRig(t *testing.T) *rig {
	t.Helper()
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	c, err := cable.New(target.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r := &rig{cable: c, target: target}
	r.near = r.dial(t)
	r.far = r.answer(t)
	return r
}

func (r *rig) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", r.cable.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (r *rig) answer(t *testing.T) net.Conn {
	t.Helper()
	_ = r.target.(*net.TCPListener).SetDeadline(time.Now().Add(deadline))
	c, err := r.target.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(deadline))
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("heard %q, %v; want %q", got, err, text)
	}
}

// silence holds if nothing is heard for a while: the longer, the stricter.
func silence(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !isTimeout(err) {
		t.Fatalf("heard %d bytes, %v; want silence", n, err)
	}
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

func ended(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(deadline))
	if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Fatalf("%v; want the end of the connection", err)
	}
}

func TestForwards(t *testing.T) {
	r := newRig(t)
	say(t, r.near, "there")
	hear(t, r.far, "there")
	say(t, r.far, "back")
	hear(t, r.near, "back")
	if n := r.cable.Carried(); n != int64(len("there"+"back")) {
		t.Errorf("%d bytes were carried, want %d", n, len("there"+"back"))
	}

	// One side closes its direction; the other goes on.
	if err := r.near.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = r.far.SetReadDeadline(time.Now().Add(deadline))
	if _, err := r.far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("%v; want EOF", err)
	}
	say(t, r.far, "still")
	hear(t, r.near, "still")
	r.far.Close()
	ended(t, r.near)
}

func TestForwardsMuch(t *testing.T) {
	r := newRig(t)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB, more than all buffers
	go func() {
		_, _ = r.near.Write(sent)
		_ = r.near.(*net.TCPConn).CloseWrite()
	}()
	_ = r.far.SetReadDeadline(time.Now().Add(deadline))
	got, err := io.ReadAll(r.far)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes of %d, %v", len(got), len(sent), err)
	}
}

func TestCutAndHeal(t *testing.T) {
	r := newRig(t)
	r.cable.Cut()
	say(t, r.near, "there")
	say(t, r.far, "back")
	silence(t, r.far)
	silence(t, r.near)
	r.cable.Heal()
	hear(t, r.far, "there")
	hear(t, r.near, "back")
}

func TestCutHoldsTheEnd(t *testing.T) {
	r := newRig(t)
	r.cable.Cut()
	say(t, r.far, "last words")
	r.far.Close()
	silence(t, r.near)
	r.cable.Heal()
	hear(t, r.near, "last words")
	ended(t, r.near)
}

func TestCutOneWay(t *testing.T) {
	r := newRig(t)
	for _, toTarget := range []bool{true, false} {
		from, to := r.near, r.far
		if !toTarget {
			from, to = r.far, r.near
		}
		r.cable.Set(cable.Way{Cut: toTarget}, cable.Way{Cut: !toTarget})
		say(t, from, "held")
		silence(t, to)
		say(t, to, "passes")
		hear(t, from, "passes")
		r.cable.Heal()
		hear(t, to, "held")
	}
}

func TestNewConnectionsHang(t *testing.T) {
	r := newRig(t)
	r.cable.Cut()
	impatient, patient := r.dial(t), r.dial(t)
	say(t, impatient, "never")
	say(t, patient, "at last")
	silence(t, patient)
	// Who gives up before the cable is healed is dropped, and the target never
	// sees it.
	if err := impatient.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	ended(t, impatient)
	r.cable.Heal()
	hear(t, r.answer(t), "at last")
}

func TestDelay(t *testing.T) {
	r := newRig(t)
	const d = 30 * time.Millisecond
	r.cable.Delay(d)
	begun := time.Now()
	say(t, r.near, "ping")
	hear(t, r.far, "ping")
	if took := time.Since(begun); took < d {
		t.Fatalf("one way took %v, want %v or more", took, d)
	}
	say(t, r.far, "pong")
	hear(t, r.near, "pong")
	if took := time.Since(begun); took < 2*d {
		t.Fatalf("both ways took %v, want %v or more", took, 2*d)
	}
	// A delay is not a bound on how much is on the way.
	begun = time.Now()
	for range 200 {
		say(t, r.near, "x")
	}
	hear(t, r.far, strings.Repeat("x", 200))
	if took := time.Since(begun); took > 100*d {
		t.Fatalf("two hundred bytes took %v, as if each had waited for the one before", took)
	}
	r.cable.Delay(0)
	say(t, r.near, "soon")
	hear(t, r.far, "soon")
}

func TestReset(t *testing.T) {
	for _, cut := range []bool{false, true} {
		r := newRig(t)
		if cut {
			r.cable.Cut()
		}
		r.cable.Reset()
		ended(t, r.near)
		ended(t, r.far)
		r.cable.Heal()
		again := r.dial(t)
		say(t, again, "again")
		hear(t, r.answer(t), "again")
	}
}

// TestResetAtOnce: a connection that is reset while the target accepts it is reset
// there too.
func TestResetAtOnce(t *testing.T) {
	r := newRig(t)
	for range 200 {
		near := r.dial(t)
		far := r.answer(t)
		r.cable.Reset()
		_ = far.SetReadDeadline(time.Now().Add(deadline))
		if _, err := far.Read(make([]byte, 1)); err == nil || isTimeout(err) || errors.Is(err, io.EOF) {
			t.Fatalf("%v; want a reset", err)
		}
		ended(t, near)
	}
}

func TestResetTravels(t *testing.T) {
	r := newRig(t)
	_ = r.far.(*net.TCPConn).SetLinger(0)
	r.far.Close()
	ended(t, r.near)
}

func TestNobodyListens(t *testing.T) {
	r := newRig(t)
	r.target.Close()
	// The reset may come before this side has noticed that it is connected.
	c, err := net.Dial("tcp", r.cable.Addr())
	if err != nil {
		return
	}
	defer c.Close()
	ended(t, c)
}

func TestBadTarget(t *testing.T) {
	if _, err := cable.New("localhost"); err == nil || !strings.Contains(err.Error(), "HOST:PORT") {
		t.Fatalf("%v; want what a target looks like", err)
	}
}

// TestCloseJoins: nothing runs any more when Close has returned, whatever state
// the connections were in.
func TestCloseJoins(t *testing.T) {
	before := runtime.NumGoroutine()
	r := newRig(t)
	say(t, r.near, "x")
	hear(t, r.far, "x")
	r.cable.Delay(time.Hour)
	say(t, r.near, "on the way")
	r.cable.Cut()
	r.dial(t)
	if err := r.cable.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.cable.Close(); err != nil {
		t.Fatalf("closed twice: %v", err)
	}
	// Goroutines that have been joined may still be on their last instruction.
	for end := time.Now().Add(deadline); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
		}
	}
	if _, err := net.Dial("tcp", r.cable.Addr()); err == nil {
		t.Fatal("it still listens")
	}
}

// BenchmarkRoundTrip is what a cable costs that does nothing.
func BenchmarkRoundTrip(b *testing.B) {
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer target.Close()
	go func() {
		if c, err := target.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	c, err := cable.New(target.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	conn, err := net.Dial("tcp", c.Addr())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	msg := make([]byte, 100)
	for b.Loop() {
		if _, err := conn.Write(msg); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, msg); err != nil {
			b.Fatal(err)
		}
	}
}
