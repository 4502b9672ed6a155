package peer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/dial"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// How long a client waits for one node.
const (
	dialLimit    = 2 * time.Second // until a connection is admitted
	statusLimit  = 3 * time.Second // for a whole status
	historyLimit = 10 * time.Second
)

// Client asks the nodes of an election, and takes no part. It keeps no connection but those of the Watches that run.
// Its methods may be called by any number of goroutines.
//
// With certificates it needs one whose role permits what it asks for: [certs.Observe] for Statuses, Members, Watch and
// History, [certs.Operate] for Resign, Transfer, Pause and Resume, [certs.Administer] to change the membership. What is
// not permitted fails with [ErrNotPermitted]. On the loopback without certificates it has to be of the nodes' user.
type Client struct {
	cfg    setup
	limits driver.Limits
	voters int    // the first so many of nodes
	nodes  []Peer // voters, then the observers that listen
	dial   func(ctx context.Context, to Peer) (conn, error)
	tls    *certs.Identity // nil without certificates
	// identify returns the certificate to show, nil without certificates.
	identify func() (*certs.Identity, error)
	life     context.Context
	end      context.CancelCauseFunc
}

// conn is a connection with a node. It is a *link.Client, except in tests.
type conn interface {
	// Call sends a request. It calls each with the body of every response, in order.
	Call(ctx context.Context, verb string, token uint64, body any, each func(json.RawMessage) error) error
	Close() error
}

// NewClient returns a client of the election called name, which these voters and cfg.Observers hold. It reads
// certificates, connects to no node, and ignores what concerns nodes only. With Config.Certs it uses the strongest
// operator's certificate that it can read, or else that of Config.Client, or else that of a listed node. On the
// loopback without certificates each call fails until one of the user's nodes has run.
func NewClient(voters []Peer, name string, cfg Config) (*Client, error) {
	return newClient(setup{Config: cfg, Voters: voters, Name: name})
}

func newClient(cfg setup) (*Client, error) {
	cfg.ID = ""
	plan, err := cfg.named()
	if err != nil {
		return nil, err
	}
	if err := cfg.guarded(); err != nil {
		return nil, err
	}
	identity, err := cfg.clientIdentity()
	show := func() (*certs.Identity, error) { return identity, nil }
	if cfg.private() && errors.Is(err, fs.ErrNotExist) {
		show = func() (*certs.Identity, error) { with := cfg; return with.identity() } // the nodes may start later
	} else if err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg, limits: cfg.dialect().limits(plan, true), voters: len(cfg.Voters), dial: dialer(&cfg, show), identify: show, tls: identity,
	}
	for _, p := range slices.Concat(cfg.Voters, cfg.Observers) {
		if p.Addr != "" {
			c.nodes = append(c.nodes, p)
		}
	}
	if cfg.dialect().lacks(transfers) == nil {
		c.limits.Abilities = []driver.Ability{driver.AbilityResign, driver.AbilityTransfer}
	}
	c.life, c.end = context.WithCancelCause(context.Background())
	return c, nil
}

// clientIdentity loads the client's certificate: the one that is named, or the strongest operator's in the directory, or
// that of Config.Client, or that of a listed node.
func (c *setup) clientIdentity() (*certs.Identity, error) {
	id, err := c.identity()
	if c.Certs == "" || !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	for _, p := range slices.Concat([]Peer{{ID: c.Client}}, c.Voters, c.Observers) {
		if id, err := c.identityOf(p.ID); p.ID != "" && err == nil {
			return id, nil
		}
	}
	return nil, fmt.Errorf("no certificate to ask with in %s: %w; want those of an operator (elect certs --role observe), or of a node", c.Certs, err)
}

// dialer returns the function that dials other nodes for a client and shows identity.
func dialer(cfg *setup, identity func() (*certs.Identity, error)) func(ctx context.Context, to Peer) (conn, error) {
	hello := wire.Hello{
		Version: wire.Version, Oldest: wire.Oldest, Caller: wire.ClientOf, Cluster: cfg.Cluster, Program: cfg.Program,
	}
	name := cfg.Name
	return func(ctx context.Context, to Peer) (conn, error) {
		connect := cfg.dial
		if f := dial.Of(ctx); f != nil {
			connect = f
		}
		ctx, stop := context.WithTimeoutCause(ctx, dialLimit, fmt.Errorf("no answer within %v", dialLimit))
		defer stop()
		id, err := identity()
		if err != nil {
			return nil, because(ctx, cmp.Or(listens(ctx, connect, to.Addr), err))
		}
		c, err := link.Dial(ctx, link.ClientConfig{Addr: to.Addr, Hello: hello, About: name, TLS: id, Expect: protocol.NodeID(to.ID), Dial: connect})
		if err != nil {
			if inner := errors.Unwrap(err); inner != nil {
				err = inner // the caller says which node and where
			}
			return nil, because(ctx, err)
		}
		return c, nil // so that a conn never holds a nil *link.Client
	}
}

// listens returns an error if the address cannot be reached, for a client that has no certificate to show there. It
// sends nothing, as a check for an open port does.
func listens(ctx context.Context, dial func(context.Context, string) (net.Conn, error), addr string) error {
	if dial == nil {
		dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	c, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	_ = c.Close()
	return nil
}

func ignore(json.RawMessage) error { return nil }

// Campaign implements [driver.Elector]. A client is refused, for good.
func (c *Client) Campaign(context.Context, driver.Candidacy) (driver.Mandate, error) {
	if c.life.Err() != nil {
		return nil, driver.ErrClosed
	}
	return nil, driver.Permanent(fmt.Errorf("to stand in the election %s takes the id of one of its voters; want elect.Config.ID to be one of: %s", c.cfg.Name, list(ids(c.cfg.Voters))))
}

// Limits implements [driver.Elector], for the configuration of the client; that of the nodes may differ, see
// NodeStatus.Plan.
func (c *Client) Limits() driver.Limits { return c.limits }

// Certificate is the client's own certificate; nil without certificates.
func (c *Client) Certificate() *CertificateStatus { return certificateStatus(c.tls) }

// Close implements [driver.Elector].
func (c *Client) Close() error {
	c.end(driver.ErrClosed)
	return nil
}

// while returns a context that also ends with the client.
func (c *Client) while(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { cancel(context.Cause(c.life)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// ask sends one request to one node. asked reports that the node may have received it.
func (c *Client) ask(ctx context.Context, to Peer, limit time.Duration, verb string, token fence.Token, body any, each func(json.RawMessage) error) (asked bool, err error) {
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer stop()
	conn, err := c.dial(ctx, to)
	if err != nil {
		return false, because(ctx, err)
	}
	defer conn.Close()
	return true, understood(because(ctx, conn.Call(ctx, verb, uint64(token), body, each)))
}

// because replaces the error of a context with its cause.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return context.Cause(ctx)
	}
	return err
}

// all asks every node at the same time and returns the outcome of each.
func (c *Client) all(ctx context.Context, nodes []Peer, limit time.Duration, verb string, each func(node int, body json.RawMessage) error) []error {
	ctx, stop := c.while(ctx)
	defer stop()
	errs := make([]error, len(nodes))
	var asking sync.WaitGroup
	for i, n := range nodes {
		asking.Go(func() {
			_, errs[i] = c.ask(ctx, n, limit, verb, 0, nil, func(body json.RawMessage) error { return each(i, body) })
		})
	}
	asking.Wait()
	return errs
}

// Statuses asks every node at the same time for its status. It returns one result for each, voters first, in the order
// of the configuration. A node that does not answer takes 3 s at most. Observers without an address have an error.
func (c *Client) Statuses(ctx context.Context) []NodeResult {
	results := c.statuses(ctx, c.nodes)
	for _, p := range c.cfg.Observers {
		if p.Addr == "" {
			results = append(results, NodeResult{Peer: p, Err: errNowhere})
		}
	}
	return results
}

// Status asks one node, which need not be listed, for its status. It takes 3 s at most.
func (c *Client) Status(ctx context.Context, of Peer) NodeResult {
	return c.statuses(ctx, []Peer{of})[0]
}

var errNowhere = errors.New("no address of it is known")

// statuses asks some nodes.
func (c *Client) statuses(ctx context.Context, nodes []Peer) []NodeResult {
	results := make([]NodeResult, len(nodes))
	errs := c.all(ctx, nodes, statusLimit, verbStatus, func(i int, body json.RawMessage) error {
		s := new(NodeStatus)
		if err := json.Unmarshal(body, s); err != nil {
			return fmt.Errorf("its status cannot be read: %w", err)
		}
		results[i].Status = s
		return nil
	})
	for i := range results {
		results[i].Peer = nodes[i]
		if errs[i] != nil {
			results[i].Status, results[i].Err = nil, errs[i]
		} else if results[i].Status == nil {
			results[i].Err = errors.New("it answered, and said nothing of itself")
		}
	}
	return results
}

// nodeError is an error of one node.
type nodeError struct {
	peer Peer
	err  error
}

// trouble is the errors of several nodes. It does not unwrap: what is true of one node, such as that it is shutting
// down, is not true of the election.
type trouble []nodeError

func (t trouble) Error() string {
	var b strings.Builder
	for i, e := range t {
		b.WriteString(e.peer.String())
		if i+1 < len(t) && t[i+1].err.Error() == e.err.Error() {
			b.WriteString(", ") // several nodes with the same error are listed with one text
			continue
		}
		fmt.Fprintf(&b, ": %v", e.err)
		if i+1 < len(t) {
			b.WriteString("; ")
		}
	}
	return b.String()
}
