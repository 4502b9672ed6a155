//go:build linux

package network

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect/internal/cable"
)

// proxies are a network on loopback. Others call a node at its front, which finds
// the caller and hands the connection to the cable from that node, or to one
// that is never broken if it is the operator, or the node itself.
type proxies struct {
	block  string // 127.A.B, and a port: of this network alone
	port   int
	fronts []net.Listener
	cables map[Way]*cable.Cable // From may be the operator, and To itself
	who    *callers
	ctx    context.Context // ended by Close
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex // of changes
	closed bool
}

// The last numbers of addresses within a block of 127.0.0.0/8.
const (
	firstNode  = 1   // where nodes listen
	firstFront = 101 // where they are called
)

// Ports are below those that the kernel gives to outgoing connections.
const firstPort, lastPort = 10_000, 32_000

// NewProxies makes a network of n nodes on loopback, and writes the addresses
// of the nodes into dir. It can cut and delay; it cannot lose single packets, because
// it carries streams. It needs no privileges.
//
// A caller is identified by its process: programs must be started with [Network.Command], and
// others are refused. The process that made the network is taken for the operator.
//
// It lasts as long as this process. See package cable for what a proxy cannot show.
func NewProxies(dir string, n int) (Network, error) {
	if err := check(dir, n); err != nil {
		return nil, err
	}
	w := &proxies{cables: map[Way]*cable.Cable{}}
	w.ctx, w.stop = context.WithCancel(context.Background())
	if err := w.build(dir, n); err != nil {
		return nil, errors.Join(fmt.Errorf("network: %w", err), w.Close())
	}
	return w, nil
}

func (w *proxies) build(dir string, n int) (err error) {
	if err := w.settle(n); err != nil {
		return err
	}
	if w.who, err = newCallers(w.block); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "proxies of process %d, as long as it lives\n", os.Getpid())
	for to := range n {
		fmt.Fprintf(&b, "node %-4d listens at %s and is called at %s\n", to, w.Listen(to), w.Addr(to))
		for from := Operator; from < n; from++ {
			if w.cables[Way{from, to}], err = cable.Loose(w.Listen(to)); err != nil {
				delete(w.cables, Way{from, to})
				return err
			}
		}
	}
	if err := describe(dir, b.String()); err != nil {
		return err
	}
	for to, front := range w.fronts {
		w.work.Go(func() { w.accept(to, front) })
	}
	return nil
}

// settle finds a block of addresses that no other network has. A network that has a
// block's fronts has all of it.
func (w *proxies) settle(n int) error {
	var last error
	for range 100 {
		w.block, w.port = fmt.Sprintf("127.%d.%d", 1+rand.IntN(254), rand.IntN(256)), firstPort+rand.IntN(lastPort-firstPort)
		for i := range n {
			var front net.Listener
			if front, last = net.Listen("tcp4", w.Addr(i)); last != nil {
				break
			}
			w.fronts = append(w.fronts, front)
		}
		if last == nil {
			return nil
		}
		for _, front := range w.fronts {
			last = errors.Join(last, front.Close())
		}
		w.fronts = nil
	}
	return fmt.Errorf("no free addresses on loopback: %w", last)
}

// accept hands over the callers of a node, until Close.
func (w *proxies) accept(to int, front net.Listener) {
	for {
		conn, err := front.Accept()
		if err != nil {
			// Probably out of descriptors, if it is not closed.
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-w.ctx.Done():
				return
			}
		}
		w.work.Go(func() {
			from, err := w.who.who(conn)
			c := w.cables[Way{from, to}]
			if err != nil || c == nil {
				reset(conn)
				return
			}
			c.Carry(conn)
		})
	}
}

func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

func (w *proxies) at(number int) string {
	return net.JoinHostPort(w.block+"."+strconv.Itoa(number), strconv.Itoa(w.port))
}

func (w *proxies) Size() int { return len(w.fronts) }

func (w *proxies) Addr(to int) string { return w.at(firstFront + to) }

func (w *proxies) Listen(i int) string { return w.at(firstNode + i) }

func (w *proxies) OperatorAddr(to int) string { return w.Listen(to) }

func (w *proxies) Hosts(i int) []string {
	return []string{w.block + "." + strconv.Itoa(firstFront+i), w.block + "." + strconv.Itoa(firstNode+i)}
}

func (w *proxies) Command(i int, program string, args ...string) *exec.Cmd {
	mustBe(i, w)
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), w.who.mark(i))
	return cmd
}

func (w *proxies) Can(k Link) error {
	if k.Loss != 0 {
		return fmt.Errorf("network: %v: a proxy carries streams, of which nothing can be lost that is not sent again; want namespaces for loss, or a cut, or jitter", k)
	}
	return k.check()
}

func (w *proxies) Set(links Links) error {
	if err := links.check(w); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errClosed
	}
	way := func(from, to int) cable.Way {
		k := links[Way{from, to}]
		return cable.Way{Cut: k.Cut, Delay: k.Delay, Jitter: k.Jitter}
	}
	for c, wire := range w.cables { // those of the operator, and of a node with itself, are never in links
		wire.Set(way(c.From, c.To), way(c.To, c.From)) // what comes back over it goes the other way
	}
	return nil
}

func (w *proxies) Reset(a, b int) error {
	if err := pair(w.Size(), a, b); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errClosed
	}
	w.cables[Way{a, b}].Reset()
	w.cables[Way{b, a}].Reset()
	return nil
}

func (w *proxies) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	w.stop()
	var errs []error
	for _, front := range w.fronts {
		errs = append(errs, front.Close())
	}
	for _, c := range w.cables {
		errs = append(errs, c.Close())
	}
	w.work.Wait()
	if w.who != nil {
		errs = append(errs, w.who.close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("network: closing it: %w", err)
	}
	return nil
}
