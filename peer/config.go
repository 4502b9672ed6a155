package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/place"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/disk"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// DefaultCluster is the cluster of peers without certificates and without Config.Cluster.
const DefaultCluster = "elect"

// Peer is a participant and where it listens.
type Peer struct {
	ID   string
	Addr string // host:port; may be empty for an observer, which then does not listen
}

// String is the peer as it stands in a URL, such as n1@10.0.0.1:7400.
func (p Peer) String() string {
	if p.Addr == "" {
		return p.ID
	}
	return p.ID + "@" + p.Addr
}

// Check returns what is wrong with the id or the address of a participant that listens, or nil.
func (p Peer) Check() error {
	if _, err := protocol.ParseNodeID(p.ID); err != nil {
		return err
	}
	return checkAddr(p.Addr)
}

// Config configures a node or a [Client]. The zero value is valid. A Config is copied; its slices must not be changed
// afterwards.
type Config struct {
	// Observers, at most 64, learn who leads, and neither vote nor lead.
	Observers []Peer

	// Listen is the address to listen on; by default that of the list. An observer without an address does not listen.
	Listen string
	// Data is the directory above the nodes' data directories, Data/ID/elections/NAME. The default is elect-peer in
	// $XDG_STATE_HOME or ~/.local/state.
	Data string
	// SharedPlace allows a process of root to use a Data that other users can write to or replace, which is refused
	// otherwise.
	SharedPlace bool
	// Cluster keeps clusters apart. The default is that of the certificate, or [DefaultCluster].
	Cluster string

	// Protocol is one of [Protocols], the same at every node; quorum by default. The others are for comparison: they
	// have no lease, and refuse Observers, Join, Priority, Tenure and Position. Nodes and directories of another protocol are
	// refused.
	Protocol string

	// Profile names a set of times that fit together: lan, the default, fast, wan or calm.
	Profile string
	// Heartbeat and Promise replace those of the profile; 0 keeps them. A leader sends a message every Heartbeat, and a
	// voter waits Promise for a silent leader. With a protocol other than quorum, lan stands for the protocol's own
	// times, any other profile sets Promise, and Heartbeat follows from Promise.
	Heartbeat, Promise time.Duration
	// Era is the upper part of every token, from 0 to [fence.MaxEra]. It is raised at every participant when all data
	// directories are made anew, or after one was restored from a copy.
	Era uint64

	// Join makes a participant wait until it is added, see [Client.AddMember]; it founds nothing, and calls the listed
	// voters first. If it is removed later it waits to be added again, instead of being refused for good.
	Join bool

	// Priority is 1 to [driver.MaxPriority], 0 for [driver.DefaultPriority], or [driver.NeverLead] for a voter that
	// only votes. A greater one stands earlier, and a leader hands over to it when it has been fit for a while. A
	// Candidacy's Priority replaces it if that is not 0.
	Priority int

	// Tenure is for how long this node leads before it hands over to a voter of a greater priority; 0 means ten promises.
	Tenure time.Duration

	// Position says whether a voter refuses a candidate whose data, such as a log, is behind its own: ignore (the
	// default), never; prefer, for a while; require, always. It is the same at every node.
	Position string
	// Locate returns this participant's position, at most 256 bytes of UTF-8. Before it has returned one, this
	// participant neither stands nor votes: with prefer for three promises, with require for as long as that takes.
	// With a nil Locate it is behind all that have one. Locate is called in a goroutine of its own, one call at a time:
	// every LocateEvery, before a Campaign, which waits for it for a Promise at most, after the leader is lost, before
	// a hand-over, which waits, and after CatchUp. After an error, which is logged, the last position counts. ctx ends
	// with the node, and Close waits for the call.
	Locate func(ctx context.Context) (string, error)
	// LocateEvery is the time between two calls of Locate; 0 means Heartbeat. A leader that hands over learns with this
	// delay that its successor is level.
	LocateEvery time.Duration
	// Compare orders two positions as cmp.Compare does, the same at every participant, and never the empty one. It must
	// not block, and must depend on its arguments only. Nil compares them as numbers.
	Compare func(a, b string) int
	// CatchUp is called when this participant would be elected if it were not behind the participant from, which is at
	// position. It has a goroutine of its own, one call at a time. ctx ends when there is a leader, when this
	// participant no longer stands, and with the node, whose Close waits for the call. An error is logged. Nil: the
	// data arrives without it.
	CatchUp func(ctx context.Context, from, position string) error

	// Certs is a directory with ca.crt, ID.crt and ID.key, as package certs makes it; CA, Cert and Key name the three
	// files instead. Without these and without Insecure, nodes on the loopback make certificates in elect-loopback of
	// $XDG_STATE_HOME or ~/.local/state, which only their user can read, and which permit that user's clients every
	// request.
	Certs         string
	CA, Cert, Key string
	// Client is the id whose certificate in Certs a [Client] shows if there is no operator's, such as that of a member of
	// a group. Empty means none.
	Client string
	// Insecure allows plain text, on the loopback and on a network: anyone who can reach the port can elect, depose and
	// remove, and have two lead at once. A node logs that at start.
	Insecure bool

	// Listener is used instead of Listen. The Close of the last node that shares it closes it, and so does a New that
	// fails. A Client does not use it.
	Listener net.Listener

	// Program is the version of the program, for others; it may be empty.
	Program string
	// Logger receives log lines. Nil is silence.
	Logger *slog.Logger
}

// setup is all that a node or a client is made of: what is required, the Config, and
// what tests replace.
type setup struct {
	Config
	Voters []Peer
	Name   string
	ID     protocol.NodeID // empty in a client

	own string // the user's own certificates, once identity has been asked

	// For tests: other machines, other connections, other clocks, and disks that fail.
	dialects []dialect                                                // nil: all that there are
	machine  func(quorum.Config) (protocol.Machine, error)            // nil: quorum.New
	dial     func(ctx context.Context, addr string) (net.Conn, error) // nil: TCP
	connect  func(link.Config) (links, error)
	dialer   func(ctx context.Context, to Peer) (conn, error) // as Client.dial
	now      func() protocol.Reading
	look     time.Duration // as link.Config.Look
	disk     func(save func([]byte) error) func([]byte) error
}

// links are a node's connections. In production it is a hosted.
type links interface {
	Send(to protocol.NodeID, l *wire.Letter)
	SetIncarnation(incarnation uint64)
	SetPeers(held protocol.ConfigID, peers link.Peers, outside func(protocol.NodeID) *wire.Refusal)
	Announce(w *wire.Welcome)
	Peers() []link.PeerInfo
	Close() error
}

// voter reports whether the own id is one of the voters.
func (c *setup) voter() bool { return has(c.Voters, c.ID) }

func (c *setup) observer() bool { return has(c.Observers, c.ID) }

// takesPart reports whether the own id is listed; all others are clients.
func (c *setup) takesPart() bool { return c.voter() || c.observer() }

func has[ID ~string](peers []Peer, id ID) bool { return find(peers, id) != nil }

func find[ID ~string](peers []Peer, id ID) *Peer {
	for i := range peers {
		if peers[i].ID == string(id) {
			return &peers[i]
		}
	}
	return nil
}

// ids returns the ids of peers in the order of protocols.
func ids(peers []Peer) []protocol.NodeID {
	all := make([]protocol.NodeID, 0, len(peers))
	for _, p := range peers {
		all = append(all, protocol.NodeID(p.ID))
	}
	slices.SortFunc(all, protocol.NodeID.Compare)
	return all
}

// texts are ids as users see them.
func texts(ids []protocol.NodeID) []string {
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = string(id)
	}
	return all
}

func peerAt(id protocol.NodeID, addr string) Peer { return Peer{string(id), addr} }

// policy says what positions count for.
func (c *setup) policy() quorum.PositionPolicy {
	return cmp.Or(quorum.PositionPolicy(c.Position), quorum.IgnorePosition)
}

func list[T fmt.Stringer](all []T) string {
	texts := make([]string, len(all))
	for i, v := range all {
		texts[i] = v.String()
	}
	return strings.Join(texts, ", ")
}

// check returns what is wrong with the participants and their addresses, for nodes and clients alike.
func (c *setup) check() error {
	const want = "want each as in n1@10.0.0.1:7400"
	seen, at := map[string]bool{}, map[string]string{}
	for i, p := range slices.Concat(c.Voters, c.Observers) {
		if _, err := protocol.ParseNodeID(p.ID); err != nil {
			return fmt.Errorf("%w; %s", err, want)
		}
		if seen[p.ID] {
			return fmt.Errorf("%s is listed twice; want each participant once", p.ID)
		}
		seen[p.ID] = true
		if p.Addr == "" && i >= len(c.Voters) {
			continue
		}
		if err := checkAddr(p.Addr); err != nil {
			return fmt.Errorf("%s: %w; %s", p.ID, err, want)
		}
		if other, taken := at[p.Addr]; taken {
			return fmt.Errorf("%s and %s have one address, %s; want a port for each", other, p.ID, p.Addr)
		}
		at[p.Addr] = p.ID
	}
	switch n := len(c.Voters); {
	case n == 0:
		return errors.New("no voters; want 1 to 9, as in peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400")
	case n > protocol.MaxVoters:
		return fmt.Errorf("%d voters; want at most %d, because each election asks all of them: make the others observers, with observers=…", n, protocol.MaxVoters)
	case len(c.Observers) > protocol.MaxObservers:
		return fmt.Errorf("%d observers; want at most %d", len(c.Observers), protocol.MaxObservers)
	case c.Era > fence.MaxEra:
		return fmt.Errorf("era %d; want a number from 0 to %d", c.Era, uint64(fence.MaxEra))
	case c.Certs != "" && (c.CA != "" || c.Cert != "" || c.Key != ""):
		return errors.New("both certs, a directory, and single files (ca, cert, key) are given; want one of the two")
	case (c.CA != "" || c.Cert != "" || c.Key != "") && (c.CA == "" || c.Cert == "" || c.Key == ""):
		return errors.New("of ca, cert and key only some are given; want all three, or certs=DIR")
	case c.Insecure && c.secured():
		return errors.New("certificates are given, and insecure too; want one of the two")
	}
	if err := driver.CheckPriority(c.Priority); err != nil {
		return err
	}
	if c.LocateEvery < 0 {
		return fmt.Errorf("a position every %v; want more than 0, or 0 for the heartbeat", c.LocateEvery)
	}
	switch quorum.PositionPolicy(c.Position) {
	case "", quorum.IgnorePosition, quorum.PreferPosition, quorum.RequirePosition:
	default:
		return fmt.Errorf("position %q; want %s, %s or %s", c.Position, quorum.IgnorePosition, quorum.PreferPosition, quorum.RequirePosition)
	}
	if c.Cluster != "" {
		if err := driver.CheckName(c.Cluster); err != nil {
			return fmt.Errorf("cluster: %w", err)
		}
	}
	return c.checkProtocol()
}

func checkAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	switch {
	case addr == "":
		return errors.New("no address")
	case err != nil && strings.Contains(err.Error(), "missing port"):
		return fmt.Errorf("address %q has no port", addr)
	case err != nil && strings.Contains(err.Error(), "too many colons"):
		return fmt.Errorf("address %q: an IPv6 address is written in brackets, as in [::1]:7400", addr)
	case err != nil:
		return fmt.Errorf("address %q is not host:port", addr)
	case host == "":
		return fmt.Errorf("address %q has no host, and others have to find it", addr)
	case strings.ContainsAny(host, "/ \t@"):
		return fmt.Errorf("address %q: the host %q is none", addr, host)
	}
	if len(addr) > protocol.MaxAddress {
		return fmt.Errorf("an address of %d bytes; want at most %d", len(addr), protocol.MaxAddress)
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "" || port == "0" {
		return fmt.Errorf("address %q: port %q; want a number from 1 to 65535", addr, port)
	}
	return nil
}

// secured reports whether there are certificates.
func (c *setup) secured() bool { return c.Certs != "" || c.CA != "" }

// identity loads the own certificate, nil if there is to be none, and determines the cluster.
func (c *setup) identity() (*certs.Identity, error) {
	if c.takesPart() {
		return c.identityOf(string(c.ID))
	}
	return c.identityOf("")
}

// identityOf is identity with the certificate of a node, or if who is "" with the strongest operator's.
func (c *setup) identityOf(who string) (*certs.Identity, error) {
	if c.private() {
		return c.privateIdentity()
	}
	if !c.secured() {
		if c.Cluster == "" {
			c.Cluster = DefaultCluster
		}
		return nil, nil
	}
	// A keeper that is to be a witness has another working directory.
	var err error
	for _, path := range []*string{&c.Certs, &c.CA, &c.Cert, &c.Key} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, fmt.Errorf("certificates: the working directory is not known: %w; want absolute paths", err)
		}
	}
	var id *certs.Identity
	if c.Certs != "" {
		id, err = certs.LoadDir(c.Certs, who)
	} else {
		id, err = certs.Load(c.CA, c.Cert, c.Key)
	}
	switch {
	case err != nil:
		return nil, err
	case who != "" && id.ID != who:
		return nil, fmt.Errorf("the certificate is that of %q, and this participant is %q; want a certificate of its own", id.ID, who)
	case c.Cluster == "":
		c.Cluster = id.Cluster
	case c.Cluster != id.Cluster:
		return nil, fmt.Errorf("the certificate is of cluster %q, and cluster=%s is set; leave that out, or use a certificate of that cluster", id.Cluster, c.Cluster)
	}
	return id, nil
}

// guarded refuses a network without certificates unless Insecure is set.
func (c *setup) guarded() error {
	if c.secured() || c.Insecure {
		return nil
	}
	addrs := []string{c.listen()}
	for _, p := range slices.Concat(c.Voters, c.Observers) {
		addrs = append(addrs, p.Addr)
	}
	for _, a := range addrs {
		if a != "" && !loopback(a) {
			return fmt.Errorf("%s is an address on a network, and without certificates everybody who can reach it can elect and depose; want certs=DIR (elect certs makes them), or insecure=true", a)
		}
	}
	return nil
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(strings.Split(host, "%")[0])
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// listen is the address to listen on, "" if there is none.
func (c *setup) listen() string {
	switch p := find(slices.Concat(c.Voters, c.Observers), c.ID); {
	case c.Listener != nil:
		return c.Listener.Addr().String()
	case c.Listen != "":
		return c.Listen
	case p != nil:
		return p.Addr
	}
	return ""
}

// directory is where this participant's own data directory is.
func (c *setup) directory() (at place.At, err error) {
	data := c.Data
	if data == "" {
		state := os.Getenv("XDG_STATE_HOME")
		if state == "" || !filepath.IsAbs(state) {
			home, err := os.UserHomeDir()
			if err != nil {
				return at, fmt.Errorf("no place for the data directory: %w; want data=DIR", err)
			}
			state = filepath.Join(home, ".local", "state")
		}
		data = filepath.Join(state, "elect-peer")
	}
	data, err = filepath.Abs(data)
	if err != nil {
		return at, fmt.Errorf("data directory %s: the working directory is not known: %w; want an absolute path", c.Data, err)
	}
	return place.At{Path: data, Below: []string{string(c.ID), disk.Elections, c.Name}, Shared: c.SharedPlace}, nil
}

// formerDirectory is the place in which older versions kept at.
func (c *setup) formerDirectory(at place.At) place.At {
	at.Below = []string{c.Name, string(c.ID)}
	return at
}
