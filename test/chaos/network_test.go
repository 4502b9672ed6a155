//go:build linux

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// network is a network of its own for each node: a namespace with one interface,
// on a bridge that stands in a further namespace. What a node drops of what
// arrives is set by nftables, so a one-way cut is one, and nobody is told of it.
type network struct {
	t     *testing.T
	hub   string
	nodes []string // namespaces

	dropped map[way]bool
	loss    int // per cent of all that arrives
}

// way is from one node to another, by their numbers.
type way struct{ from, to int }

// networkPrefix names the namespaces; the id of the test's process follows.
const networkPrefix = "elect-chaos-"

// newNetwork makes a network of n nodes. Where that cannot be done the test is
// skipped, but not in CI: there it must run.
func newNetwork(t *testing.T, n int) *network {
	t.Helper()
	refuse := t.Skipf
	if os.Getenv("CI") == "true" {
		refuse = t.Fatalf
	}
	if os.Geteuid() != 0 {
		refuse("SKIPPED, and so nothing was tested under packet loss: network namespaces are for root")
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			refuse("SKIPPED, and so nothing was tested under packet loss: %v; want the packages iproute2 and nftables", err)
		}
	}
	w := &network{t: t, hub: networkPrefix + strconv.Itoa(os.Getpid()) + "-hub", dropped: map[way]bool{}}
	w.sweep()
	t.Cleanup(w.remove)
	if out, err := exec.Command("ip", "netns", "add", w.hub).CombinedOutput(); err != nil {
		refuse("SKIPPED, and so nothing was tested under packet loss: no network namespaces here: %v: %s", err, out)
	}
	w.ip("-n", w.hub, "link", "add", "br0", "type", "bridge")
	w.ip("-n", w.hub, "link", "set", "br0", "up")
	for i := range n {
		ns := networkPrefix + strconv.Itoa(os.Getpid()) + "-n" + strconv.Itoa(i+1)
		w.ip("netns", "add", ns)
		w.nodes = append(w.nodes, ns)
		port := "port" + strconv.Itoa(i+1)
		w.ip("-n", w.hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", ns)
		w.ip("-n", w.hub, "link", "set", port, "master", "br0", "up")
		w.ip("-n", ns, "link", "set", "lo", "up")
		w.ip("-n", ns, "addr", "add", address(i)+"/24", "dev", "eth0")
		w.ip("-n", ns, "link", "set", "eth0", "up")
		if out, err := w.rules(i); err != nil {
			refuse("SKIPPED, and so nothing was tested under packet loss: no nftables here: %v: %s", err, out)
		}
	}
	return w
}

// address is that of a node.
func address(i int) string { return "10.77.0." + strconv.Itoa(i+1) }

func (w *network) ip(args ...string) {
	w.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		w.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// command runs a program in a node's network. It is that program that has the
// process id, not ip.
func (w *network) command(i int, program string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", w.nodes[i], program}, args...)...)
}

// rules puts into effect what node i drops, at once.
func (w *network) rules(i int) ([]byte, error) {
	var b strings.Builder
	fmt.Fprintln(&b, "table inet chaos {}\nflush table inet chaos\ntable inet chaos {\nchain arrive {\ntype filter hook input priority 0;")
	for from := range w.nodes {
		if w.dropped[way{from, i}] {
			fmt.Fprintf(&b, "ip saddr %s drop\n", address(from))
		}
	}
	if w.loss > 0 {
		fmt.Fprintf(&b, "iifname eth0 numgen random mod 100 < %d drop\n", w.loss)
	}
	fmt.Fprintln(&b, "}\n}")
	cmd := w.command(i, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(b.String())
	return cmd.CombinedOutput()
}

// change changes what is dropped, and puts it into effect everywhere.
func (w *network) change(how func()) {
	w.t.Helper()
	how()
	for i := range w.nodes {
		if out, err := w.rules(i); err != nil {
			w.t.Fatalf("nft for node %d: %v: %s", i+1, err, out)
		}
	}
}

// cut drops what goes from one node to another.
func (w *network) cut(from, to int) { w.dropped[way{from, to}] = true }

// isolate drops all that goes to a node and comes from it.
func (w *network) isolate(i int) {
	for other := range w.nodes {
		if other != i {
			w.cut(i, other)
			w.cut(other, i)
		}
	}
}

// heal drops nothing any more.
func (w *network) heal() {
	w.t.Helper()
	w.change(func() {
		clear(w.dropped)
		w.loss = 0
	})
}

// remove takes the network away. A namespace goes when the last process in it
// has ended.
func (w *network) remove() {
	for _, ns := range append(w.nodes, w.hub) {
		_ = exec.Command("ip", "netns", "del", ns).Run() // it may never have been made
	}
}

// sweep removes what a test that was killed has left.
func (w *network) sweep() {
	list, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		return
	}
	for line := range strings.Lines(string(list)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest, ours := strings.CutPrefix(name, networkPrefix)
		text, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(text)
		if ours && err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			w.ip("netns", "del", name)
		}
	}
}
