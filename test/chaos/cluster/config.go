//go:build linux

package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/electd/elect/test/chaos/disk"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/network"
	"github.com/electd/elect/test/chaos/skew"
)

// Kind is the program of a node.
type Kind int

const (
	// Command is elect run with the worker's life as its command.
	Command Kind = iota
	// Library is a program that uses the library.
	Library
	// Guarded is such a program under a guardian, which kills the program's descendants, and
	// reports as a witness that they are dead.
	Guarded
)

func (k Kind) String() string {
	switch k {
	case Command:
		return "command"
	case Library:
		return "library"
	case Guarded:
		return "guarded"
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// File is Config.Election of candidates on one machine.
const File = "file"

// DefaultName is the name of an election without one in Config.
const DefaultName = "chaos"

// maxNodes is how many voters a peer election can have.
const maxNodes = 9

// Config describes a cluster. Dir, Programs and Voters are required, and Network for an election
// among peers; for other fields zero means the documented default.
type Config struct {
	Dir      string          // of the run; exists, absolute
	Network  network.Network // of Size nodes; not closed by the cluster
	Programs Programs
	Next     *Programs // another version, see Upgrade; nil: none

	Voters int                 // founders: the nodes 0 to Voters-1; in a file election all candidates
	Size   int                 // all nodes; 0: Voters. Those beyond Voters join later
	Kind   func(node int) Kind // nil: all are commands

	Election           string        // "": among peers; [File]: on one machine
	Name               string        // "": [DefaultName]
	Promise, Heartbeat time.Duration // 0: the profile's
	Profile            string        // "": the default one
	Protocol           string        // "": quorum
	Params             url.Values    // further parameters of every node's URL

	Disk      func(node int) disk.Disk                           // where its data is; nil: Dir/data
	Clock     func(node int) *skew.Clock                         // its clock; nil, or a nil clock: the computer's
	Namespace func(node int) (boottime, monotonic time.Duration) // offsets of its time namespace; nil, or both 0: none
	Env       func(node int) []string                            // further environment; nil: none

	Again   time.Duration     // the pause before a node that ended unasked is restarted; 0: none
	Observe func(judge.Event) // called for each start, end, stop and continuation, by any goroutine; may be nil
}

// check validates the configuration, and fills in derived fields.
func (c *Config) check() error {
	c.Size = max(c.Size, c.Voters)
	c.Name = cmp.Or(c.Name, DefaultName)
	switch {
	case c.Dir == "" || c.Programs.Elect == "" || c.Programs.Worker == "":
		return errors.New("want Dir, and both Programs")
	case c.Voters < 1:
		return errors.New("want at least one of Voters")
	case c.Election != "" && c.Election != File:
		return fmt.Errorf("an election of the kind %q; want none, or %q", c.Election, File)
	case c.Election == File && c.Size != c.Voters:
		return fmt.Errorf("%d of %d candidates of a file election would join later; there all may stand at once", c.Size-c.Voters, c.Size)
	case c.Election == "" && c.Size > maxNodes:
		return fmt.Errorf("%d nodes; want at most %d", c.Size, maxNodes)
	case c.Election == "" && c.Network == nil:
		return errors.New("an election among peers wants a Network")
	case c.Election == "" && c.Network.Size() < c.Size:
		return fmt.Errorf("%d nodes on a network of %d", c.Size, c.Network.Size())
	}
	return nil
}

func (c *Config) kind(i int) Kind {
	if c.Kind == nil {
		return Command
	}
	return c.Kind(i)
}
