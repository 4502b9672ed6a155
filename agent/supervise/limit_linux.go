package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise/internal/keeper"
)

// Limit bounds what each family may use of a resource: the value is written to the file NAME.max of its cgroup, such as
// "2G" to memory.max or "100" to pids.max. At its limit of memory the kernel kills the whole family, not one process of
// it. Limit is called before the first Start, once for each name. An error about what is missing matches [ErrContain];
// after any error that limit is not set.
//
// The kernel limits a cgroup only if no process is in the cgroup above it. So Limit moves this process, if necessary,
// into a new cgroup, elect-supervisors, beside those of the families. That cgroup is not removed.
//
// Source: "No Internal Process Constraint" in Documentation/admin-guide/cgroup-v2.rst of the Linux kernel.
func (c *Containment) Limit(name, value string) error {
	controller, _, _ := strings.Cut(name, ".")
	if controller == "" || strings.ContainsAny(name, "/\x00") || strings.TrimSpace(value) == "" {
		return fmt.Errorf("supervise: %s=%s is no limit; want the name of a limit of cgroups (v2) and its value, such as memory=2G or pids=100", name, value)
	}
	if slices.ContainsFunc(c.limits, func(l keeper.Limit) bool { return l.Name == name }) {
		return fmt.Errorf("supervise: the limit %s is set twice; want it once", name)
	}
	err := c.enable(controller)
	if err == nil {
		c.limits = append(c.limits, keeper.Limit{Name: name, Value: value})
		if err = c.try(); err == nil {
			return nil
		}
		c.limits = c.limits[:len(c.limits)-1]
	}
	if errors.Is(err, keeper.ErrValue) {
		return fmt.Errorf("supervise: limit %s=%s: %w", name, value, err)
	}
	return fmt.Errorf("%w: limit %s=%s: %w", ErrContain, name, value, err)
}

// supervisors is the cgroup of supervisors beside those of their families. No family has that name.
const supervisors = "elect-supervisors"

// enable turns a controller on for the cgroups of families.
func (c *Containment) enable(controller string) error {
	if err := c.needsCgroup("it"); err != nil {
		return err
	}
	has := func(file string) bool {
		text, _ := os.ReadFile(filepath.Join(c.parent, file))
		return slices.Contains(strings.Fields(string(text)), controller)
	}
	if has("cgroup.subtree_control") {
		return nil
	}
	if !has("cgroup.controllers") {
		return fmt.Errorf("%s/cgroup.controllers does not have %s; want it there: delegated (systemd: Delegate=%[2]s), and not in use by cgroups of version 1", c.parent, controller)
	}
	on := func() error {
		err := os.WriteFile(filepath.Join(c.parent, "cgroup.subtree_control"), []byte("+"+controller), 0)
		if err != nil {
			err = fmt.Errorf("%w; want a cgroup that is delegated to this user (systemd: Delegate=yes), and no other process in it", err)
		}
		return err
	}
	err := on()
	if errors.Is(err, unix.EBUSY) {
		if err = c.stepAside(); err == nil {
			err = on()
		}
	}
	return err
}

// stepAside moves this process out of the cgroup in which the families' cgroups are made.
func (c *Containment) stepAside() error {
	text, err := os.ReadFile(filepath.Join(c.parent, "cgroup.procs"))
	if err != nil {
		return err
	}
	for pid := range strings.FieldsSeq(string(text)) {
		if pid != strconv.Itoa(os.Getpid()) {
			return fmt.Errorf("process %s is in the cgroup %s, too; want this process alone in it, as in a unit of its own", pid, c.parent)
		}
	}
	aside := filepath.Join(c.parent, supervisors)
	if err := os.Mkdir(aside, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return os.WriteFile(filepath.Join(aside, "cgroup.procs"), []byte("0"), 0)
}
