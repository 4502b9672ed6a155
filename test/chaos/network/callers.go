//go:build linux

package network

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// callerVariable names, in the environment of a process, the node and the network for which it
// calls.
const callerVariable = "CHAOS_CALLER"

// callers finds the node that calls, by the process that has the calling socket: on
// loopback all nodes have one address.
type callers struct {
	network string // an address that no other network has
	look    *diagnosis

	mu    sync.Mutex
	known map[int]int // the node, by process id; some may be gone
}

func newCallers(network string) (*callers, error) {
	d, err := openDiagnosis()
	if err != nil {
		return nil, err
	}
	return &callers{network: network, look: d, known: map[int]int{}}, nil
}

// mark is what the environment of node i's programs has.
func (c *callers) mark(i int) string { return callerVariable + "=" + c.network + "/" + strconv.Itoa(i) }

// errStranger is for a process outside this network.
var errStranger = errors.New("no process of this network")

// who returns the node, or the operator, that has made an accepted connection.
func (c *callers) who(accepted net.Conn) (int, error) {
	from, err := netip.ParseAddrPort(accepted.RemoteAddr().String())
	if err != nil {
		return noCaller, err
	}
	to, err := netip.ParseAddrPort(accepted.LocalAddr().String())
	if err != nil {
		return noCaller, err
	}
	e, err := c.look.at(from, to)
	switch {
	case errors.Is(err, unix.ENOENT) || err == nil && e.inode == 0:
		return noCaller, fmt.Errorf("%w: the caller has closed it", errStranger)
	case err != nil:
		return noCaller, fmt.Errorf("the kernel does not name the owner of %v: %w", from, err)
	}
	socket := "socket:[" + strconv.FormatUint(uint64(e.inode), 10) + "]"
	c.mu.Lock()
	defer c.mu.Unlock()
	for pid, node := range c.known {
		// A process id may belong to another process by now.
		if holds(strconv.Itoa(pid), socket) && c.marked(pid) == node {
			return node, nil
		}
	}
	if node, err := c.search(socket); err != nil || node != noCaller {
		return node, err
	}
	if holds("self", socket) {
		return Operator, nil
	}
	return noCaller, errStranger
}

// search looks at all processes, and remembers those of this network. It returns
// noCaller if none has the socket.
func (c *callers) search(socket string) (int, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return noCaller, err
	}
	clear(c.known)
	found := noCaller
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		node := c.marked(pid)
		if node == noCaller {
			continue
		}
		c.known[pid] = node
		if found == noCaller && holds(d.Name(), socket) {
			found = node
		}
	}
	return found, nil
}

// noCaller is neither a node nor the operator.
const noCaller = Operator - 1

// marked is the node for which a process calls.
func (c *callers) marked(pid int) int {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return noCaller // it has ended, or is another user's
	}
	node := noCaller
	for pair := range bytes.SplitSeq(env, []byte{0}) {
		if who, ok := strings.CutPrefix(string(pair), callerVariable+"="+c.network+"/"); ok {
			if i, err := strconv.Atoi(who); err == nil {
				node = i // the last one counts, as for os/exec
			}
		}
	}
	return node
}

// holds reports whether a process has a socket.
func holds(pid, socket string) bool {
	dir := filepath.Join("/proc", pid, "fd")
	files, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, f := range files {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && to == socket {
			return true
		}
	}
	return false
}

func (c *callers) close() error { return c.look.close() }
