//go:build linux

package network

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shapes are all of them for five nodes, by name.
func shapes() map[string]Links {
	return map[string]Links{
		"perfect":            {},
		"isolate":            Isolate(5, 2),
		"apart":              Apart(5),
		"one way":            OneWay(5, 1, 3),
		"mute":               Mute(5, 0),
		"deaf":               Deaf(5, 4),
		"partial":            Partial(5, 0, 4),
		"halves":             Halves(5, 0, 1),
		"bridge":             Bridge(5, 2),
		"ring of majorities": RingOfMajorities(5),
		"chain":              Chain(5),
		"hub":                Hub(5, 3),
		"cloudflare 2020":    Cloudflare2020(),
		"merged":             Merge(OneWay(5, 0, 1), Mute(5, 4), Partial(5, 2, 3)),
	}
}

// TestLinks: connected nodes hear each other, on connections of both directions, and others do not;
// after the healing what was said meanwhile arrives.
func TestLinks(t *testing.T) {
	kinds(t, 5, func(t *testing.T, w *puppets) {
		wires := w.mesh()
		for _, name := range slices.Sorted(maps.Keys(shapes())) {
			links := shapes()[name]
			w.set(links)
			for _, c := range wires {
				c.from.must("ok", "send %s a", c.name)
				c.to.must("ok", "send %s b", c.name)
			}
			var silent, held []func()
			listen := func(c wire, way Way, by *puppet, word string) {
				if links.Connected(way.From, way.To) {
					if !by.hears(c.name, word, patience) {
						t.Errorf("%s: %v is not heard over a connection from %d to %d", name, way, c.way.From, c.way.To)
					}
					return
				}
				silent = append(silent, func() { // after all that is heard, so that there was time for it
					if by.hears(c.name, word, time.Millisecond) {
						t.Errorf("%s: %v is heard over a connection from %d to %d", name, way, c.way.From, c.way.To)
					}
				})
				held = append(held, func() {
					if !by.hears(c.name, word, patience) {
						t.Errorf("%s: %v is not heard when all is healed", name, way)
					}
				})
			}
			for _, c := range wires {
				listen(c, c.way, c.to, "a")
				listen(c, Way{c.way.To, c.way.From}, c.from, "b")
			}
			for _, f := range silent {
				f()
			}
			if t.Failed() {
				return
			}
			w.set(nil)
			for _, f := range held {
				f()
			}
			// Acknowledgements too have come, or a connection would send nothing new
			// once its next ones are lost.
			for _, c := range wires {
				c.works()
			}
		}
	})
}

// TestNewConnections: none can be made while either way is cut.
func TestNewConnections(t *testing.T) {
	kinds(t, 2, func(t *testing.T, w *puppets) {
		for name, links := range map[string]Links{"both": Apart(2), "there": OneWay(2, 0, 1), "back": OneWay(2, 1, 0)} {
			w.set(links)
			a, b := w.nodes[0], w.nodes[1]
			got := a.tell("dial %s %s 200ms", name, w.Addr(1))
			switch got {
			case timedOut:
			case "ok": // a proxy answers a call itself, and then nothing comes through
				a.must("ok", "send %s hello", name)
				a.must(timedOut, "hear %s 1 100ms", name)
			default:
				t.Fatalf("%s is cut: %s", name, got)
			}
			w.set(nil)
			if got == "ok" {
				b.must("ok", "accept %s", name)
				b.must("hello", "hear %s 5 %v", name, patience)
			}
			w.connect(0, 1).works()
		}
	})
}

// TestReset: both ends read it, cut or not, idle or busy, with any number of connections; those
// with others go on, and new ones can be made.
func TestReset(t *testing.T) {
	kinds(t, 3, func(t *testing.T, w *puppets) {
		for _, links := range []Links{nil, Apart(3), OneWay(3, 1, 0)} {
			w.set(nil)
			doomed := []wire{w.connect(0, 1), w.connect(1, 0), w.connect(0, 1)}
			others := []wire{w.connect(0, 2), w.connect(2, 1)}
			for _, c := range slices.Concat(doomed, others) {
				c.works()
			}
			w.set(links)
			began := time.Now()
			if err := w.Reset(1, 0); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d connections were reset in %v", len(doomed), time.Since(began))
			for _, c := range doomed {
				c.from.must(wasReset, "hear %s 1 %v", c.name, patience)
				c.to.must(wasReset, "hear %s 1 %v", c.name, patience)
			}
			w.set(nil)
			for _, c := range others {
				c.works()
			}
			w.connect(0, 1).works()
			if err := w.Reset(0, 2); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestResetDualStack: a connection of IPv4 may be on a socket of IPv6.
func TestResetDualStack(t *testing.T) {
	w := newPuppets(t, 2, NewNamespaces)
	w.nodes[1].must("ok", "listen :7401")
	c := wire{name: "c", from: w.nodes[0], to: w.nodes[1]}
	c.from.must("ok", "dial c %s %v", strings.Replace(w.Addr(1), ":7400", ":7401", 1), patience)
	c.to.must("ok", "accept c")
	c.works()
	if err := w.Reset(0, 1); err != nil {
		t.Fatal(err)
	}
	c.from.must(wasReset, "hear c 1 %v", patience)
	c.to.must(wasReset, "hear c 1 %v", patience)
}

// TestResetAmidTraffic: an end whose numbers change all the time is reset, too.
func TestResetAmidTraffic(t *testing.T) {
	kinds(t, 2, func(t *testing.T, w *puppets) {
		var all []wire
		for range 4 {
			c := w.connect(0, 1)
			c.from.must("ok", "chat %s", c.name)
			c.to.must("ok", "chat %s", c.name)
			c.from.must("blah", "hear %s 4 %v", c.name, patience)
			all = append(all, c)
		}
		if err := w.Reset(0, 1); err != nil {
			t.Fatal(err)
		}
		for _, p := range w.nodes {
			eventually(t, func() error {
				if n := p.tell("chatting"); n != "0" {
					return fmt.Errorf("%s of %d go on at %s", n, len(all), p.name)
				}
				return nil
			})
		}
	})
}

// TestResetWhileStopped: unread data is reset, too.
func TestResetWhileStopped(t *testing.T) {
	kinds(t, 2, func(t *testing.T, w *puppets) {
		c := w.connect(0, 1)
		if err := c.to.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		err := w.Reset(0, 1)
		if err := c.to.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.from.must(wasReset, "hear %s 1 %v", c.name, patience)
		c.to.must(wasReset, "hear %s 1 %v", c.name, patience)
	})
}

// TestOperator reaches all, past all faults, at either address.
func TestOperator(t *testing.T) {
	kinds(t, 3, func(t *testing.T, w *puppets) {
		operator := newPuppet(t, "the operator", w.Command(Operator, self(t)))
		w.set(Apart(3))
		for i, node := range w.nodes {
			for n, addr := range []string{w.OperatorAddr(i), w.Addr(i)} {
				c := wire{name: fmt.Sprint("c", n), from: operator, to: node}
				operator.must("ok", "dial %s %s %v", c.name, addr, patience)
				node.must("ok", "accept %s", c.name)
				c.works()
			}
			// And so does a node itself.
			c := wire{name: "own", from: newPuppet(t, "a neighbour", w.Command(i, self(t))), to: node}
			c.from.must("ok", "dial own %s %v", w.Addr(i), patience)
			node.must("ok", "accept own")
			c.works()
		}
	})
}

func TestLoss(t *testing.T) {
	w := newPuppets(t, 3, NewNamespaces)
	const packets = 4000
	sender, receiver := w.nodes[0], w.nodes[1]
	receiver.must("ok", "udp %s", w.Addr(1))
	for _, percent := range []int{0, 10, 50, 90, 100} {
		w.set(Links{{0, 1}: {Loss: percent}})
		want := packets * (100 - percent) / 100
		var got int
		// A busy kernel drops some on its own account, but lets none through.
		for try := 0; try == 0 || got < want-200 && try < 5; try++ {
			sender.must("ok", "burst %s %d packet", w.Addr(1), packets)
			w.nodes[2].must("ok", "burst %s 1 %s", w.Addr(1), lastPacket)
			var err error
			if got, err = strconv.Atoi(receiver.tell("count")); err != nil {
				t.Fatal(err)
			}
		}
		// Five standard deviations are 158 packets at most.
		if got < want-200 || got > want+200 {
			t.Errorf("%d of %d packets arrived with a loss of %d%%; want about %d", got, packets, percent, want)
		}
		t.Logf("loss %d%%: %d of %d arrived", percent, got, packets)
	}
}

// TestLossyConnection: TCP comes through, later.
func TestLossyConnection(t *testing.T) {
	w := newPuppets(t, 2, NewNamespaces)
	c := w.connect(0, 1)
	w.set(Lossy(2, 30))
	for range 8 {
		c.works()
	}
}

func TestDelay(t *testing.T) {
	w := newPuppets(t, 3, NewProxies)
	const delay = 80 * time.Millisecond
	for _, c := range []wire{w.connect(0, 1), w.connect(1, 0)} {
		w.set(Links{{0, 1}: {Delay: delay}})
		took := func(from, to *puppet) time.Duration {
			began := time.Now()
			from.must("ok", "send %s x", c.name)
			to.must("x", "hear %s 1 %v", c.name, patience)
			return time.Since(began)
		}
		a, b := w.nodes[0], w.nodes[1]
		if d := took(a, b); d < delay {
			t.Errorf("from 0 to 1 in %v; want %v or more", d, delay)
		}
		quick := took(b, a)
		for late := time.Now().Add(patience); quick >= delay && time.Now().Before(late); {
			quick = min(quick, took(b, a))
		}
		if quick >= delay {
			t.Errorf("from 1 to 0 in %v at best; want less than %v: that way is not slow", quick, delay)
		}
		w.set(Slow(3, delay/2, delay/4))
		if d := took(b, a); d < delay/2 {
			t.Errorf("from 1 to 0 in %v; want %v or more", d, delay/2)
		}
		w.set(nil)
	}
}

// TestJitter: words over one connection stay in order, and two over different
// connections overtake each other.
func TestJitter(t *testing.T) {
	w := newPuppets(t, 3, NewProxies)
	first, second := w.connect(0, 1), w.connect(0, 2)
	w.set(Slow(3, 0, 50*time.Millisecond))
	overtaken := false
	for n := 0; n < 200 && !overtaken; n++ {
		word := fmt.Sprintf("word%04d", n)
		first.from.must("ok", "send %s %s", first.name, word)
		second.from.must("ok", "send %s %s", second.name, word)
		overtaken = second.to.hears(second.name, word, patience) && !first.to.hears(first.name, word, time.Nanosecond)
		if overtaken {
			first.to.must(word, "hear %s %d %v", first.name, len(word), patience)
		}
	}
	if !overtaken {
		t.Error("of 200 pairs of words over two connections none came in the other order")
	}
}

// TestSet: a change that is impossible changes nothing.
func TestSet(t *testing.T) {
	kinds(t, 2, func(t *testing.T, w *puppets) {
		c := w.connect(0, 1)
		strange := Link{Loss: 5}
		if _, namespaces := w.Network.(*namespaces); namespaces {
			strange = Link{Delay: time.Second}
		}
		for _, links := range []Links{
			{{0, 1}: {Cut: true}, {1, 0}: strange},
			{{0, 1}: {Cut: true}, {1, 0}: {Loss: 101}},
			{{0, 1}: {Cut: true}, {1, 0}: {Loss: -1}},
			{{0, 1}: {Cut: true}, {1, 0}: {Jitter: -1}},
			{{0, 1}: {Cut: true}, {0, 2}: {Cut: true}},
			{{0, 1}: {Cut: true}, {1, 1}: {Cut: true}},
			{{0, 1}: {Cut: true}, {Operator, 1}: {Cut: true}},
		} {
			if err := w.Set(links); err == nil {
				t.Errorf("%v was done", links)
			} else if !strings.HasPrefix(err.Error(), "network: ") {
				t.Errorf("%v: %v", links, err)
			}
		}
		c.works()
		for _, k := range []Link{{}, {Cut: true}} {
			if err := w.Can(k); err != nil {
				t.Errorf("%v: %v", k, err)
			}
		}
		if err := w.Can(strange); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%v: %v", strange, err)
		}
		for _, p := range []Way{{0, 0}, {0, 2}, {-1, 0}} {
			if err := w.Reset(p.From, p.To); err == nil {
				t.Errorf("%v was reset", p)
			}
		}
		if err := w.Reset(0, 1); err != nil {
			t.Error(err)
		}
	})
}

// TestSetIsFast: in a change of all links of five nodes no node notices that it is not one instant.
func TestSetIsFast(t *testing.T) {
	kinds(t, 5, func(t *testing.T, w *puppets) {
		const quick = 20 * time.Millisecond
		// Some changes, and more on a busy machine.
		for late := time.Now().Add(patience); ; {
			var took []time.Duration
			for n := range 50 {
				links := Apart(5)
				if n%2 == 1 {
					links = nil
				}
				began := time.Now()
				w.set(links)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			median := took[len(took)/2]
			t.Logf("a change takes %v, at most %v", median, took[len(took)-1])
			if median <= quick {
				return
			}
			if time.Now().After(late) {
				t.Fatalf("a change takes %v; want %v at most", median, quick)
			}
		}
	})
}

func TestNew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, build := range map[string]func(string, int) (Network, error){"namespaces": NewNamespaces, "proxies": NewProxies} {
		for _, n := range []int{-1, 0, MaxNodes + 1} {
			if _, err := build(t.TempDir(), n); err == nil || errors.Is(err, ErrUnable) {
				t.Errorf("%s of %d nodes: %v", name, n, err)
			}
		}
		if _, err := build(file, 1); err == nil || errors.Is(err, ErrUnable) {
			t.Errorf("%s in a file: %v", name, err)
		}
		if _, err := build(filepath.Join(file, "not"), 1); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("%s nowhere: %v", name, err)
		}
	}
}

// TestClose: nothing is left, and processes that still run have no network any more.
func TestClose(t *testing.T) {
	kinds(t, 2, func(t *testing.T, w *puppets) {
		c := w.connect(0, 1)
		c.works()
		before := resources(t)
		dir := t.TempDir()
		build := NewProxies
		if _, ok := w.Network.(*namespaces); ok {
			build = NewNamespaces
		}
		second, err := build(dir, 2)
		if err != nil {
			t.Fatal(err)
		}
		closed := false
		defer func() {
			if !closed {
				_ = second.Close()
			}
		}()
		if text, err := os.ReadFile(filepath.Join(dir, "network.txt")); err != nil || !strings.Contains(string(text), "node 1") {
			t.Errorf("network.txt: %q, %v", text, err)
		}
		other := &puppets{t: t, Network: second, dir: dir}
		for i := range 2 {
			other.nodes = append(other.nodes, other.puppet(i))
			other.nodes[i].must("ok", "listen %s", second.Listen(i))
		}
		oc := other.connect(0, 1)
		other.set(OneWay(2, 0, 1))
		oc.to.must("ok", "send %s back", oc.name)
		oc.from.must("back", "hear %s 4 %v", oc.name, patience)
		c.works() // two networks do not know of each other
		for range 2 {
			if err := second.Close(); err != nil {
				t.Fatal(err)
			}
		}
		closed = true
		if got := oc.from.tell("dial late %s 200ms", second.Addr(1)); !strings.HasPrefix(got, "error ") {
			t.Errorf("a call after the end: %s", got)
		}
		if err := second.Set(nil); err == nil {
			t.Error("links were set after the end")
		}
		if err := second.Reset(0, 1); err == nil {
			t.Error("connections were reset after the end")
		}
		for _, p := range other.nodes {
			_ = p.in.Close()
			for range p.answers {
			}
			_ = p.cmd.Wait()
		}
		eventually(t, func() error {
			if after := resources(t); after.files > before.files || after.goroutines > before.goroutines {
				buf := make([]byte, 1<<16)
				return fmt.Errorf("%+v before, and %+v after:\n%s", before, after, buf[:runtime.Stack(buf, true)])
			}
			return nil
		})
	})
}

type used struct{ files, goroutines int }

func resources(t *testing.T) used {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return used{len(files), runtime.NumGoroutine()}
}

// TestKilledHarness: no network of a killed harness is left, even while a program of it lives on.
func TestKilledHarness(t *testing.T) {
	w, err := NewNamespaces(t.TempDir(), 1)
	able(t, err)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self(t), t.TempDir())
	cmd.Env = append(os.Environ(), puppetVariable+"=harness")
	harness := start(t, "the harness", cmd)
	if got := <-harness.answers; got != "ok" {
		t.Fatalf("the harness: %q", got)
	}
	if got := harness.tell("interfaces"); !strings.Contains(got, "eth0") {
		t.Fatalf("a program in the network has the interfaces %q; want eth0 among them", got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if got := harness.tell("interfaces"); strings.Contains(got, "eth0") {
			return fmt.Errorf("a program that survived it has the interfaces %q; want eth0 gone", got)
		}
		return nil
	})
}

// doomedHarness makes a network, starts a puppet in it that has this process's
// input and output, and waits to be killed.
func doomedHarness() int {
	w, err := NewNamespaces(os.Args[1], 2)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	cmd := w.Command(0, os.Args[0])
	cmd.Env = append(cmd.Env, puppetVariable+"=yes", "GORACE=atexit_sleep_ms=0")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ok")
	_ = cmd.Wait() // the test ends the puppet, if it does not kill this process before
	return 1
}

// TestStrangers: a process that the network's Command has not started is refused.
func TestStrangers(t *testing.T) {
	w := newPuppets(t, 2, NewProxies)
	foreign := newPuppets(t, 2, NewProxies)
	for name, cmd := range map[string]*exec.Cmd{"of no network": exec.Command(self(t)), "of another network": foreign.Command(0, self(t))} {
		p := newPuppet(t, name, cmd)
		// The reset may come as early as that.
		if got := p.tell("dial c %s %v", w.Addr(1), patience); got == "ok" {
			p.must(wasReset, "hear c 1 %v", patience)
		} else if !strings.Contains(got, "connection reset by peer") {
			t.Errorf("%s dials: %q; want it reset", name, got)
		}
	}
	w.connect(0, 1).works()
	// A child of a node's program calls for that node.
	child := newPuppet(t, "a child", w.Command(0, "/bin/sh", "-c", self(t)+"; exit"))
	w.set(OneWay(2, 0, 1))
	child.must("ok", "dial c %s %v", w.Addr(1), patience)
	child.must(timedOut, "hear c 1 100ms")
	w.set(nil)
	w.nodes[1].must("ok", "accept c")
	wire{name: "c", from: child, to: w.nodes[1]}.works()
}

func eventually(t *testing.T, f func() error) {
	t.Helper()
	late := time.After(patience)
	for tick := time.Tick(5 * time.Millisecond); ; {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick:
		case <-late:
			t.Fatal(err)
		}
	}
}
