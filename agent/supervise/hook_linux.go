package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise/internal/keeper"
)

const (
	// hookMark begins what is behind the prefix in the name of a hook's cgroup. No hexadecimal digit is like it.
	hookMark = "h"

	// hookPids is the greatest number of processes and threads of one run of a hook.
	hookPids = "256"

	// hookPatience is how long Contain waits for what hooks of dead processes have left. No family waits for it.
	hookPatience = 5 * time.Second
)

// RunHook runs a command that is no family, such as a health check, as [exec.Cmd.Run] does. The kernel kills its
// process, though not what that has started, when this process dies. Where families have cgroups, the hook has one of
// its own, without their limits and their network guard. There may be at most 256 processes and threads in it, if the
// controller pids is on for the cgroups of families. When cmd has ended, all that is left in the cgroup is killed, and
// RunHook waits at most for patience until it is dead. What is left when this process is killed is killed by the next
// Contain of that name. c may be nil. Any number of goroutines may call RunHook. cmd.SysProcAttr is replaced by a copy.
func (c *Containment) RunHook(cmd *exec.Cmd, patience time.Duration) error {
	runtime.LockOSThread() // to the kernel the death of the thread that forked is that of this process
	defer runtime.UnlockOSThread()
	attr := &syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		*attr = *cmd.SysProcAttr
	}
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = attr
	if c == nil || !c.cgroup {
		return cmd.Run()
	}
	g, err := c.makeHook()
	switch {
	case err == nil:
	case c.auto:
		c.log.Warn("a hook is started without a cgroup", "error", err)
		return cmd.Run()
	default:
		return fmt.Errorf("%w: %w", ErrContain, err)
	}
	defer g.Remove()
	g.Enter(attr)
	err = cmd.Run()
	begun := time.Now()
	for dead := false; !dead || !reaped(g.Path); {
		g.Kill() // again and again, because another process may enter
		dead = keeper.AwaitEmpty(g, 50*time.Millisecond)
		if time.Since(begun) >= patience {
			break
		}
		if dead {
			time.Sleep(shortestLook)
		}
	}
	return err
}

// makeHook makes the cgroup of one run of a hook.
func (c *Containment) makeHook() (*keeper.Cgroup, error) {
	bare := Containment{parent: c.parent, prefix: c.prefix + hookMark}
	g, err := bare.make(context.Background())
	if err != nil {
		return nil, err
	}
	if err := g.Limit([]keeper.Limit{{Name: "pids", Value: hookPids}}); err != nil && !errors.Is(err, fs.ErrNotExist) {
		g.Remove()
		return nil, err
	}
	return g, nil
}

// endHook kills what a dead process has left of a hook. If that does not die in time it goes on: no term depends on it.
func (c *Containment) endHook(ctx context.Context, path string) error {
	limited, stop := context.WithTimeout(ctx, hookPatience)
	defer stop()
	err := c.end(limited, path)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		c.log.Warn("processes of a hook of an earlier run were killed, and are alive", "cgroup", path)
		return nil
	}
	return err
}

// reaped reaps the children of this process that are or were in a cgroup, those included that it has adopted, and
// reports whether there were none.
func reaped(path string) bool {
	none := true
	name := "/" + filepath.Base(path) + "/"
	l := keeper.Lineage{Root: os.Getpid()}
	l.Look()
	// While the lists are read, an orphan moves from the list of one thread to that of another once at most.
	for range 2 {
		for _, pid := range l.Children(l.Root) {
			keepers.Lock()                                                   // nobody else reaps what this process has adopted
			text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup") // a zombie's is the one that it was in
			_, at, v2 := strings.Cut("\n"+string(text), "\n0::")
			at, _, _ = strings.Cut(at, "\n")
			if v2 && strings.Contains(strings.TrimSuffix(at, " (deleted)")+"/", name) {
				none = false
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG|unix.WALL, nil)
			}
			keepers.Unlock()
		}
	}
	return none
}
