package keeper

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

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

// alone reports whether no other process of the keeper's namespace is alive. A process that has entered is no child of
// the keeper, and may stay a zombie for as long as its parent outside wants. A process of another user, which the
// keeper may not kill, does not count: the kernel kills it when the keeper ends.
func (k *keeper) alone() bool {
	if k.outer == nil || unix.Kill(-1, 0) == unix.ESRCH {
		return true
	}
	l := Lineage{Buf: make([]byte, 4096)}
	seen := false // the keeper itself; else /proc cannot be read
	for _, pid := range l.Numbers("/proc") {
		if pid == os.Getpid() {
			seen = true
		} else if s, ok := proc.Read(pid); ok && !s.Dead() && unix.Kill(pid, 0) != unix.EPERM {
			return false
		}
	}
	return seen
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
	o, err := openOuter()
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "")
	}
	if err == nil {
		err = mountProc()
	}
	if err == nil && k.space == OwnUser {
		err = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	}
	if err == nil && k.space == OwnUser {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		none := [2]unix.CapUserData{}
		err = unix.Capset(&header, &none[0])
	}
	k.outer = o
	return err
}

// mountProc replaces /proc. It removes the parent's, which a command that may unmount would find beneath the new one.
// In a user namespace neither this process nor the command can remove the parent's.
func mountProc() error {
	fs, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return err
	}
	at, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	for unix.Unmount("/proc", unix.MNT_DETACH) == nil {
	}
	return unix.MoveMount(at, "", unix.AT_FDCWD, "/proc", unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// outer tells the init of a pid namespace about the namespace above it. It keeps single files of the parent's /proc
// open, and no directory: through /proc/1/fd, a command with the rights of root can reach what its keeper has open.
type outer struct {
	slot, info   int // a descriptor for a pidfd, and its file in fdinfo, which tells the number of the process
	status, stat int // the parent's files; -1 is none
}

// openOuter needs the parent's /proc.
func openOuter() (*outer, error) {
	self, ok := proc.ReadAt("self")
	if !ok {
		return nil, unix.ENOENT
	}
	o := &outer{}
	var err error
	if o.slot, err = unix.PidfdOpen(os.Getpid(), 0); err != nil {
		return nil, err
	}
	for _, file := range []struct {
		fd   *int
		path string
	}{
		{&o.status, fmt.Sprintf("/proc/%d/status", self.Parent)}, // hidepid may hide the parent's
		{&o.stat, fmt.Sprintf("/proc/%d/stat", self.Parent)},
		{&o.info, fmt.Sprintf("/proc/self/fdinfo/%d", o.slot)},
	} {
		*file.fd, err = unix.Open(file.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	return o, err
}

// number returns the number of a process in the pid namespace of the parent.
func (o *outer) number(pidfd int) (int, error) {
	if err := unix.Dup3(pidfd, o.slot, unix.O_CLOEXEC); err != nil {
		return 0, err
	}
	info, err := readAgain(o.info)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(info) {
		if text, ok := bytes.CutPrefix(line, []byte("Pid:")); ok {
			if n, err := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil && n > 0 {
				return n, nil
			}
		}
	}
	return 0, unix.ESRCH
}

// readAgain reads a file of /proc from its beginning.
func readAgain(fd int) ([]byte, error) {
	buf := make([]byte, 4096)
	for {
		if n, err := unix.Pread(fd, buf, 0); err != unix.EINTR {
			return buf[:max(n, 0)], err
		}
	}
}

// fork starts the command, and returns its number in the pid namespace of the parent. If it cannot learn the number, it
// kills the command; what the command has started dies with this process.
func (k *keeper) fork(attr *syscall.ProcAttr) (outside int, err error) {
	fd := -1
	if k.outer != nil {
		attr.Sys.PidFD = &fd
	}
	k.pid, err = k.forkExec(attr)
	if err != nil || k.outer == nil {
		return k.pid, err
	}
	defer unix.Close(fd)
	if outside, err = k.outer.number(fd); err != nil {
		k.bounds.Kill()
		KillUntilEmpty(k.bounds)
	}
	return outside, err
}

// outside names a process of the family by its number in the pid namespace of the parent.
func (k *keeper) outside(pid int) string {
	if k.outer == nil {
		return strconv.Itoa(pid)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		defer unix.Close(fd)
		if n, err := k.outer.number(fd); err == nil {
			return strconv.Itoa(n)
		}
	}
	return fmt.Sprintf("%d of its pid namespace", pid)
}

// parentDies reports whether the parent was killed: see dying. In a pid namespace it looks at the main thread alone.
func (k *keeper) parentDies() bool {
	if k.outer == nil {
		return dying(strconv.Itoa(k.spec.Parent))
	}
	status, err := readAgain(k.outer.status)
	if err == nil && killPending(string(status)) {
		return true
	}
	stat, err := readAgain(k.outer.stat)
	s, ok := proc.Parse(stat)
	return err == nil && ok && exits(s)
}

// reclaim gives the terminal back, and reports whether the family had it. In a pid namespace of its own the keeper has
// no number for the parent's group, and the parent takes the terminal back.
func (k *keeper) reclaim(tty int) bool {
	if k.outer == nil {
		return Reclaim(tty, k.pid, k.spec.Group)
	}
	group, err := Foreground(tty)
	return err == nil && group == k.pid
}
