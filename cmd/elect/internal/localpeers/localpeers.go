// Package localpeers prepares an election among peers of this machine, for the benchmarks and the demo: certificates of
// a CA of its own, a data directory for each node, free ports of loopback and, if configured, cables by which a node
// can be cut off. It starts no node.
//
// Peers may be used by any number of goroutines. Close ends its cables and removes nothing: the caller owns the
// directory.
package localpeers

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/peer/certs"
)

// Cluster is the default cluster id.
const Cluster = "bench"

// Config configures Peers. Voters is at least 1; Dir and Profile are required.
type Config struct {
	Dir       string // exists, and belongs to these peers alone
	Profile   string
	Voters    int
	Observers int
	Cables    bool // between each two nodes, so that any of them can be cut off

	Cluster string        // "" is [Cluster]
	Valid   time.Duration // of the certificates; 0 is [certs.DefaultValid]
}

// Peers is what an election among peers of this machine needs. Make it with [New].
type Peers struct {
	cfg    Config
	ids    []string // voters first
	addr   map[string]string
	cables map[way]*cable.Cable

	mu  sync.Mutex
	cut map[string]bool // the nodes that are cut off
}

// way is the direction from one node to another.
type way struct{ from, to string }

// New makes certificates and cables, and chooses ports.
func New(cfg Config) (*Peers, error) {
	cfg.Cluster = cmp.Or(cfg.Cluster, Cluster)
	r := &Peers{cfg: cfg, addr: map[string]string{}, cables: map[way]*cable.Cable{}, cut: map[string]bool{}}
	for i := range cfg.Voters {
		r.ids = append(r.ids, "n"+strconv.Itoa(i+1))
	}
	for i := range cfg.Observers {
		r.ids = append(r.ids, "o"+strconv.Itoa(i+1))
	}
	ports, err := freePorts(len(r.ids))
	if err != nil {
		return nil, err
	}
	options := certs.Options{Cluster: cfg.Cluster, Valid: cfg.Valid}
	for i, id := range r.ids {
		r.addr[id] = "127.0.0.1:" + strconv.Itoa(ports[i])
		options.Nodes = append(options.Nodes, certs.Node{ID: id, Hosts: []string{"127.0.0.1"}})
	}
	if err := certs.Make(r.certs(), options); err != nil {
		return nil, err
	}
	if !cfg.Cables {
		return r, nil
	}
	for _, from := range r.ids {
		for _, to := range r.ids {
			if from == to {
				continue
			}
			if r.cables[way{from, to}], err = cable.New(r.addr[to]); err != nil {
				delete(r.cables, way{from, to})
				return nil, errors.Join(err, r.Close())
			}
		}
	}
	return r, nil
}

func (r *Peers) certs() string { return filepath.Join(r.cfg.Dir, "certs") }

// IDs are those of all nodes, voters first.
func (r *Peers) IDs() []string { return slices.Clone(r.ids) }

// Voters are the ids of the voters.
func (r *Peers) Voters() []string { return slices.Clone(r.ids[:r.cfg.Voters]) }

// Observers are the ids of the observers.
func (r *Peers) Observers() []string { return slices.Clone(r.ids[r.cfg.Voters:]) }

// URL is the election's URL for a node. For an id of no node it is that of an operator, who bypasses the cables.
func (r *Peers) URL(id string) string {
	_, node := r.addr[id]
	return r.url(id, node)
}

// Direct is the election's URL without cables, for people who start nodes by hand when the peers are closed.
func (r *Peers) Direct() string { return r.url("", true) }

// url is the election's URL for a node, or without cables for others.
func (r *Peers) url(from string, data bool) string {
	list := func(ids []string) string {
		var all []string
		for _, to := range ids {
			addr := r.addr[to]
			if c := r.cables[way{from, to}]; c != nil {
				addr = c.Addr()
			}
			all = append(all, to+"@"+addr)
		}
		return strings.Join(all, ",")
	}
	q := url.Values{"certs": {r.certs()}, "profile": {r.cfg.Profile}, "cluster": {r.cfg.Cluster}}
	if data {
		q.Set("data", filepath.Join(r.cfg.Dir, "data"))
	}
	if r.cfg.Observers > 0 {
		q.Set("observers", list(r.Observers()))
	}
	return "peer://" + list(r.Voters()) + "?" + q.Encode()
}

// Cut cuts a node off from all others, both ways, until [Peers.Heal].
func (r *Peers) Cut(id string) { r.set(id, true) }

// Heal undoes Cut. The node stays cut off from nodes that are cut off themselves.
func (r *Peers) Heal(id string) { r.set(id, false) }

// set cuts and heals cables: a cable is cut while either end is.
func (r *Peers) set(id string, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut[id] = cut
	for w, c := range r.cables {
		switch {
		case w.from != id && w.to != id:
		case r.cut[w.from] || r.cut[w.to]:
			c.Cut()
		default:
			c.Heal()
		}
	}
}

// Close ends the cables.
func (r *Peers) Close() error {
	var errs []error
	for _, c := range r.cables {
		errs = append(errs, c.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("a cable was not closed: %w", err)
	}
	return nil
}
