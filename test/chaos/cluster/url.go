//go:build linux

package cluster

import (
	"maps"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/electd/elect/test/chaos/network"
	"github.com/electd/elect/test/chaos/skew"
)

// cluster is the cluster's name in the certificates.
const cluster = "chaos"

// grace is how long a command has from SIGTERM to its end.
const grace = "50ms"

// ID is the id of node i: node 0 is n1.
func (c *Cluster) ID(i int) string { return "n" + strconv.Itoa(i+1) }

// Index is the number of the node with that id; -1 if there is none.
func (c *Cluster) Index(id string) int {
	for i := range c.cfg.Size {
		if c.ID(i) == id {
			return i
		}
	}
	return -1
}

// Addr is the address of node i, which elect member add and replace need with its id.
func (c *Cluster) Addr(i int) string { return c.cfg.Network.Addr(i) }

// Data is the parent of node i's data directory.
func (c *Cluster) Data(i int) string { return c.nodes[i].data }

// URL is the election's URL for node i, or, if i is network.Operator, for an operator that reaches
// all nodes. It belongs to the --name of Name.
func (c *Cluster) URL(i int) string {
	if i < 0 {
		return c.url(i, false)
	}
	n := c.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	return c.url(i, n.join)
}

func (c *Cluster) url(i int, join bool) string {
	if c.cfg.Election == File {
		return "file:" + filepath.Join(c.cfg.Dir, "elections")
	}
	q := url.Values{"certs": {c.certs()}}
	maps.Copy(q, c.cfg.Params)
	for _, p := range []struct{ name, value string }{
		{"profile", c.cfg.Profile}, {"protocol", c.cfg.Protocol}, {"promise", duration(c.cfg.Promise)}, {"heartbeat", duration(c.cfg.Heartbeat)},
	} {
		if p.value != "" {
			q.Set(p.name, p.value)
		}
	}
	var list []string
	if i == network.Operator {
		for to := range c.cfg.Size {
			list = append(list, c.ID(to)+"@"+c.cfg.Network.OperatorAddr(to))
		}
		return "peer://" + strings.Join(list, ",") + "?" + q.Encode()
	}
	for to := range c.cfg.Voters {
		list = append(list, c.ID(to)+"@"+c.cfg.Network.Addr(to))
	}
	if i >= c.cfg.Voters {
		list = append(list, c.ID(i)+"@"+c.cfg.Network.Addr(i))
	}
	if join {
		q.Set("join", "true")
	}
	q.Set("data", c.Data(i))
	q.Set("listen", c.cfg.Network.Listen(i))
	return "peer://" + strings.Join(list, ",") + "?" + q.Encode()
}

// Name is the election's name.
func (c *Cluster) Name() string { return c.cfg.Name }

func (c *Cluster) certs() string { return filepath.Join(c.cfg.Dir, "certs") }

func duration(d interface{ String() string }) string {
	if text := d.String(); text != "0s" {
		return text
	}
	return ""
}

// command is the command of node i, with the programs p, in the election at.
func (c *Cluster) command(i int, p Programs, at string) *exec.Cmd {
	place := []string{"--election", at, "--name", c.cfg.Name, "--id", c.ID(i)}
	if c.cfg.Protocol != "" && c.cfg.Protocol != "quorum" {
		place = append(place, "--exclusive=false") // the others prove no lease
	}
	var program string
	var args []string
	switch c.cfg.kind(i) {
	case Command:
		program, args = p.Elect, slices.Concat([]string{"run"}, place, []string{"--restart", "always", "--grace", grace, "--", p.Worker, "life"})
	case Library:
		program, args = p.Worker, slices.Concat([]string{"guarded"}, place)
	case Guarded:
		program, args = p.Worker, slices.Concat([]string{"guarded"}, place, []string{"--guardian"})
	}
	cmd := exec.Command(program, args...)
	if c.cfg.Election != File {
		cmd = c.cfg.Network.Command(i, program, args...)
	}
	if c.cfg.Namespace != nil {
		if boot, mono := c.cfg.Namespace(i); boot != 0 || mono != 0 {
			cmd = skew.TimeNamespace(cmd, boot, mono)
		}
	}
	cmd.Env = append(cmd.Environ(), c.environment(i)...)
	return cmd
}

// environment is the environment of node i without the marks.
func (c *Cluster) environment(i int) []string {
	var env []string
	if c.cfg.Clock != nil {
		if clock := c.cfg.Clock(i); clock != nil {
			env = append(env, clock.Env())
		}
	}
	if c.cfg.Env != nil {
		env = append(env, c.cfg.Env(i)...)
	}
	return env
}
