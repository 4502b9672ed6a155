package peer

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
)

const wantURL = "want one such as peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400?certs=/etc/elect/certs"

// parameters are the parameters of a URL.
var parameters = map[string]func(c *Config, value string) error{
	"listen":       text(func(c *Config) *string { return &c.Listen }),
	"data":         text(func(c *Config) *string { return &c.Data }),
	"cluster":      text(func(c *Config) *string { return &c.Cluster }),
	"certs":        text(func(c *Config) *string { return &c.Certs }),
	"ca":           text(func(c *Config) *string { return &c.CA }),
	"cert":         text(func(c *Config) *string { return &c.Cert }),
	"key":          text(func(c *Config) *string { return &c.Key }),
	"protocol":     text(func(c *Config) *string { return &c.Protocol }),
	"profile":      text(func(c *Config) *string { return &c.Profile }),
	"heartbeat":    duration(func(c *Config) *time.Duration { return &c.Heartbeat }),
	"promise":      duration(func(c *Config) *time.Duration { return &c.Promise }),
	"tenure":       duration(func(c *Config) *time.Duration { return &c.Tenure }),
	"insecure":     truth(func(c *Config) *bool { return &c.Insecure }),
	"join":         truth(func(c *Config) *bool { return &c.Join }),
	"shared-place": truth(func(c *Config) *bool { return &c.SharedPlace }),
	"era": func(c *Config, v string) (err error) {
		if c.Era, err = strconv.ParseUint(v, 10, 64); err != nil || c.Era > fence.MaxEra {
			return fmt.Errorf("%q; want a number from 0 to %d", v, uint64(fence.MaxEra))
		}
		return nil
	},
	"priority": func(c *Config, v string) error {
		if v == "never" {
			c.Priority = driver.NeverLead
			return nil
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > driver.MaxPriority {
			return fmt.Errorf("%q; want a number from 1 to %d, or never for a voter that never leads", v, driver.MaxPriority)
		}
		c.Priority = n
		return nil
	},
	"position": func(c *Config, v string) error {
		c.Position = v
		if p := quorum.PositionPolicy(v); p != quorum.IgnorePosition && p != quorum.PreferPosition && p != quorum.RequirePosition {
			return fmt.Errorf("%q; want %s, %s or %s", v, quorum.IgnorePosition, quorum.PreferPosition, quorum.RequirePosition)
		}
		return nil
	},
	"observers": func(c *Config, v string) (err error) {
		c.Observers, err = parsePeers(v, true)
		return err
	},
}

func text(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v == "" {
			return errors.New("it is empty; leave it out, or give it a value")
		}
		*field(c) = v
		return nil
	}
}

func truth(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, v string) (err error) {
		if *field(c), err = strconv.ParseBool(v); err != nil {
			return fmt.Errorf("%q; want true or false", v)
		}
		return nil
	}
}

func duration(field func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q; want a time such as 100ms or 2s", v)
		}
		*field(c) = d
		return nil
	}
}

// ParseURL reads a URL such as
//
//	peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400?certs=/etc/elect/certs&profile=fast
//
// into its voters and the rest. Each parameter sets the field of [Config] of its name: listen, data, shared-place,
// cluster, certs, ca, cert, key, insecure, protocol, profile, heartbeat, promise, era, priority (a number or never),
// tenure, position, join, and observers, such as o1,o2@host:port. The list is in Opaque, as elect.ParseURL makes it, or
// in user and host, as url.Parse does.
//
// Errors do not repeat the URL. Only the syntax is checked: [Config.Plan] checks the rest.
func ParseURL(u *url.URL) (voters []Peer, cfg Config, err error) {
	switch {
	case u == nil:
		return nil, cfg, errors.New("no URL; " + wantURL)
	case u.Scheme != "peer":
		return nil, cfg, fmt.Errorf("scheme %q; want peer", u.Scheme)
	case u.Fragment != "" || u.RawFragment != "":
		return nil, cfg, errors.New("a peer URL has no fragment")
	}
	authority, err := authorityOf(u)
	if err != nil {
		return nil, cfg, err
	}
	if voters, err = parsePeers(authority, false); err != nil {
		return nil, cfg, err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, cfg, fmt.Errorf("%w; the parameters are: %s", err, known())
	}
	for _, key := range slices.Sorted(maps.Keys(query)) {
		set := parameters[key]
		switch {
		case set == nil:
			return nil, cfg, fmt.Errorf("unknown parameter %q; want some of: %s", key, known())
		case len(query[key]) != 1:
			return nil, cfg, fmt.Errorf("%s is given %d times; want it once", key, len(query[key]))
		}
		if err := set(&cfg, query.Get(key)); err != nil {
			return nil, cfg, fmt.Errorf("%s: %w", key, err)
		}
	}
	return voters, cfg, nil
}

func known() string { return strings.Join(slices.Sorted(maps.Keys(parameters)), ", ") }

// authorityOf puts together what net/url took apart, or did not.
func authorityOf(u *url.URL) (string, error) {
	if u.Opaque != "" {
		list, _ := strings.CutPrefix(u.Opaque, "//")
		list, path, _ := strings.Cut(list, "/")
		if path != "" {
			return "", fmt.Errorf("a peer URL has no path, and this one has /%s; %s", path, wantURL)
		}
		list, err := url.PathUnescape(list)
		if err != nil {
			return "", fmt.Errorf("the list of voters: %w; %s", err, wantURL)
		}
		return list, nil
	}
	if u.Path != "" && u.Path != "/" {
		return "", fmt.Errorf("a peer URL has no path, and this one has %s; %s", u.EscapedPath(), wantURL)
	}
	list := u.Host
	if u.User != nil {
		user := u.User.Username()
		if rest, ok := u.User.Password(); ok {
			user += ":" + rest
		}
		list = user + "@" + list
	}
	return list, nil
}

// parsePeers reads a list such as n1@10.0.0.1:7400,n2@10.0.0.2:7400. Its errors do not repeat unreadable text before
// an @, which may be a password.
func parsePeers(list string, observers bool) ([]Peer, error) {
	if list == "" {
		if observers {
			return nil, errors.New("it is empty; want a list such as o1,o2@10.0.0.9:7400")
		}
		return nil, errors.New("no voters; " + wantURL)
	}
	var peers []Peer
	for i, item := range strings.Split(list, ",") {
		id, addr, found := strings.Cut(item, "@")
		switch {
		case item == "":
			return nil, fmt.Errorf("participant %d of the list is empty; %s", i+1, wantURL)
		case strings.Contains(addr, "@"):
			return nil, fmt.Errorf("participant %d of the list has more than one @; want id@host:port, and a comma before the next", i+1)
		case found && strings.Contains(id, ":"):
			return nil, fmt.Errorf("participant %d of the list has a : in its id; peers have no passwords: want id@host:port", i+1)
		case !found && observers:
			addr = ""
		case !found:
			return nil, fmt.Errorf("participant %d of the list, %q, has no id; want id@host:port, as in n%d@%s", i+1, item, i+1, item)
		}
		nodeID, err := protocol.ParseNodeID(id)
		if err != nil {
			return nil, fmt.Errorf("participant %d of the list: %w", i+1, err)
		}
		if found {
			if err := checkAddr(addr); err != nil {
				return nil, fmt.Errorf("%s: %w; want id@host:port, as in %s@10.0.0.%d:7400", nodeID, err, nodeID, i+1)
			}
		}
		if has(peers, nodeID) {
			return nil, fmt.Errorf("%s is listed twice; want each participant once", nodeID)
		}
		peers = append(peers, Peer{ID: id, Addr: addr})
	}
	return peers, nil
}
