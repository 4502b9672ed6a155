package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"sync"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/dial"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// codeStream means that a node takes no streams of a protocol.
const codeStream = "stream"

// streams are those that a node takes: of a group, for example.
type streams struct {
	mu  sync.Mutex
	all map[string]*taker // by protocol
}

// taker takes the streams of one protocol.
type taker struct {
	take func(driver.Stream)
	work sync.WaitGroup
	open map[net.Conn]struct{} // guarded by the lock of streams
	over bool
}

var (
	_ driver.Streamer = (*Node)(nil)
	_ driver.Streamer = (*Client)(nil)
)

// Streams implements [driver.Streamer].
func (n *Node) Streams() driver.StreamInfo {
	info := driver.StreamInfo{ID: string(n.cfg.ID), Addr: n.cfg.listen(), Key: n.cfg.access().marshal()}
	known := slices.Concat(n.membership.voters(), n.cfg.Voters, n.cfg.Observers)
	if p := find(known, n.cfg.ID); p != nil && p.Addr != "" && info.Addr != "" {
		info.Addr = p.Addr
	}
	return info
}

// TakeStreams implements [driver.Streamer].
func (n *Node) TakeStreams(protocol string, take func(driver.Stream)) (stop func(), err error) {
	s := &n.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[protocol] != nil {
		return nil, fmt.Errorf("the node %s takes streams of %q in the election %s already; want one taker", n.cfg.ID, protocol, n.cfg.Name)
	}
	t := &taker{take: take, open: map[net.Conn]struct{}{}}
	if s.all == nil {
		s.all = map[string]*taker{}
	}
	s.all[protocol] = t
	return func() {
		s.mu.Lock()
		if s.all[protocol] == t {
			delete(s.all, protocol)
		}
		t.over = true
		for c := range t.open {
			_ = c.Close()
		}
		s.mu.Unlock()
		t.work.Wait()
	}, nil
}

// stream returns what takes a stream of a caller.
func (n *Node) stream(from link.Caller, protocol string) (func(net.Conn), *link.CallError) {
	s := &n.streams
	s.mu.Lock()
	t := s.all[protocol]
	s.mu.Unlock()
	if t == nil {
		return nil, &link.CallError{Code: codeStream, Says: fmt.Sprintf("%s takes part in the election %s, and has no %s in it at present; want one with all participants of this election",
			n.cfg.ID, n.cfg.Name, protocol)}
	}
	as := driver.Stream{ID: string(from.ID), Any: n.tls == nil || n.cfg.own != "", ReadOnly: from.Role == certs.Observe}
	return func(c net.Conn) {
		s.mu.Lock()
		over := t.over
		if !over {
			t.open[c] = struct{}{}
			t.work.Add(1)
		}
		s.mu.Unlock()
		if over {
			_ = c.Close()
			return
		}
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(t.open, c)
			t.work.Done()
		}()
		as.Conn = c
		t.take(as)
	}, nil
}

// OpenStream implements [driver.Streamer]. It tries the addresses that this node has for the other one, and then addr.
func (n *Node) OpenStream(ctx context.Context, proto, from, to, addr string) (net.Conn, error) {
	if from != string(n.cfg.ID) {
		return nil, fmt.Errorf("this node is %s, and opens no stream as %q; want its own id", n.cfg.ID, from)
	}
	return n.cfg.openStream(ctx, n.tls, proto, to, append(n.contacts.places(protocol.NodeID(to)), addr))
}

// Streams implements [driver.Streamer].
func (c *Client) Streams() driver.StreamInfo {
	info := driver.StreamInfo{Key: c.cfg.access().marshal()}
	if c.tls != nil && c.cfg.own == "" {
		id, err := c.cfg.access().identity(c.cfg.Client)
		info.Asks = err != nil || id.ID != c.cfg.Client
	}
	return info
}

// TakeStreams implements [driver.Streamer]. A client does not listen, and takes none.
func (c *Client) TakeStreams(string, func(driver.Stream)) (stop func(), err error) {
	return func() {}, nil
}

// OpenStream implements [driver.Streamer]. It shows the certificate of from, if there is one, and else that of the
// client.
func (c *Client) OpenStream(ctx context.Context, proto, from, to, addr string) (net.Conn, error) {
	id, err := c.cfg.access().identity(from)
	if errors.Is(err, fs.ErrNotExist) {
		id, err = c.identify()
	}
	if err != nil {
		return nil, err
	}
	addrs := []string{addr}
	if p := find(c.nodes, protocol.NodeID(to)); p != nil {
		addrs = []string{p.Addr, addr}
	}
	return c.cfg.openStream(ctx, id, proto, to, addrs)
}

// openStream opens a stream at the first address that answers.
func (c *setup) openStream(ctx context.Context, id *certs.Identity, proto, to string, addrs []string) (net.Conn, error) {
	cfg := link.ClientConfig{
		Hello: wire.Hello{Version: wire.Version, Oldest: wire.Oldest, Caller: wire.ClientOf, Cluster: c.Cluster, Life: newLife(), Program: c.Program},
		About: c.Name, TLS: id, Expect: protocol.NodeID(to), Dial: c.dial,
	}
	if f := dial.Of(ctx); f != nil {
		cfg.Dial = f
	}
	var err error
	for i, addr := range addrs {
		if addr == "" || slices.Contains(addrs[:i], addr) {
			continue
		}
		within, stop := context.WithTimeoutCause(ctx, dialLimit, fmt.Errorf("no answer within %v", dialLimit))
		cfg.Addr = addr
		nc, failed := link.OpenStream(within, cfg, proto)
		failed = because(within, failed)
		stop()
		if failed == nil {
			return nc, nil
		}
		if call, ok := errors.AsType[*link.CallError](failed); ok && call.Code == codeVerb {
			return nil, fmt.Errorf("%s at %s is of a version that carries no %s between peers; want this version or a later one at all: %w", to, addr, proto, failed)
		} else if ok || ctx.Err() != nil {
			return nil, failed
		}
		err = errors.Join(err, failed)
	}
	if err == nil {
		err = fmt.Errorf("no address of %s is known; want one in the membership, or from the election", to)
	}
	return nil, err
}

// access is what another process needs to connect as this participant: in a witness. It has paths of keys, and no key.
type access struct {
	Cluster  string `json:"cluster"`
	Election string `json:"election"`
	Certs    string `json:"certs,omitempty"`
	CA       string `json:"ca,omitempty"`
	Cert     string `json:"cert,omitempty"`
	Key      string `json:"key,omitempty"`
	Own      string `json:"own,omitempty"`
	Program  string `json:"program,omitempty"`
}

func (c *setup) access() access {
	return access{c.Cluster, c.Name, c.Certs, c.CA, c.Cert, c.Key, c.own, c.Program}
}

func (k access) marshal() json.RawMessage {
	b, err := json.Marshal(k)
	if err != nil {
		return nil // it never fails for text
	}
	return b
}

// identity loads the certificate of a participant. Without files it is nil.
func (k access) identity(from string) (id *certs.Identity, err error) {
	node, err := protocol.ParseNodeID(from)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err) // no certificate has that name
	}
	switch {
	case k.Own != "":
		id, err = loadPrivate(k.Own, node)
	case k.Certs != "":
		id, err = certs.LoadDir(k.Certs, from)
	case k.CA != "":
		id, err = certs.Load(k.CA, k.Cert, k.Key)
	}
	return id, err
}

// OpenStream opens a stream as the participant from of another process, with what [driver.StreamInfo] had there as Key:
// a witness has it. See [driver.Streamer].
func OpenStream(ctx context.Context, key json.RawMessage, proto, from, to, addr string) (net.Conn, error) {
	var k access
	if err := json.Unmarshal(key, &k); err != nil {
		return nil, fmt.Errorf("the key for streams: %w", err)
	}
	id, err := k.identity(from)
	if k.Own != "" && errors.Is(err, fs.ErrNotExist) {
		id, err = loadPrivate(k.Own, "") // that of a client, whom all of one user believe
	}
	if err != nil {
		return nil, err
	}
	c := setup{Name: k.Election, Config: Config{Cluster: k.Cluster, Program: k.Program}}
	return c.openStream(ctx, id, proto, to, []string{addr})
}
