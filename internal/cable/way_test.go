package cable_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/electd/elect/internal/cable"
)

func TestSet(t *testing.T) {
	r := newRig(t)
	const d = 30 * time.Millisecond
	r.cable.Set(cable.Way{Delay: d}, cable.Way{Cut: true})
	begun := time.Now()
	say(t, r.near, "slow")
	say(t, r.far, "held")
	hear(t, r.far, "slow")
	if took := time.Since(begun); took < d {
		t.Fatalf("the way there took %v, want %v or more", took, d)
	}
	silence(t, r.near)

	// All of the state is replaced, what is on the way included.
	r.cable.Set(cable.Way{Cut: true}, cable.Way{Delay: -time.Second, Jitter: -time.Second})
	hear(t, r.near, "held")
	say(t, r.near, "held too")
	silence(t, r.far)
	r.cable.Heal()
	hear(t, r.far, "held too")

	// Healing is about cuts.
	r.cable.Set(cable.Way{}, cable.Way{Delay: d, Cut: true})
	r.cable.Heal()
	begun = time.Now()
	say(t, r.far, "slow")
	hear(t, r.near, "slow")
	if took := time.Since(begun); took < d {
		t.Fatalf("the way back took %v after the healing, want %v or more", took, d)
	}
}

// TestJitter: what goes over one connection stays in order, and what goes over two
// does not.
func TestJitter(t *testing.T) {
	r := newRig(t)
	r.cable.Set(cable.Way{Jitter: 20 * time.Millisecond}, cable.Way{})
	near := []net.Conn{r.near, r.dial(t)}
	far := []net.Conn{r.far, r.answer(t)}
	const rounds = 40
	type arrival struct {
		conn int
		at   time.Time
	}
	for n := range rounds {
		for _, c := range near {
			if _, err := c.Write(binary.BigEndian.AppendUint32(nil, uint32(n))); err != nil {
				t.Fatal(err)
			}
		}
		arrivals := make(chan arrival, 2)
		for i, c := range far {
			go func() {
				_ = c.SetReadDeadline(time.Now().Add(deadline))
				got := make([]byte, 4)
				if _, err := io.ReadFull(c, got); err != nil || binary.BigEndian.Uint32(got) != uint32(n) {
					t.Errorf("connection %d: heard %v, %v; want message %d", i, got, err, n)
				}
				arrivals <- arrival{i, time.Now()}
			}()
		}
		first, second := <-arrivals, <-arrivals
		if t.Failed() {
			return
		}
		if first.conn == 1 && second.at.Sub(first.at) > time.Millisecond {
			return // what was sent second came first, and clearly so
		}
	}
	t.Errorf("in %d rounds none of two messages over two connections overtook the other", rounds)
}

// TestJitterKeepsOrder while much is on the way.
func TestJitterKeepsOrder(t *testing.T) {
	r := newRig(t)
	r.cable.Set(cable.Way{Delay: time.Millisecond, Jitter: 5 * time.Millisecond}, cable.Way{})
	const words = 2000
	go func() {
		for n := range uint32(words) {
			if _, err := r.near.Write(binary.BigEndian.AppendUint32(nil, n)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	_ = r.far.SetReadDeadline(time.Now().Add(deadline))
	got := make([]byte, 4*words)
	if n, err := io.ReadFull(r.far, got); err != nil {
		t.Fatalf("%d bytes of %d: %v", n, len(got), err)
	}
	for n := range uint32(words) {
		if word := binary.BigEndian.Uint32(got[4*n:]); word != n {
			t.Fatalf("word %d is %d", n, word)
		}
	}
}

func TestCarry(t *testing.T) {
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close()
	c, err := cable.Loose(target.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Addr() != "" {
		t.Errorf("a loose cable is at %s", c.Addr())
	}
	carried := func() net.Conn {
		near, err := net.Dial("tcp", front.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { near.Close() })
		accepted, err := front.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Carry(accepted)
		return near
	}
	r := &rig{cable: c, target: target, near: carried()}
	r.far = r.answer(t)
	say(t, r.near, "there")
	hear(t, r.far, "there")
	c.Cut()
	say(t, r.far, "back")
	silence(t, r.near)
	c.Heal()
	hear(t, r.near, "back")
	c.Reset()
	ended(t, r.near)
	ended(t, r.far)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	ended(t, carried())
	if _, err := cable.Loose("nowhere"); err == nil {
		t.Error("a target without a port")
	}
}
