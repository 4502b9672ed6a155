package ring

import (
	"net"
	"os"
	"slices"
	"strings"
	"testing"
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
		t.Error("a ring of no nodes")
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
	own, operator := r.URL("n1"), r.URL("")
	if !strings.HasPrefix(own, "peer://n1@"+r.addr["n1"]+",n2@"+r.cables[way{"n1", "n2"}].Addr()+",") {
		t.Errorf("n1 sees %s, which is not the others' cables", own)
	}
	if !strings.HasPrefix(operator, "peer://n1@"+r.addr["n1"]+",n2@"+r.addr["n2"]+",n3@"+r.addr["n3"]+"?") {
		t.Errorf("an operator sees %s, which is not past the cables", operator)
	}
	if strings.Contains(operator, "data=") || !strings.Contains(own, "data=") {
		t.Errorf("nodes have data directories and operators none: %s, %s", own, operator)
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
