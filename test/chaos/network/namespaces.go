//go:build linux

package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The addresses within: each network has all of them to itself.
const (
	subnet       = "10.77.0."
	operatorHost = 254
	peerPort     = 7400
)

// namespaces are a network namespace for each node, with one interface that ends at
// a bridge in a further one, the hub. What the bridge drops of what it forwards is
// set by nftables. The operator is in the hub, whose own packets are not forwarded.
type namespaces struct {
	hub   space
	nodes []space
	rules *rules
	looks []*diagnosis // one a node

	mu     sync.Mutex // of changes
	closed bool
}

// NewNamespaces makes a network namespace for each of n nodes, joined by veth pairs and a bridge,
// and writes into dir how to enter them. It can cut and lose packets; it cannot delay them. It
// requires root, iproute2 and util-linux, and nftables in the kernel; without these it is
// [ErrUnable].
//
// The namespaces have no names. They last until Close, or until this process has
// ended, and the programs in them too: a run that was killed leaves none behind.
func NewNamespaces(dir string, n int) (Network, error) {
	if err := check(dir, n); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("network: %w: network namespaces are for root", ErrUnable)
	}
	for tool, pack := range map[string]string{"ip": "iproute2", "nsenter": "util-linux"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("network: %w: %w; want the package %s", ErrUnable, err, pack)
		}
	}
	w := &namespaces{}
	if err := w.build(n); err != nil {
		return nil, errors.Join(fmt.Errorf("network: %w: %w", ErrUnable, err), w.Close())
	}
	if err := w.describe(dir); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *namespaces) build(n int) (err error) {
	if w.hub, err = newSpace(); err != nil {
		return err
	}
	if err := w.hub.do(func() error {
		err := ip("link add br0 type bridge", "addr add "+subnet+strconv.Itoa(operatorHost)+"/24 dev br0", "link set br0 up", "link set lo up")
		if err == nil {
			w.rules, err = newRules()
		}
		return err
	}); err != nil {
		return err
	}
	for i := range n {
		s, err := newSpace()
		if err != nil {
			return err
		}
		w.nodes = append(w.nodes, s)
		port := "port" + strconv.Itoa(i)
		if err := w.hub.do(func() error {
			return ip("link add "+port+" type veth peer name eth0 netns "+s.path(), "link set "+port+" master br0 up")
		}); err != nil {
			return err
		}
		if err := s.do(func() error { return w.furnish(i) }); err != nil {
			return err
		}
	}
	return nil
}

// furnish configures node i's namespace; it is called within.
func (w *namespaces) furnish(i int) error {
	if err := ip("link set lo up", "addr add "+w.host(i).String()+"/24 dev eth0", "link set eth0 up"); err != nil {
		return err
	}
	// The resetter asks a connection for its numbers again and again.
	if err := os.WriteFile("/proc/sys/net/ipv4/tcp_invalid_ratelimit", []byte("0"), 0); err != nil {
		return err
	}
	d, err := openDiagnosis()
	w.looks = append(w.looks, d)
	return err
}

// ip runs commands of ip(8) in the namespace of the calling thread.
func ip(commands ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(commands, "; ip "), err, out)
	}
	return nil
}

// describe writes, into the run's directory, how to inspect the network.
func (w *namespaces) describe(dir string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "namespaces of process %d, as long as it lives\n", os.Getpid())
	line := func(name string, host string, s space) {
		fmt.Fprintf(&b, "%-8s %-12s nsenter --net=%s\n", name, host, s.path())
	}
	for i, s := range w.nodes {
		line("node "+strconv.Itoa(i), w.host(i).String(), s)
	}
	line("operator", subnet+strconv.Itoa(operatorHost), w.hub)
	return describe(dir, b.String())
}

func (w *namespaces) host(i int) netip.Addr {
	return netip.MustParseAddr(subnet + strconv.Itoa(i+1))
}

func (w *namespaces) Size() int { return len(w.nodes) }

func (w *namespaces) Addr(to int) string {
	return net.JoinHostPort(w.host(to).String(), strconv.Itoa(peerPort))
}

func (w *namespaces) Listen(i int) string { return w.Addr(i) }

func (w *namespaces) OperatorAddr(to int) string { return w.Addr(to) }

func (w *namespaces) Hosts(i int) []string { return []string{w.host(i).String()} }

func (w *namespaces) Command(i int, program string, args ...string) *exec.Cmd {
	mustBe(i, w)
	s := w.hub
	if i != Operator {
		s = w.nodes[i]
	}
	// nsenter without --fork becomes the program.
	cmd := exec.Command("nsenter", append([]string{"--net=" + s.path(), "--", program}, args...)...)
	cmd.Env = os.Environ()
	return cmd
}

func (w *namespaces) Can(k Link) error {
	if k.Delay != 0 || k.Jitter != 0 {
		return fmt.Errorf("network: %v: namespaces carry packets in the kernel, which delays none without netem; want proxies for delay and jitter", k)
	}
	return k.check()
}

func (w *namespaces) Set(links Links) error {
	if err := links.check(w); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errClosed
	}
	if err := w.rules.set(links, w.host); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	return nil
}

func (w *namespaces) Reset(a, b int) error {
	if err := pair(w.Size(), a, b); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errClosed
	}
	if err := w.reset(a, b); err != nil {
		return fmt.Errorf("network: resetting what connects node %d and node %d: %w", a, b, err)
	}
	return nil
}

func (w *namespaces) reset(a, b int) error {
	all, err := w.between(a, b)
	if err != nil || len(all) == 0 {
		return err
	}
	doomed := map[uint64]bool{}
	for _, e := range all {
		doomed[e.cookie] = true
	}
	return w.hub.do(func() error {
		return resetAll(func() ([]end, error) {
			left, err := w.between(a, b)
			return slices.DeleteFunc(left, func(e end) bool { return !doomed[e.cookie] }), err
		})
	})
}

// between are both ends of all connections of two nodes.
func (w *namespaces) between(a, b int) ([]end, error) {
	var all []end
	for _, way := range []Way{{a, b}, {b, a}} {
		ends, err := w.looks[way.From].all()
		if err != nil {
			return nil, fmt.Errorf("the connections of node %d: %w", way.From, err)
		}
		for _, e := range ends {
			// One that no process has any more needs no reset, but it may be one
			// that was not accepted yet.
			alive := e.inode != 0 || e.state == established || e.state == closeWait
			if alive && e.remote.Addr() == w.host(way.To) {
				all = append(all, e)
			}
		}
	}
	return all, nil
}

func (w *namespaces) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	errs := []error{w.rules.close()}
	for _, d := range w.looks {
		errs = append(errs, d.close())
	}
	// With one end of a pair the other one is gone, even if processes still run there.
	if w.hub.file != nil {
		errs = append(errs, w.hub.do(func() error {
			list, err := net.Interfaces()
			if err != nil {
				return err
			}
			var commands []string
			for _, i := range list {
				if i.Name != "lo" {
					commands = append(commands, "link del "+i.Name)
				}
			}
			return ip(commands...)
		}))
	}
	for _, s := range slices.Concat(w.nodes, []space{w.hub}) {
		errs = append(errs, s.close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("network: closing it: %w", err)
	}
	return nil
}
