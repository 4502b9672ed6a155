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

// A host is what the elections of one process share if they have the same id, listening address and directory: its
// connections, one with each other host, and its identity. The first election makes it, and it ends when the last one
// is closed.
//
// A node uses its host through links, so that tests can replace it.

// sharedHost is one host of this process.
type sharedHost struct {
	id      protocol.NodeID
	cluster string
	addr    string // the listening address; "" if it does not listen
	path    string // its directory
	shown   string // the certificate that it shows, in words
	given   net.Listener
	link    *link.Link
	lines   *lines // nil: nothing is logged

	// Guarded by the lock of hosts:
	users int           // elections
	busy  chan struct{} // not nil while it is being opened or closed, which ends when this is closed
}

// hosts are those of this process. It is a variable of the package because the elections that share a host are opened
// by independent calls, with no common argument.
var hosts struct {
	sync.Mutex
	all []*sharedHost
}

// hostPlace returns the directory of the host of a participant whose data directory is at.
func hostPlace(at place.At) place.At {
	at.Below = at.Below[:1]
	return at
}

// shown says in words which certificate a participant shows.
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

// knowHost returns an error if the election cannot use the host of its configuration, before anything is made for it.
// Otherwise it returns the identity of that host, for opening it.
func (f *facts) knowHost(ctx context.Context) (disk.Host, error) {
	if h, err := f.findHost(ctx, disk.Host{}, false); h != nil || err != nil {
		return disk.Host{}, err
	}
	known, err := disk.OpenHost(ctx, hostPlace(f.at), f.cfg.Cluster, f.cfg.ID)
	return known, permanentOfDisk(err)
}

// findHost finds the host of the configuration; nil if there is none and listens is false. If it listens, the election
// joins that host, which is opened if there is none, and the caller must call leave once, when the election has left.
func (f *facts) findHost(ctx context.Context, known disk.Host, listens bool) (*sharedHost, error) {
	c := &f.cfg
	own := &sharedHost{
		id: c.ID, cluster: c.Cluster, addr: c.listen(), path: hostPlace(f.at).String(), shown: c.shown(), given: c.Listener,
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
			err := own.open(ctx, f, known)
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

// meets reports whether two hosts of one process would use the same place.
func (h *sharedHost) meets(o *sharedHost) bool {
	return h.addr == o.addr && (h.addr != "" || h.id == o.id && h.path == o.path)
}

func (h *sharedHost) where() string {
	if h.addr == "" {
		return "with its data in " + h.path
	}
	return "at " + h.addr
}

// differs names the setting in which another host at the same place differs.
func (h *sharedHost) differs(o *sharedHost) string {
	for _, s := range []struct{ what, has, wants string }{
		{"id", string(h.id), string(o.id)},
		{"cluster", h.cluster, o.cluster},
		{"data", filepath.Dir(h.path), filepath.Dir(o.path)},
		{"certificate", h.shown, o.shown},
	} {
		if s.has != s.wants {
			return fmt.Sprintf("its %s is %s there, and %s here", s.what, s.has, s.wants)
		}
	}
	if o.given != nil && o.given != h.given {
		return "it has a Listener of its own"
	}
	return ""
}

// open starts to listen.
func (h *sharedHost) open(ctx context.Context, f *facts, known disk.Host) (err error) {
	c := &f.cfg
	if known.Starts == 0 { // the host existed a moment ago
		if known, err = disk.OpenHost(ctx, hostPlace(f.at), c.Cluster, c.ID); err != nil {
			return permanentOfDisk(err)
		}
	}
	listener, err := f.cfg.open(ctx)
	if err != nil {
		return err
	}
	var log *slog.Logger
	if c.Logger != nil {
		h.lines, log = startLines(c.Logger)
	}
	h.link = link.Listen(link.HostConfig{
		Hello: helloOf(c, known), Listener: listener, TLS: f.tls, Look: c.look, Idle: f.idle(), Dial: c.dial, Logger: log,
	})
	return nil
}

// open opens the port, if one is configured.
func (c *setup) open(ctx context.Context) (net.Listener, error) {
	addr := c.listen()
	if c.Listener != nil {
		return c.Listener, nil
	}
	if addr == "" {
		return nil, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s cannot listen on %s: %w; want a free port on an address of this machine: the own one in the list, or listen=ADDR", c.ID, addr, err)
	}
	return l, nil
}

// settle ends the opening or the closing of a host. gone means that the host is no more.
func (h *sharedHost) settle(gone bool) {
	hosts.Lock()
	defer hosts.Unlock()
	if gone {
		hosts.all = slices.DeleteFunc(hosts.all, func(o *sharedHost) bool { return o == h })
	}
	close(h.busy)
	h.busy = nil
}

// leave closes the host if no other election uses it. It writes what is queued first.
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
	h.lines.close()
	h.settle(true)
}

// permanentOfDisk marks the errors of package disk that only another configuration or directory mends.
func permanentOfDisk(err error) error {
	_, lost := errors.AsType[*disk.Refused](err)
	if _, ok := errors.AsType[*place.Refused](err); ok || lost {
		return driver.Permanent(err)
	}
	return err
}

// helloOf is the first message of a host on each connection.
func helloOf(c *setup, known disk.Host) wire.Hello {
	return wire.Hello{
		Version: wire.Version, Oldest: wire.Oldest, Caller: wire.Node, Cluster: c.Cluster,
		ID: c.ID, Dir: known.Dir, Starts: known.Starts, Life: newLife(), Program: c.Program,
	}
}

// newLife returns the random number of a process.
func newLife() uint64 {
	var life [8]byte
	_, _ = crand.Read(life[:]) // it never fails
	return binary.LittleEndian.Uint64(life[:])
}

// hosted is the links of one election at a host.
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
