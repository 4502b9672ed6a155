//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/proc"
	"github.com/electd/elect/test/chaos/judge"
)

// Part is a part of a node.
type Part int

const (
	// Node is the process that was started: elect run, the program that uses the library, or the
	// guardian of a guarded one.
	Node Part = iota
	// Keeper kills the rest. A standby has a spare one; a Library node has none.
	Keeper
	// Child is the keeper's child: the command of a leader, or the guarded program itself.
	Child
	// Family is all processes of the node, with their descendants.
	Family
	// Voter is the process that takes part in the election: Child of a Guarded node, and Node of
	// the others.
	Voter
)

// String is the judge's name of the part; that of Voter is the part that it stands for.
func (p Part) String() string {
	switch p {
	case Node:
		return judge.PartNode
	case Keeper:
		return judge.PartKeeper
	case Child:
		return judge.PartChild
	case Family:
		return judge.PartFamily
	case Voter:
		return "voter"
	}
	return fmt.Sprintf("Part(%d)", int(p))
}

// ErrNone is returned for a part that a node does not have at the moment.
var ErrNone = errors.New("there is no such process")

// settle is how long a signal may take to have its effect.
const settle = 5 * time.Second

// plain is the part that Voter stands for in node i.
func (c *Cluster) plain(i int, part Part) Part {
	switch {
	case part != Voter:
		return part
	case c.cfg.kind(i) == Guarded:
		return Child
	}
	return Node
}

// grasp returns the processes of a part of node i; for Family the node first, then its keepers. The
// caller closes them.
func (c *Cluster) grasp(i int, part Part) ([]*process, error) {
	part = c.plain(i, part)
	front := c.Pid(i)
	all := c.find(func(p *process) bool { return p.node == i })
	rank := func(p *process) int {
		switch {
		case p.pid == front:
			return 0
		case p.name == keeperName:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b *process) int { return rank(a) - rank(b) })
	var want *process
	switch part {
	case Family:
		if len(all) > 0 {
			return all, nil
		}
	case Node:
		if len(all) > 0 && all[0].pid == front {
			want = all[0]
		}
	case Keeper, Child:
		var keeper, child *process
		for _, p := range all {
			if p.name == keeperName && p.ppid == front && keeper == nil {
				keeper = p // a spare one, if there is no other
			}
		}
		// The keeper's own child is its oldest one: it adopts what that leaves.
		for _, p := range all {
			k := slices.IndexFunc(all, func(k *process) bool { return k.name == keeperName && k.pid == p.ppid })
			if k >= 0 && p.name != keeperName && (child == nil || p.start < child.start) {
				keeper, child = all[k], p
			}
		}
		if want = child; part == Keeper {
			want = keeper
		}
	}
	all = slices.DeleteFunc(all, func(p *process) bool {
		if p == want {
			return false
		}
		p.close()
		return true
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("cluster: the %v of %s: %w", part, c.ID(i), ErrNone)
	}
	return all, nil
}

// Kill kills a part of node i with SIGKILL. All of Family are frozen first, so that they die at one
// instant, as in a power failure, except that the kernel closes their connections. When Kill
// returns they are dead.
func (c *Cluster) Kill(i int, part Part) error {
	if part == Family {
		return c.killFamily(i)
	}
	all, err := c.grasp(i, part)
	if err != nil {
		return err
	}
	defer closeAll(all)
	return all[0].signal(unix.SIGKILL)
}

func (c *Cluster) killFamily(i int) error {
	if err := c.freeze(i); err != nil {
		return err
	}
	all, err := c.grasp(i, Family)
	if err != nil {
		return err
	}
	defer closeAll(all)
	for _, p := range all {
		err = errors.Join(err, p.signal(unix.SIGKILL))
	}
	for _, p := range all {
		if !p.ended(settle) {
			err = errors.Join(err, fmt.Errorf("cluster: %s was killed, and has not ended: %s", c.ID(i), p.describe()))
		}
	}
	return err
}

// Stop freezes a part of node i with SIGSTOP, and returns when it is frozen. A keeper whose parent
// is not frozen is continued by it at once, so Stop does not wait for it, nor count it as frozen.
func (c *Cluster) Stop(i int, part Part) error {
	if part == Keeper && !stopped(c.Pid(i)) {
		return c.halt(i, part)
	}
	c.observe(judge.Event{Kind: judge.Stop, Node: i, Part: c.plain(i, part).String(), Pid: c.Pid(i)})
	c.freezing(i, part, true)
	err := c.halt(i, part)
	if errors.Is(err, ErrNone) && c.freezing(i, part, false) { // it was not frozen after all
		c.observe(judge.Event{Kind: judge.Cont, Node: i, Part: c.plain(i, part).String(), Pid: c.Pid(i)})
	}
	return err
}

func (c *Cluster) halt(i int, part Part) error {
	if part == Family {
		return c.freeze(i)
	}
	all, err := c.grasp(i, part)
	if err != nil {
		return err
	}
	defer closeAll(all)
	if part == Keeper && !stopped(c.Pid(i)) { // it is continued at once, and may never be seen stopped
		return all[0].signal(unix.SIGSTOP)
	}
	return c.stop(i, all[0])
}

// stopped reports whether a process is.
func stopped(pid int) bool {
	s, ok := proc.Read(pid)
	return ok && s.State == 'T'
}

// stop freezes one process.
func (c *Cluster) stop(i int, p *process) error {
	if err := p.signal(unix.SIGSTOP); err != nil {
		return err
	}
	for late := time.Now().Add(settle); !p.still(); {
		if time.Now().After(late) {
			return fmt.Errorf("cluster: %s was sent SIGSTOP, and goes on: %s", c.ID(i), p.describe())
		}
		p.ended(time.Millisecond)
	}
	return nil
}

// freeze stops all of node i: first the process that would continue its keeper, and then the others
// until none runs that could start more. One that waits in the kernel, as for a child that is to call exec and is
// stopped, counts when it has its signal: it stops before it runs again.
func (c *Cluster) freeze(i int) error {
	type identity struct{ pid, start int }
	sent := map[identity]bool{}
	for late := time.Now().Add(settle); ; {
		all, err := c.grasp(i, Family)
		if err != nil {
			return err
		}
		quiet := true
		for _, p := range all {
			id := identity{p.pid, p.start}
			if sent[id] && p.still() || p.ended(0) {
				continue
			}
			sent[id], quiet = true, false
			if err == nil {
				err = c.stop(i, p)
			}
		}
		closeAll(all)
		if err != nil || quiet {
			return err
		}
		if time.Now().After(late) {
			return fmt.Errorf("cluster: %s does not come to rest", c.ID(i))
		}
	}
}

// Cont undoes Stop. If the part has ended meanwhile, such as a command whose lease has ended, the
// error is ErrNone, and it is no longer frozen.
func (c *Cluster) Cont(i int, part Part) error {
	all, err := c.grasp(i, part)
	defer closeAll(all)
	if c.held(i, part) { // before anything resumes: a delay of this process excuses nothing
		c.observe(judge.Event{Kind: judge.Thaw, Node: i, Part: c.plain(i, part).String(), Pid: c.Pid(i)})
	}
	for _, p := range all {
		err = errors.Join(err, p.signal(unix.SIGCONT))
	}
	if c.freezing(i, part, false) {
		c.observe(judge.Event{Kind: judge.Cont, Node: i, Part: c.plain(i, part).String(), Pid: c.Pid(i)})
	}
	return err
}

// freezing records that a part is frozen, or resumes, and returns whether it was frozen.
func (c *Cluster) freezing(i int, part Part, on bool) (was bool) {
	n := c.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	part = c.plain(i, part)
	was = n.frozen[part]
	if part == Family && !on {
		was = len(n.frozen) > 0
		clear(n.frozen)
	} else if on {
		n.frozen[part] = true
	} else {
		delete(n.frozen, part)
	}
	return was
}

// held reports whether a part was frozen, or, for Family, any part.
func (c *Cluster) held(i int, part Part) bool {
	n := c.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.frozen[c.plain(i, part)] || part == Family && len(n.frozen) > 0
}

// Frozen reports whether any part of node i is stopped by Stop.
func (c *Cluster) Frozen(i int) bool {
	n := c.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.frozen) > 0
}
