package zookeeper

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// hosts are the servers to which a client connects. Their names are looked up again each time when all addresses were
// tried. The last one that it was connected to comes last. It implements zk.HostProvider.
type hosts struct {
	all []string // each with a port

	mu    sync.Mutex
	left  []string
	names map[string]string // by address
	tried bool              // since the last connection
	next  string            // what Next has returned
	last  string            // to which it was connected

	failed chan struct{} // closed when none could be connected to
}

// Init implements zk.HostProvider. The servers are known already.
func (*hosts) Init([]string) error { return nil }

// Len implements zk.HostProvider.
func (h *hosts) Len() int { return len(h.all) }

// Next implements zk.HostProvider.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.left) == 0 {
		if retryStart = h.tried; retryStart && h.failed != nil {
			close(h.failed)
			h.failed = nil
		}
		h.tried = true
		h.look()
	}
	h.next, h.left = h.left[0], h.left[1:]
	return h.next, retryStart
}

// Connected implements zk.HostProvider.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried, h.last = false, h.next
}

// name is the name of the server at an address, as it was given.
func (h *hosts) name(address string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.names[address]
}

// look looks the names up. One that is not found is tried as it is, so that dialing says what is wrong.
func (h *hosts) look() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	h.names = map[string]string{}
	for _, server := range h.all {
		name, port, _ := net.SplitHostPort(server)
		found, err := net.DefaultResolver.LookupHost(ctx, name)
		if err != nil {
			found = []string{name}
		}
		for _, at := range found {
			address := net.JoinHostPort(at, port)
			if _, twice := h.names[address]; !twice {
				h.left = append(h.left, address)
			}
			h.names[address] = name
		}
	}
	rand.Shuffle(len(h.left), func(i, j int) { h.left[i], h.left[j] = h.left[j], h.left[i] })
	if i := slices.Index(h.left, h.last); i >= 0 {
		h.left = append(slices.Delete(h.left, i, i+1), h.last)
	}
}
