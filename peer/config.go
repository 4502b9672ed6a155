package peer

import (
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

// DefaultCluster is the cluster of those who have neither certificates nor a
// setting.
const DefaultCluster = "elect"

// MaxObservers is the greatest number of observers: a leader tells each of them
// of every heartbeat.
const MaxObservers = 64

// Peer is a participant and where it listens.
type Peer struct {
	ID   protocol.NodeID
	Addr string // host:port; may be empty for an observer, to whom nobody connects
}

// String is the peer as it stands in a URL, such as n1@10.0.0.1:7400.
func (p Peer) String() string {
	if p.Addr == "" {
		return string(p.ID)
	}
	return string(p.ID) + "@" + p.Addr
}

// Check says what is wrong with a participant that others have to find: its id, or
// its address.
func (p Peer) Check() error {
	if _, err := protocol.ParseNodeID(string(p.ID)); err != nil {
		return err
	}
	return checkAddr(p.Addr)
}

// Config configures a participant, or a [Client]. ID, Name and Voters are
// required; zero means the documented default elsewhere. It is copied; the
// slices must not be changed afterwards.
type Config struct {
	// ID is this participant's, one of Voters or Observers. It is the id in its
	// certificate.
	ID protocol.NodeID
	// Name is the election's, see [driver.CheckName]. The nodes of one process that
	// have the same ID, listening address and Data share the address and one
	// connection with each other host, whatever their elections; what else concerns
	// both, such as Cluster and the certificates, must be the same then, and Logger
	// and Dial are those of the first one.
	Name string
	// Voters are 1 to 9 participants, the same at every one of them when the
	// election is founded. A majority of them elects; three or five is what one
	// wants. Afterwards the membership that was made of them counts, which
	// [Client.AddMember] and the like change, and the list only says where to call
	// those whom it has.
	Voters []Peer
	// Observers see who leads and never count; at most 64. Those whom the voters
	// list when the election is founded are in its membership. Each
	// costs every voter a connection, with signs of life both ways some twice in
	// a Promise, and the leader its heartbeats; with many of them that is most of
	// what an idle election costs.
	Observers []Peer

	// Listen is the address to listen on, the own one in Voters or Observers by
	// default. An observer without one does not listen.
	Listen string
	// Data is the directory that holds the directories of all nodes; this
	// participant's data directory is Data/ID/elections/Name. By default elect-peer in
	// $XDG_STATE_HOME, or in ~/.local/state.
	Data string
	// SharedPlace allows a process of root to have its data directory in a place that
	// other users can write to or replace. Without it, such a Data is refused. It has
	// no effect for users other than root.
	SharedPlace bool
	// Cluster keeps two clusters apart: who names another one is refused. By
	// default that of the own certificate, and without one DefaultCluster.
	Cluster string

	// Protocol is the protocol of the election, one of [Protocols]: quorum by
	// default, which is the only one with a lease. The others are for those who
	// want to see what they are worth: with them a leader is elected and never
	// proven, a Candidacy with Exclusive is refused, who takes part is settled by
	// the founding, and Observers, Join, Priority, Position with what goes with it,
	// and Machine are refused. It is one setting for a whole election: those of
	// another one are refused, and so is a data directory of another one.
	Protocol string

	// Profile names a set of times that fit together, see [quorum.Profiles];
	// lan by default.
	Profile string
	// Heartbeat and Promise replace those of the profile, 0 being none; see
	// [quorum.Config]. A voter waits Promise for a silent leader. With another
	// protocol than quorum a profile but lan, whose times are the protocol's own
	// then, says how long that is, and heartbeats follow from it unless Heartbeat
	// is set.
	Heartbeat, Promise time.Duration
	// Era is the upper part of every token, from 0 to fence.MaxEra. It is 0 until
	// all data directories are made anew or one is restored from a copy, and is
	// raised then, at every participant, so that tokens go on rising.
	Era uint64

	// Join says that this participant is to be added to an election that is there
	// (elect member add, [Client.AddMember]): it founds nothing, and waits until a
	// membership has it, with its own data directory if it is to vote. Without a
	// ballot in its data directory, Voters are only those whom it calls first, and
	// itself. Once it has been added Join does not count, except that it is not
	// refused for good after it was removed: it waits to be added again.
	Join bool

	// Priority is how gladly this participant leads: 1 to [driver.MaxPriority], 0
	// for [driver.DefaultPriority], [driver.NeverLead] for a voter that votes and
	// never leads. A greater one stands earlier, and a leader hands over to it
	// by itself when it has been fit for a while; see [quorum.Config]. That of a
	// Candidacy, if it is not 0, replaces it from then on.
	Priority int

	// Position says what positions count for, in what the leader's work writes,
	// such as a log: see [quorum.PositionPolicy]; quorum.IgnorePosition by
	// default. It is one setting for a whole election.
	Position quorum.PositionPolicy
	// Locate tells how far this participant is. It is called in a goroutine of
	// its own, one call at a time: every LocateEvery, before each Campaign of this
	// node, when its leader has gone, before it hands over, and after CatchUp.
	// While it takes its time nothing waits for it but a Campaign, for a Promise
	// at most, and a hand-over, and the last position counts. So does the last one
	// after an error, which is logged; until there is one this participant neither
	// stands nor gives a vote: with PreferPosition for three promises after its
	// start, with RequirePosition for as long as that takes. A position has at most [quorum.MaxPosition] bytes of
	// UTF-8. Its ctx ends with the node, and Close waits until it returns. With a
	// nil Locate this participant is behind all that have one.
	Locate func(ctx context.Context) (string, error)
	// LocateEvery is the time between two calls of Locate; 0 means Heartbeat. A
	// leader that hands over waits until its successor is as far as it is, which
	// it hears of that much later.
	LocateEvery time.Duration
	// Compare orders two positions as cmp.Compare does, the same at every
	// participant; protocol.CompareNumbers by default. The empty position is
	// before all others without it. It is called within the steps of the
	// protocol: it must not block, nor depend on anything but its arguments.
	Compare func(a, b string) int
	// CatchUp is called in a goroutine of its own when this participant would be
	// elected were it not behind from, who is at position. It may take as long as
	// it needs, and until it returns it is not called again; its ctx ends when it is moot: somebody
	// leads, this participant does not stand any more, or the node is closed,
	// which waits until it returns. Locate is asked after it, whatever it
	// returned; an error is logged. Nil: whoever copies the log does so anyway.
	CatchUp func(ctx context.Context, from protocol.NodeID, position string) error

	// Certs is a directory with ca.crt, ID.crt and ID.key, as package certs
	// makes it; a [Client] takes the strongest operator's certificate in it. The files
	// are read again when they change. CA, Cert and Key name the three files one by
	// one instead. With neither, and without Insecure, only addresses of the loopback
	// are allowed, and only the processes of one user elect together: each
	// participant makes its certificate by itself, in the directory elect-loopback of
	// $XDG_STATE_HOME or ~/.local/state, which only that user can read. A [Client]
	// finds a certificate there that permits every request.
	Certs         string
	CA, Cert, Key string
	// Insecure allows plain text, on the loopback and on a network. Everybody who
	// can reach the port, such as every user of the machine, can then elect,
	// depose and remove, and have two lead at once. A node logs that at start.
	Insecure bool

	// Listener is used instead of listening on Listen. The Close of the last node that
	// shares it closes it, and so does New when it fails; a Client does not touch it.
	Listener net.Listener
	// Dial replaces the way to other participants, for tests. It gets the
	// address as Voters has it.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Machine makes the protocol machine; nil is quorum.New. One that saves
	// anything else than ballots of package quorum is refused when it boots.
	Machine func(quorum.Config) (protocol.Machine, error)

	// Program is the version of the program, shown to others. May be empty.
	Program string
	// Logger receives what is worth knowing. Nil is silence.
	Logger *slog.Logger

	own string // the user's own certificates, once identity has been asked

	// For tests: other links, other clocks, and disks that fail.
	dialects []dialect // nil: all that there are

	connect func(link.Config) (links, error)
	dialer  func(ctx context.Context, to Peer) (conn, error) // as Client.dial
	now     func() protocol.Reading
	look    time.Duration // as link.Config.Look
	disk    func(save func([]byte) error) func([]byte) error
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
func (c *Config) voter() bool { return has(c.Voters, c.ID) }

func (c *Config) observer() bool { return has(c.Observers, c.ID) }

// takesPart reports whether the own id is listed; all others are clients.
func (c *Config) takesPart() bool { return c.voter() || c.observer() }

func has(peers []Peer, id protocol.NodeID) bool { return find(peers, id) != nil }

func find(peers []Peer, id protocol.NodeID) *Peer {
	for i := range peers {
		if peers[i].ID == id {
			return &peers[i]
		}
	}
	return nil
}

// ids returns the ids of peers in the order of protocols.
func ids(peers []Peer) []protocol.NodeID {
	all := make([]protocol.NodeID, 0, len(peers))
	for _, p := range peers {
		all = append(all, p.ID)
	}
	slices.SortFunc(all, protocol.NodeID.Compare)
	return all
}

func list[T fmt.Stringer](all []T) string {
	texts := make([]string, len(all))
	for i, v := range all {
		texts[i] = v.String()
	}
	return strings.Join(texts, ", ")
}

// check returns what is wrong with the participants and their addresses, for nodes and clients alike.
func (c *Config) check() error {
	if err := driver.CheckName(c.Name); err != nil {
		return err
	}
	const want = "want each as in n1@10.0.0.1:7400"
	seen, at := map[protocol.NodeID]bool{}, map[string]protocol.NodeID{}
	for i, p := range slices.Concat(c.Voters, c.Observers) {
		if _, err := protocol.ParseNodeID(string(p.ID)); err != nil {
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
	case len(c.Observers) > MaxObservers:
		return fmt.Errorf("%d observers; want at most %d", len(c.Observers), MaxObservers)
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
	switch c.Position {
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
func (c *Config) secured() bool { return c.Certs != "" || c.CA != "" }

// identity loads the own certificate, nil if there is to be none, and determines the cluster.
func (c *Config) identity() (*certs.Identity, error) {
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
	who := ""
	if c.takesPart() {
		who = string(c.ID)
	}
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
func (c *Config) guarded() error {
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
func (c *Config) listen() string {
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
func (c *Config) directory() (at place.At, err error) {
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
func (c *Config) formerDirectory(at place.At) place.At {
	at.Below = []string{c.Name, string(c.ID)}
	return at
}
