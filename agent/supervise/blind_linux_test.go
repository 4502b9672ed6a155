package supervise_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
)

// blind tries to supervise a command where /proc is wrong. Argument: unshare=yes, to have
// only its children in another namespace.
func blind(args []string) {
	if parseArgs(args)["unshare"] == "yes" {
		check(unix.Unshare(unix.CLONE_NEWPID))
	} else if err := supervise.AdoptOrphans(); !errors.Is(err, supervise.ErrProc) {
		check(fmt.Errorf("AdoptOrphans: %v; want ErrProc", err))
	}
	_, err := supervise.Start(context.Background(), supervise.Command{Path: "/bin/sh", Args: []string{"sh", "-c", "echo THE COMMAND RAN >&2"}, Stderr: os.Stderr})
	if !errors.Is(err, supervise.ErrProc) {
		check(fmt.Errorf("Start: %v; want ErrProc", err))
	}
}

// TestWrongProc: nothing is started where the keeper could not find whom to kill.
func TestWrongProc(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT RUN: a pid namespace needs root")
	}
	exe := program(t)
	for _, c := range []struct {
		name  string
		cmd   *exec.Cmd
		flags uintptr
	}{
		{"another namespace's", exec.Command(exe), syscall.CLONE_NEWPID},
		{"none", exec.Command("/bin/sh", "-c", `mount -t tmpfs none /proc && exec "$@"`, "sh", exe), syscall.CLONE_NEWNS | syscall.CLONE_NEWPID},
		{"another namespace's to the keeper", exec.Command(exe, "unshare=yes"), syscall.CLONE_NEWNS},
	} {
		t.Run(c.name, func(t *testing.T) {
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			if err != nil {
				t.Fatal(err)
			}
			c.cmd.Env = partEnv("blind")
			c.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: c.flags}
			if out, err := c.cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "RAN") { // the race detector warns where there is no /proc
				t.Errorf("%v: %s", err, out)
			}
			if after, err := os.ReadFile("/proc/self/mountinfo"); err != nil || !bytes.Equal(after, mounts) {
				t.Errorf("the mounts of this process were changed (%v):\n%s\nbefore:\n%s", err, after, mounts)
			}
		})
	}
}
