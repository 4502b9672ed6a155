package keeper

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/proc"
)

// namespace are the bounds of a family in a pid namespace whose init is this keeper, beside others.
type namespace struct{ Bounds }

// Kill kills all others in the namespace at once. One that forks meanwhile dies before it has a child.
func (n namespace) Kill() bool {
	err := unix.Kill(-1, unix.SIGKILL)
	return n.Bounds.Kill() || err == nil || err == unix.ESRCH
}

// settle mounts a /proc of the own pid namespace if the parent has made one for this keeper, and one of mounts. Later
// mounts of the parent's namespace arrive in this one if they are shared, and none leaves it. The capability for that
// which is the user namespace's is not for the command.
func (k *keeper) settle() error {
	switch {
	case k.space == OfParent:
		return nil
	case os.Getpid() != 1:
		return unix.EINVAL
	}
	fd, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "")
	}
	if err == nil {
		err = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
	if err == nil {
		k.outer = fmt.Sprintf("self/fd/%d/", fd)
	}
	if err == nil && k.space == OwnUser {
		err = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	}
	if err == nil && k.space == OwnUser {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		none := [2]unix.CapUserData{}
		err = unix.Capset(&header, &none[0])
	}
	return err
}

// outside is the number of a process of the family in the pid namespace of the parent, or pid if it is not known.
func (k *keeper) outside(pid int) int {
	if k.outer == "" {
		return pid
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return pid
	}
	defer unix.Close(fd)
	info := proc.ReadFile(fmt.Sprintf("/proc/%sself/fdinfo/%d", k.outer, fd), make([]byte, 512))
	for line := range bytes.Lines(info) {
		if text, ok := bytes.CutPrefix(line, []byte("Pid:")); ok {
			if n, err := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil && n > 0 {
				return n
			}
		}
	}
	return pid
}

// reclaim gives the terminal back, and reports whether the family had it. In a pid namespace of its own the keeper has
// no number for the parent's group, and the parent takes the terminal back.
func (k *keeper) reclaim(tty int) bool {
	if k.outer == "" {
		return Reclaim(tty, k.pid, k.spec.Group)
	}
	group, err := Foreground(tty)
	return err == nil && group == k.pid
}
