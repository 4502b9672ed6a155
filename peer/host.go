package peer

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/place"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/disk"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// A host is what the elections of one process have in common that are opened with one
// id, one listening address and one directory: its connections, of which there is one
// with each other host, and how it is known there. The first election makes it, and
// the last one that is closed ends it.
//
// What a node needs of a host is a links, so that tests can have others.

// sharedHost is one of them.
type sharedHost struct {
	id      protocol.NodeID
	cluster string
	addr    string // where it listens; "" if it does not
	path    string // its directory
	shown   string // which certificate it shows, or none
	given   net.Listener
	link    *link.Link
	lines   *lines // nil: nothing is logged

	// Beneath the lock of hosts:
	users int           // elections
	busy  chan struct{} // it is being opened or closed, until this is closed; else nil
}

// hosts are those of this process. A second election is opened by the same call as the
// first one, with nothing in it that they share: hence a variable of the package.
var hosts struct {
	sync.Mutex
	all []*sharedHost
}

// hostPlace is where a host's directory is, for a participant whose data directory is at.
func hostPlace(at place.At) place.At {
	at.Below = at.Below[:1]
	return at
}

// shown is which certificate a participant shows, in words.
func (c *setup) shown() string {
	switch {
	case c.own != "":
		return "certificates of the user's own in " + c.own
	case c.Certs != "":
		return "certs=" + c.Certs
	case c.CA != "":
		return fmt.Sprintf("ca=%s, cert=%s, key=%s", c.CA, c.Cert, c.Key)
	}
	return "no certificate"
}

// knowHost says why the election cannot have the host that its configuration belongs
// to, before anything is made for it, or how that host is known, if it is to be opened.
func (n *Node) knowHost(ctx context.Context) (disk.Host, error) {
	if h, err := n.findHost(ctx, disk.Host{}, false); h != nil || err != nil {
		return disk.Host{}, err
	}
	known, err := disk.OpenHost(ctx, hostPlace(n.at), n.cfg.Cluster, n.cfg.ID)
	return known, permanentOfDisk(err)
}

// shareHost takes part in the host that the configuration belongs to, and opens it if
// there is none. leave is to be called once, when the election has left.
func (n *Node) shareHost(ctx context.Context, known disk.Host) (*sharedHost, error) {
	return n.findHost(ctx, known, true)
}

func (n *Node) findHost(ctx context.Context, known disk.Host, listens bool) (*sharedHost, error) {
	c := &n.cfg
	own := &sharedHost{
		id: c.ID, cluster: c.Cluster, addr: c.listen(), path: hostPlace(n.at).String(), shown: c.shown(), given: c.Listener,
		users: 1, busy: make(chan struct{}),
	}
	for {
		hosts.Lock()
		i := slices.IndexFunc(hosts.all, own.meets)
		if i < 0 {
			if !listens {
				hosts.Unlock()
				return nil, nil
			}
			hosts.all = append(hosts.all, own)
			hosts.Unlock()
			err := own.open(ctx, n, known)
			own.settle(err != nil)
			return own, err
		}
		h := hosts.all[i]
		if wait := h.busy; wait != nil {
			hosts.Unlock()
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		says := h.differs(own)
		if says == "" && listens {
			h.users++
		}
		hosts.Unlock()
		if says != "" {
			return nil, driver.Permanent(fmt.Errorf("this process has a node %s for another election, and the election %q cannot share it: %s; want the same of both, or another address and data directory",
				h.where(), c.Name, says))
		}
		return h, nil
	}
}

// meets reports whether two hosts of one process would be at one place.
func (h *sharedHost) meets(o *sharedHost) bool {
	return h.addr == o.addr && (h.addr != "" || h.id == o.id && h.path == o.path)
}

func (h *sharedHost) where() string {
	if h.addr == "" {
		return "with its data in " + h.path
	}
	return "at " + h.addr
}

// differs says in what another one, which would be at the same place, is not the same.
func (h *sharedHost) differs(o *sharedHost) string {
	for _, f := range []struct{ what, has, wants string }{
		{"id", string(h.id), string(o.id)},
		{"cluster", h.cluster, o.cluster},
		{"data", filepath.Dir(h.path), filepath.Dir(o.path)},
		{"certificate", h.shown, o.shown},
	} {
		if f.has != f.wants {
			return fmt.Sprintf("its %s is %s there, and %s here", f.what, f.has, f.wants)
		}
	}
	if o.given != nil && o.given != h.given {
		return "it has a Listener of its own"
	}
	return ""
}

// open listens.
func (h *sharedHost) open(ctx context.Context, n *Node, known disk.Host) (err error) {
	c := &n.cfg
	if known.Starts == 0 { // there was a host a moment ago
		if known, err = disk.OpenHost(ctx, hostPlace(n.at), c.Cluster, c.ID); err != nil {
			return permanentOfDisk(err)
		}
	}
	listener, err := n.listen(ctx)
	if err != nil {
		return err
	}
	var log *slog.Logger
	if c.Logger != nil {
		h.lines, log = startLines(c.Logger)
	}
	h.link = link.Listen(link.HostConfig{
		Hello: helloOf(c, known), Listener: listener, TLS: n.tls, Look: c.look, Idle: n.idle(), Dial: c.dial, Logger: log,
	})
	return nil
}

// settle ends the opening or the closing of a host, which is over if it is gone.
func (h *sharedHost) settle(gone bool) {
	hosts.Lock()
	defer hosts.Unlock()
	if gone {
		hosts.all = slices.DeleteFunc(hosts.all, func(o *sharedHost) bool { return o == h })
	}
	close(h.busy)
	h.busy = nil
}

// leave closes the host if no other election uses it. What is queued is written first.
func (h *sharedHost) leave() {
	hosts.Lock()
	h.users--
	last := h.users == 0
	if last {
		h.busy = make(chan struct{})
	}
	hosts.Unlock()
	if !last {
		return
	}
	_ = h.link.Close()
	if h.lines != nil {
		h.lines.close()
	}
	h.settle(true)
}

// permanentOfDisk marks the errors of package disk that nothing but another
// configuration or directory mends.
func permanentOfDisk(err error) error {
	_, lost := errors.AsType[*disk.Refused](err)
	if _, ok := errors.AsType[*place.Refused](err); ok || lost {
		return driver.Permanent(err)
	}
	return err
}

// helloOf is what a host says first to whom it meets.
func helloOf(c *setup, known disk.Host) wire.Hello {
	return wire.Hello{
		Version: wire.Version, Oldest: wire.Oldest, Caller: wire.Node, Cluster: c.Cluster,
		ID: c.ID, Dir: known.Dir, Starts: known.Starts, Life: newLife(), Program: c.Program,
	}
}

// newLife is the random number of a process.
func newLife() uint64 {
	var life [8]byte
	_, _ = crand.Read(life[:]) // it never fails
	return binary.LittleEndian.Uint64(life[:])
}

// hosted are the links of one election at a host.
type hosted struct {
	*link.Election
	host *sharedHost
}

// Close implements links.
func (l hosted) Close() error {
	err := l.Election.Close()
	l.host.leave()
	return err
}
