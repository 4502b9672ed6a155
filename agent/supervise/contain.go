package supervise

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/electd/elect/agent/supervise/internal/keeper"
)

// Level is how the family of a command is held together, so that all of it can be killed
// and is known to be dead: docs/containment.md says what each level covers.
type Level byte

// The levels of containment.
const (
	Auto   Level = iota // Cgroup where it works, else Sweep
	Sweep               // the keeper walks over its descendants and kills them one by one
	Cgroup              // the family is in a cgroup (v2) of its own as well, which the kernel kills at once
	Pid                 // the keeper is the init of a pid namespace, in a cgroup where that works: the family dies with it
)

// ParseLevel reads "auto", "sweep", "cgroup" or "pid".
func ParseLevel(s string) (Level, error) {
	for l := Auto; l <= Pid; l++ {
		if s == l.String() {
			return l, nil
		}
	}
	return 0, fmt.Errorf("level of containment %q is unknown; want auto, sweep, cgroup or pid", s)
}

// String is what ParseLevel reads.
func (l Level) String() string { return [...]string{"auto", "sweep", "cgroup", "pid"}[l] }

// ErrContain is what Contain returns if this process cannot have the level that it wants.
// The error says what is missing.
var ErrContain = errors.New("supervise: the family cannot be contained")

// Containment is a level that this process has, for Command.Containment. It may be used by
// any number of commands at a time.
type Containment struct {
	level   Level
	cgroup  bool                 // families have cgroups
	auto    bool                 // a command that cannot have a cgroup is started without one
	user    bool                 // the pid namespace needs a user namespace
	network bool                 // guarded
	allow   []keeper.Destination // where packets may go in spite of that; port 0 is any
	limits  []keeper.Limit       // of each family
	missing error                // why there are no cgroups, if they were to be tried
	parent  string               // the directory in which cgroups are made
	prefix  string               // of their names
	log     *slog.Logger
}

// Level is the level in force, never Auto. That of nil is Sweep.
func (c *Containment) Level() Level {
	if c == nil {
		return Sweep
	}
	return c.level
}

// String is the level in force, and for Pid whether there are cgroups as well.
func (c *Containment) String() string {
	if c.Level() == Pid && c.cgroup {
		return "pid and cgroup"
	}
	return c.Level().String()
}

// Bare is the same containment without limits and without a network guard, for commands beside the work. That of nil is
// nil.
func (c *Containment) Bare() *Containment {
	if c == nil {
		return nil
	}
	bare := *c
	bare.network, bare.allow, bare.limits = false, nil, nil
	return &bare
}

// Network reports whether the network is guarded: see GuardNetwork.
func (c *Containment) Network() bool { return c != nil && c.network }

// Missing says what cgroups would need, if Auto became Sweep or Pid has none; else it is nil.
func (c *Containment) Missing() error {
	if c == nil {
		return nil
	}
	return c.missing
}
