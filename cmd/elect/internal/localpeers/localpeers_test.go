package localpeers

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPorts(t *testing.T) {
	ports, err := freePorts(30)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ports)
	if n := len(slices.Compact(ports)); n != 30 {
		t.Errorf("%d different ports of 30", n)
	}
	if ports[0] < firstPort || ports[len(ports)-1] >= lastPort {
		t.Errorf("%v is beyond %d to %d", ports, firstPort, lastPort)
	}
	if _, err := freePorts(0); err == nil {
		t.Error("no nodes")
	}
}

func TestURL(t *testing.T) {
	r, err := New(Config{Dir: t.TempDir(), Profile: "fast", Voters: 3, Observers: 2, Cables: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got := strings.Join(slices.Concat(r.Voters(), r.Observers()), " "); got != "n1 n2 n3 o1 o2" {
		t.Errorf("the nodes are %s", got)
	}
	own, operator, direct := r.URL("n1"), r.URL(""), r.Direct()
	if !strings.HasPrefix(own, "peer://n1@"+r.addr["n1"]+",n2@"+r.cables[way{"n1", "n2"}].Addr()+",") {
		t.Errorf("n1 sees %s, which is not the others' cables", own)
	}
	if !strings.HasPrefix(operator, "peer://n1@"+r.addr["n1"]+",n2@"+r.addr["n2"]+",n3@"+r.addr["n3"]+"?") {
		t.Errorf("an operator sees %s, which is not past the cables", operator)
	}
	if strings.Contains(operator, "data=") || !strings.Contains(own, "data=") {
		t.Errorf("nodes have data directories and operators none: %s, %s", own, operator)
	}
	if where, what, _ := strings.Cut(direct, "?"); !strings.HasPrefix(operator, where+"?") || !strings.Contains(what, "data=") {
		t.Errorf("by hand it is %s, which is not past the cables and with data directories", direct)
	}
	if !strings.Contains(own, "cluster=bench&") {
		t.Errorf("%s; want the cluster bench", own)
	}
	for _, file := range []string{"ca.crt", "n3.key", "o2.crt", "operator.crt"} {
		if _, err := os.Stat(r.certs() + "/" + file); err != nil {
			t.Error(err)
		}
	}
}

func TestCut(t *testing.T) {
	r, err := New(Config{Dir: t.TempDir(), Profile: "lan", Voters: 2, Cables: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	l, err := net.Listen("tcp", r.addr["n2"])
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			far <- c
		}
	}()
	near, err := net.Dial("tcp", r.cables[way{"n1", "n2"}].Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	there := <-far
	defer there.Close()
	say := func() {
		if _, err := near.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	say()
	if _, err := there.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r.Cut("n2")
	heard := make(chan error)
	go func() {
		_, err := there.Read(make([]byte, 1))
		heard <- err
	}()
	say()
	select {
	case err := <-heard:
		t.Fatalf("n1 was heard while n2 was cut off (%v)", err)
	default:
	}
	r.Heal("n2")
	if err := <-heard; err != nil {
		t.Error(err)
	}
}

// Who is cut off stays so when another one is healed.
func TestHealOne(t *testing.T) {
	r, err := New(Config{Dir: t.TempDir(), Profile: "lan", Voters: 3, Cables: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ways := map[way]*circuit{}
	for w := range r.cables {
		c := newCircuit(t, r, w)
		defer c.close()
		ways[w] = c
	}
	expect := func(when string, cut ...string) {
		t.Helper()
		for _, c := range ways {
			c.send(t)
		}
		for w, c := range ways {
			if slices.Contains(cut, w.from) || slices.Contains(cut, w.to) {
				if c.hears(t, 50*time.Millisecond) {
					t.Errorf("%s: %s is heard by %s; want %v to be cut off", when, w.from, w.to, cut)
				}
			} else if !c.hears(t, time.Minute) {
				t.Errorf("%s: %s is not heard by %s; want only %v to be cut off", when, w.from, w.to, cut)
			}
		}
	}
	expect("at first")
	r.Cut("n3")
	r.Cut("n1")
	expect("n3 and n1 were cut", "n3", "n1")
	r.Heal("n3")
	expect("n3 was healed", "n1")
	r.Cut("n3")
	r.Cut("n3")
	r.Heal("n1")
	expect("n3 was cut again, twice, and n1 was healed", "n3")
	r.Heal("n3")
	r.Heal("n3")
	expect("both were healed")
}

// circuit is one connection through a cable.
type circuit struct {
	near, far net.Conn
	sent      int // bytes, and not heard yet
}

func newCircuit(t *testing.T, r *Peers, w way) *circuit {
	t.Helper()
	l, err := net.Listen("tcp", r.addr[w.to])
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", r.cables[w].Addr())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(errors.Join(err, near.Close()))
	}
	return &circuit{near: near, far: far}
}

func (c *circuit) close() { _, _ = c.near.Close(), c.far.Close() }

func (c *circuit) send(t *testing.T) {
	t.Helper()
	if _, err := c.near.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	c.sent++
}

// hears reports whether all that was sent arrives within that time.
func (c *circuit) hears(t *testing.T, limit time.Duration) bool {
	t.Helper()
	if err := c.far.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	n, err := io.ReadFull(c.far, make([]byte, c.sent))
	c.sent -= n
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return c.sent == 0
}
