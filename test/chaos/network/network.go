//go:build linux

package network

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrUnable says that this kind of network is impossible on this machine. The error around it has
// the reason.
var ErrUnable = errors.New("this kind of network cannot be had here")

// Operator is the number, for [Network.Command], of no node: of an operator
// outside, which reaches all nodes past all faults.
const Operator = -1

// Network is what nodes 0 to Size-1 talk over. It begins perfect.
type Network interface {
	// Size is the number of nodes.
	Size() int

	// Addr is the host and port at which others call node to: the same for all, because memberships
	// carry addresses. It belongs in the list of each node's URL, its own included, and into `elect
	// member add`. The caller is identified by its process, see Command.
	Addr(to int) string

	// Listen is the host and port where node i listens: listen= of its URL. It
	// may be another one than Addr(i).
	Listen(i int) string

	// Hosts are the names and addresses of node i for its certificate.
	Hosts(i int) []string

	// Command prepares a program that runs in node i's network, or, if i is
	// [Operator], in one that reaches all nodes past all faults. The process that is
	// started becomes that program: it has its process id. What the program starts
	// is in the same network. Its Env is set, and may be added to, but not
	// replaced. It panics if there is no such node.
	Command(i int, program string, args ...string) *exec.Cmd

	// OperatorAddr is the host and port at which the operator calls node to.
	OperatorAddr(to int) string

	// Set replaces the state of all links at once. A link that is not in it is perfect from now on.
	// After an error nothing has changed.
	Set(Links) error

	// Can is nil, or the reason why this kind of network cannot do this to a link.
	Can(Link) error

	// Reset resets all connections between two nodes on both sides, as if each had lost its state:
	// a false report of a crash. Both sides read ECONNRESET, cut or not. New connections can be
	// made at once.
	Reset(a, b int) error

	// Close removes the network. Programs that still run in it lose it.
	Close() error
}

// MaxNodes is how many nodes a network can have.
const MaxNodes = 100

// check returns what is wrong with the arguments of a network.
func check(dir string, n int) error {
	if n < 1 || n > MaxNodes {
		return fmt.Errorf("network: %d nodes; want 1 to %d", n, MaxNodes)
	}
	if i, err := os.Stat(dir); err != nil {
		return fmt.Errorf("network: %w", err)
	} else if !i.IsDir() {
		return fmt.Errorf("network: %s is no directory", dir)
	}
	return nil
}

// describe writes into the directory of a run what a person needs to read the logs and to inspect
// the network.
func describe(dir, text string) error {
	if err := os.WriteFile(filepath.Join(dir, "network.txt"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	return nil
}

// mustBe panics if there is no node i, and it is not the operator.
func mustBe(i int, w Network) {
	if i != Operator && (i < 0 || i >= w.Size()) {
		panic(fmt.Sprintf("network: a command in node %d of %d", i, w.Size()))
	}
}

var errClosed = errors.New("network: it is closed")
