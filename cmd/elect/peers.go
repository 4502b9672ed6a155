package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/peer"
)

// peerScheme is the scheme of URLs of elections among peers.
const peerScheme = "peer"

// openPeer is peer.Open for this program, whose version the other nodes are told. It distinguishes a wrong
// configuration, which is the caller's error, from errors of a disk or a network.
func openPeer(ctx context.Context, t driver.Target) (driver.Elector, error) {
	return openPeerWith(ctx, t, func(*peer.Config) {})
}

// openPeerWith is openPeer with settings that a URL cannot have.
func openPeerWith(ctx context.Context, t driver.Target, complete func(*peer.Config)) (driver.Elector, error) {
	voters, cfg, err := peer.ParseURL(t.URL)
	if err == nil {
		_, err = cfg.Plan(voters)
	}
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	cfg.Program, cfg.Logger = cli.Version(), t.Logger
	complete(&cfg)
	listed := func(p peer.Peer) bool { return p.ID == t.ID }
	if !slices.ContainsFunc(voters, listed) && !slices.ContainsFunc(cfg.Observers, listed) {
		cfg.Client = t.ID
		c, err := peer.NewClient(voters, t.Name, cfg)
		if err != nil {
			return nil, ofPeers(err, &cfg) // so that an interface never holds a nil *Client
		}
		return c, nil
	}
	n, err := peer.New(ctx, voters, t.Name, t.ID, cfg)
	if err != nil {
		return nil, ofPeers(err, &cfg)
	}
	return n, nil
}

// introducing returns the openers, and a function that describes a node that they have opened.
func introducing(openers elect.Openers) (elect.Openers, func() string) {
	var node *peer.Node
	var listed []peer.Peer
	with := maps.Clone(openers)
	with[peerScheme] = func(ctx context.Context, t driver.Target) (driver.Elector, error) {
		e, err := openers[peerScheme](ctx, t)
		node, _ = e.(*peer.Node)
		if voters, _, err := peer.ParseURL(t.URL); err == nil {
			listed = voters
		}
		return e, err
	}
	return with, func() string {
		if node == nil {
			return ""
		}
		return introduction(node.Status(), listed)
	}
}

// introduction is what the times promise with the present voters. If these are not those of the URL it says both.
func introduction(s peer.NodeStatus, listed []peer.Peer) string {
	var names []string
	for _, v := range listed {
		names = append(names, v.ID)
	}
	text, url := s.Plan.String(), strings.Join(names, ", ")
	slices.Sort(names)
	switch {
	case s.Membership == nil && s.Join:
		text += "; these are the voters of the URL, and the membership is not known before this node is added"
	case s.Membership == nil:
	case !slices.EqualFunc(s.Membership.Voters, names, func(v peer.VoterStatus, id string) bool { return v.ID == id }):
		text += fmt.Sprintf("; membership %s has %s, and the URL lists %s", s.Membership.Version(), describe(s.Membership), url)
	}
	return text
}

// ofPeers is failed.Backend for errors of making a node or a client. For missing certificates it says how to make
// them.
func ofPeers(err error, cfg *peer.Config) error {
	missing, ok := errors.AsType[*fs.PathError](err)
	if ok && cfg.Certs != "" && errors.Is(missing, fs.ErrNotExist) {
		if dir, abs := filepath.Abs(cfg.Certs); abs == nil && filepath.Dir(missing.Path) == dir {
			err = fmt.Errorf("%w; elect certs makes such files", err)
		}
	}
	return failed.Backend(err)
}

// isPeer reports whether the election is held among peers.
func (p *place) isPeer() bool {
	scheme, _, _ := strings.Cut(p.election, ":")
	return strings.EqualFold(scheme, peerScheme)
}

// peers is what the URL of a peer election says.
func (p *place) peers() ([]peer.Peer, peer.Config, error) {
	voters, cfg, err := p.parsePeers()
	if err != nil {
		return nil, cfg, err
	}
	if _, err = cfg.Plan(voters); err != nil {
		return nil, cfg, exit.With(exit.Usage, err)
	}
	return voters, cfg, nil
}

// parsePeers is peers without the check whether it can hold.
func (p *place) parsePeers() ([]peer.Peer, peer.Config, error) {
	u, err := elect.ParseURL(p.election)
	if e, ok := errors.AsType[*url.Error](err); ok { // its text repeats the URL
		err = e.Err
	}
	if err != nil {
		return nil, peer.Config{}, exit.Usagef("the election URL does not parse: %w; want one such as peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400", err)
	}
	voters, cfg, err := peer.ParseURL(u)
	if err != nil {
		return nil, cfg, exit.Usagef("--election: %w", err)
	}
	return voters, cfg, nil
}

// candidate checks the id of a candidate among peers, and returns the plan of its configuration.
func (p *place) candidate(id string, given bool) (peer.Plan, error) {
	listed, cfg, err := p.peers()
	if err != nil {
		return peer.Plan{}, err
	}
	is := func(v peer.Peer) bool { return v.ID == id }
	var voters []string
	for _, v := range listed {
		voters = append(voters, v.ID)
	}
	want := "one of the voters: " + strings.Join(voters, ", ")
	switch {
	case !given:
		return peer.Plan{}, exit.Usagef("among peers a candidate needs its id; want --id, %s", want)
	case slices.ContainsFunc(cfg.Observers, is):
		return peer.Plan{}, exit.Usagef("--id %s: an observer never leads, so that COMMAND would never run; want %s", id, want)
	case !slices.ContainsFunc(listed, is):
		return peer.Plan{}, exit.Usagef("--id %s is not in this election; want %s", id, want)
	}
	plan, err := cfg.Plan(listed)
	if err != nil {
		return plan, exit.With(exit.Usage, err)
	}
	return plan, nil
}

// peerFlags are the flags of elect run that are parameters of a peer election's URL; and --shared-place, which is
// also one of an election in files.
type peerFlags struct {
	set *pflag.FlagSet

	profile, data, listen, certs string
	promise, heartbeat           time.Duration
	insecure, join, shared       bool
	priority, position           string
}

func (f *peerFlags) flags(set *pflag.FlagSet) {
	f.set = set
	set.StringVar(&f.profile, "profile", "", "`PROFILE` of times among peers: "+strings.Join(profiles(), ", ")+" (default: the first)")
	set.Var(cli.Duration(&f.promise), "promise", "`TIME` for which a voter's promise holds (default: the profile's)")
	set.Lookup("promise").DefValue = ""
	set.Var(cli.Duration(&f.heartbeat), "heartbeat", "`TIME` between two heartbeats of a leader (default: the profile's)")
	set.Lookup("heartbeat").DefValue = ""
	set.StringVar(&f.data, "data", "", "`DIR` that holds the data directories of peers (default: elect-peer in your state directory)")
	set.StringVar(&f.listen, "listen", "", "`ADDRESS` to listen on for peers (default: this peer's own in the URL)")
	set.StringVar(&f.certs, "certs", "", "`DIR` with ca.crt, ID.crt and ID.key, made by elect certs (default: none; on the loopback those of this user)")
	set.StringVar(&f.priority, "priority", strconv.Itoa(driver.DefaultPriority), "`NUMBER` from 1 to 1000: the greatest leads; never: this peer only votes")
	set.StringVar(&f.position, "position", "", "`POLICY` for positions: ignore, prefer or require (default: ignore)")
	set.BoolVar(&f.join, "join", false, "wait until elect member adds this peer to an existing election")
	set.BoolVar(&f.shared, sharedPlace, false, sharedPlaceUsage)
	set.BoolVar(&f.insecure, "insecure", false, "let peers talk in plain text: anyone who reaches their ports can elect and depose")
}

// profiles are the names of the profiles.
func profiles() (names []string) {
	for _, p := range quorum.Profiles() {
		names = append(names, p.Name)
	}
	return names
}

// peerFlagNames are those flags, and the names of their parameters.
var peerFlagNames = [...]string{"profile", "promise", "heartbeat", "data", "listen", "certs", "insecure", "join", "priority", "position", sharedPlace}

// merge puts the flags into the URL. A flag overrules a parameter, and those that contradict it.
func (f *peerFlags) merge(p *place) error {
	query, err := f.parameters()
	if err != nil || len(query) == 0 {
		return err
	}
	scheme, _, _ := strings.Cut(p.election, ":")
	if about := slices.IndexFunc(query, func(q parameter) bool { return q.key != sharedPlace || !strings.EqualFold(scheme, "file") }); !p.isPeer() && about >= 0 {
		return exit.Usagef("%s is about elections among peers, and a %s: election has no such thing; leave it out, or want --election peer://n1@10.0.0.1:7400,…", query[about].flag, scheme)
	}
	bare, old, _ := strings.Cut(p.election, "?")
	var parts []string
	for pair := range strings.SplitSeq(old, "&") {
		key, _, _ := strings.Cut(pair, "=")
		if key, err := url.QueryUnescape(key); err == nil && slices.ContainsFunc(query, func(q parameter) bool { return q.replaces(key) }) {
			continue
		}
		if pair != "" {
			parts = append(parts, pair)
		}
	}
	for _, q := range query {
		if q.value != "" {
			parts = append(parts, q.key+"="+escape(q.value))
		}
	}
	p.election = bare
	if len(parts) > 0 {
		p.election += "?" + strings.Join(parts, "&")
	}
	return nil
}

// parameter is a parameter of a URL, from a flag.
type parameter struct {
	key, value string // without a value it is omitted
	flag       string // as written
}

// replaces reports whether q replaces a parameter of the URL.
func (q parameter) replaces(key string) bool {
	files := []string{"ca", "cert", "key"}
	switch q.key {
	case "certs":
		return key == "certs" || key == "insecure" || slices.Contains(files, key)
	case "insecure":
		return key == "insecure" || q.value != "" && (key == "certs" || slices.Contains(files, key))
	}
	return key == q.key
}

// parameters are the flags that were given, or whose variables were.
func (f *peerFlags) parameters() (all []parameter, err error) {
	for _, name := range peerFlagNames {
		flag := f.set.Lookup(name)
		value := flag.Value.String()
		given := flag.Changed
		switch name {
		case "promise", "heartbeat":
			given = given || value != "0s"
			if given && value == "0s" {
				return nil, exit.Usagef("--%s is 0; want a time such as 100ms", name)
			}
		case "priority":
			given = given || f.priority != flag.DefValue
			if n, err := strconv.Atoi(f.priority); f.priority != "never" && (err != nil || n < 1 || n > driver.MaxPriority) {
				return nil, exit.Usagef("--priority %s; want 1 to %d, or never for a peer that votes and never leads", f.priority, driver.MaxPriority)
			}
		case "position":
			given = given || value != ""
			if p := quorum.PositionPolicy(value); given && p != quorum.IgnorePosition && p != quorum.PreferPosition && p != quorum.RequirePosition {
				return nil, exit.Usagef("--position %q; want ignore, prefer or require", value)
			}
		case "insecure", "join", sharedPlace:
			on := map[string]bool{"insecure": f.insecure, "join": f.join, sharedPlace: f.shared}[name]
			given = given || on
			if value = ""; on {
				value = "true"
			}
		default:
			given = given || value != ""
			if given && value == "" {
				return nil, exit.Usagef("--%s is empty; leave it out, or give it a value", name)
			}
		}
		if !given {
			continue
		}
		shown := "--" + name
		if !flag.Changed {
			shown = variable(name)
		}
		all = append(all, parameter{name, value, shown})
	}
	if f.insecure && f.certs != "" {
		return nil, exit.Usagef("--insecure and --certs contradict each other; want one of them")
	}
	return all, nil
}

// escape escapes a value for a query, and keeps it readable.
func escape(value string) string {
	return strings.NewReplacer("%2F", "/", "%3A", ":", "%2C", ",", "%40", "@").Replace(url.QueryEscape(value))
}

// shownPeers is a peer URL for another process: with absolute paths. It holds no secrets: the text before each @ is
// an id, and key= names a file.
func shownPeers(u *url.URL) string {
	shown := *u
	pairs := strings.Split(u.RawQuery, "&")
	for i, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		switch key {
		case "data", "certs", "ca", "cert", "key":
			path, err := url.QueryUnescape(value)
			if err != nil || path == "" {
				continue
			}
			if abs, err := filepath.Abs(path); err == nil {
				pairs[i] = key + "=" + escape(abs)
			}
		}
	}
	shown.RawQuery = strings.Join(pairs, "&")
	return shown.String()
}

// ask resolves the place for a verb that needs peers, and returns a client of its nodes and the number of voters
// of the URL.
func (p *place) ask(openers elect.Openers, verb string) (c *peer.Client, voters int, err error) {
	if err := p.amongPeers(openers, verb); err != nil {
		return nil, 0, err
	}
	peers, cfg, err := p.peers()
	if err != nil {
		return nil, 0, err
	}
	cfg.Program = cli.Version()
	if c, err = peer.NewClient(peers, p.name, cfg); err != nil {
		return nil, 0, ofPeers(err, &cfg)
	}
	return c, len(peers), nil
}

// amongPeers resolves the place, and refuses the verb, without asking any server, if the election is not held among
// peers. In a group, too, a leader can be told to hand over.
func (p *place) amongPeers(openers elect.Openers, verb string) error {
	if err := p.resolve(openers); err != nil || p.isPeer() || verb == "transfer" && isGroup(p.election) {
		return err
	}
	scheme, _, _ := strings.Cut(p.election, ":")
	if openers[scheme] == nil {
		_, err := openers.Open(context.Background(), p.election, p.name, elect.Config{})
		return failed.Opening(err) // it says what is wrong with the URL
	}
	return failed.Backend(fmt.Errorf("%s: %w: %s: %s", verb, elect.ErrUnsupported, scheme, lacking(verb, scheme)))
}

// lacking says why the verb needs peers, and what to do instead.
func lacking(verb, scheme string) string {
	if verb == "members" && isGroup(scheme) {
		return "that is not for groups; want elect group members"
	}
	switch verb {
	case "history":
		return "nothing is kept there of past leaders; elect watch shows each change from now on"
	case "pause", "resume":
		return "no participant can be told there not to stand; to keep one from leading, end it"
	case "transfer":
		return "the next leader cannot be chosen there; elect resign hands over to any candidate that stands by"
	}
	return "elections there have no membership; elect status shows the leader"
}

const (
	// askTimeout bounds how long a verb waits for peers that do not answer.
	askTimeout = 5 * time.Second

	// orderTimeout bounds the whole conversation of a verb that gives an order.
	orderTimeout = 10 * time.Second
)

// within is the context of a verb that waits up to limit for an answer.
func within(cmd *cobra.Command, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(cmd.Context(), limit, fmt.Errorf("no answer within %v", limit))
}
