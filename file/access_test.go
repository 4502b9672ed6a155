//go:build linux

package file

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/localfs"
)

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// nobody is an ordinary user.
const nobody = 65534

func asNobody(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// open lets every user pass through a test's temporary directory, and reach the
// test's program.
func open(t *testing.T, dir string) {
	t.Helper()
	for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for at := filepath.Dir(os.Args[0]); at != "/"; at = filepath.Dir(at) {
		if st, err := os.Stat(at); err == nil && st.Mode()&0o001 == 0 {
			if !strings.HasPrefix(filepath.Base(at), "b") && !strings.HasPrefix(filepath.Base(at), "go-build") {
				t.Skipf("another user cannot run the test's program: %s has mode %v", at, st.Mode())
			}
			if err := os.Chmod(at, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestOrdinaryUserIsToldWhatIsWrong(t *testing.T) {
	asRoot(t)
	for _, c := range []struct {
		name  string
		setup func(dir string) error
		want  string
	}{
		{"not writable", func(dir string) error { return nil }, "belongs to user 0 and group 0 with mode 0755"},
		{"another user's election", func(dir string) error { return os.Mkdir(dir+"/jobs", 0o700) }, "/jobs belongs to user 0 and group 0 with mode 0700"},
		{"another user's lock", func(dir string) error {
			if err := os.Mkdir(dir+"/jobs", 0o700); err != nil {
				return err
			}
			if err := os.WriteFile(dir+"/jobs/lock", nil, 0o600); err != nil {
				return err
			}
			return os.Chown(dir+"/jobs", nobody, nobody)
		}, "/jobs/lock belongs to user 0 and group 0 with mode 0600"},
		{"not a directory", func(dir string) error { return os.WriteFile(dir+"/jobs", nil, 0o644) }, "/jobs is not a directory"},
		{"closed parent", func(dir string) error { return os.Chmod(dir, 0o700) }, "belongs to user 0 and group 0 with mode 0700"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "elections")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			open(t, dir)
			if err := c.setup(dir); err != nil {
				t.Fatal(err)
			}
			_, _, line := helper(t, dir, asNobody)
			if !strings.HasPrefix(line, "error: ") || !strings.Contains(line, c.want) || !strings.Contains(line, "want ") {
				t.Errorf("%s\nwant %q", line, c.want)
			}
			t.Log(line)
		})
	}
}

// TestRootDoesNotLockOutTheOwner: root leads in the election of an ordinary
// user, which that user can then lead as well.
func TestRootDoesNotLockOutTheOwner(t *testing.T) {
	asRoot(t)
	dir := filepath.Join(t.TempDir(), "elections")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	e := shared(t, dir, io.Discard)
	release(t, campaign(t, e))
	_, stdin, line := helper(t, dir, asNobody)
	if line != "token: 2" {
		t.Fatalf("helper says %q", line)
	}
	if err := e.Resign(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	_ = stdin.Close()
	m := campaign(t, e)
	if m.Token() != 3 {
		t.Fatalf("token %v", m.Token())
	}
	release(t, m)
}

// TestGroup: the members of a group share an election whose directory the group
// may write.
func TestGroup(t *testing.T) {
	asRoot(t)
	dir := filepath.Join(t.TempDir(), "elections")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	const group = 54321
	if err := os.Chown(dir, 0, group); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	for i, uid := range []uint32{11111, 22222, 11111} {
		cmd, stdin, line := helper(t, dir, func(cmd *exec.Cmd) {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{group}}}
		})
		if want := fmt.Sprintf("token: %d", i+1); line != want {
			t.Fatalf("user %d: %q, want %q", uid, line, want)
		}
		st, err := os.Stat(filepath.Join(dir, "jobs", controlName))
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != 0o660 || st.Sys().(*syscall.Stat_t).Gid != group {
			t.Errorf("the control socket has mode %v and group %d", st.Mode(), st.Sys().(*syscall.Stat_t).Gid)
		}
		_ = stdin.Close()
		_ = cmd.Wait()
	}
}

// TestObserverWithoutPermission observes as an ordinary user, who may not look
// into the directory.
func TestObserverWithoutPermission(t *testing.T) {
	asRoot(t)
	dir := filepath.Join(t.TempDir(), "elections")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if err := os.Mkdir(dir+"/jobs", 0o750); err != nil {
		t.Fatal(err)
	}
	lead(t, elector(t, dir, "a"))
	_, _, line := helper(t, dir, func(cmd *exec.Cmd) {
		asNobody(cmd)
		cmd.Env = append(cmd.Env, helperVerbEnv+"=observe")
	})
	if !strings.HasPrefix(line, "stale, nobody: ") || !strings.Contains(line, "/jobs belongs to user 0 and group 0 with mode 0750") {
		t.Fatal(line)
	}
}

// mounted mounts a file system in memory, with room for a few files only.
func mounted(t *testing.T) string {
	t.Helper()
	asRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("elect-test", dir, "tmpfs", 0, "size=64k,mode=700"); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func TestReadOnlyFileSystem(t *testing.T) {
	dir := mounted(t)
	release(t, campaign(t, elector(t, dir, "a")))
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dir, dir + "/new"} {
		_, err := elector(t, dir, "b").Campaign(t.Context(), driver.Candidacy{})
		if !driver.IsPermanent(err) || !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), "want a directory on one that can be written") {
			t.Errorf("got %v", err)
		}
	}
	if s := observe(t, elector(t, dir, "o")); s.Stale || s.Leader != nil {
		t.Errorf("%+v, want no leader", s)
	}
}

func TestFullDisk(t *testing.T) {
	dir := mounted(t)
	e := elector(t, dir, "a")
	release(t, campaign(t, e))
	fill := func() {
		f, err := os.Create(dir + "/filler")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
	}
	fill()
	_, err := e.Campaign(t.Context(), driver.Candidacy{})
	if err == nil || driver.IsPermanent(err) || !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "free some space") {
		t.Fatalf("got %v, want a passing error", err)
	}
	if err := os.Remove(dir + "/filler"); err != nil {
		t.Fatal(err)
	}
	m := campaign(t, e)
	if m.Token() <= 1 {
		t.Fatalf("token %v", m.Token())
	}
	release(t, m)
}

// TestFailingDiskIsTriedAgain: a disk that fails may be mended, and so the error is
// not for good. It says what failed and where to look.
func TestFailingDiskIsTriedAgain(t *testing.T) {
	err := explain("fsync", "/x/counter", &os.PathError{Op: "sync", Path: "/x/counter", Err: unix.EIO})
	if driver.IsPermanent(err) || !errors.Is(err, unix.EIO) {
		t.Errorf("%v; want passing trouble that is EIO", err)
	}
	if want := "fsync /x/counter: input/output error; look at the disk and the kernel's log"; err.Error() != want {
		t.Errorf("%q; want %q", err, want)
	}
}

func TestMemoryIsMentioned(t *testing.T) {
	dir := mounted(t)
	var log harness.Buffer
	if _, err := New(dir, "jobs", "a", Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "after a reboot") {
		t.Errorf("log: %s", log.String())
	}
}

// TestReadableLock: a process that can read the lock can lock it. That is told, and
// the mode stays.
func TestReadableLock(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "jobs", lockName)
	release(t, campaign(t, elector(t, dir, "a")))
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	var log harness.Buffer
	release(t, campaign(t, shared(t, dir, &log)))
	if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v; want mode 0644, as it was", st.Mode(), err)
	}
	if !strings.Contains(log.String(), "every user can block this election by locking its file") {
		t.Errorf("log: %s", log.String())
	}
}

func TestNetworkFileSystemsAreRefused(t *testing.T) {
	if !refusesFUSE {
		t.Skip("this build lets FUSE pass")
	}
	for _, on := range []localfs.System{{Kind: localfs.Network, Name: "NFS"}, {Kind: localfs.FUSE, Name: "FUSE"}} {
		if err := refuse("/x", on); !driver.IsPermanent(err) || !strings.Contains(err.Error(), "/x is on "+on.Name) {
			t.Errorf("%+v: %v", on, err)
		}
	}
	for _, kind := range []localfs.Kind{localfs.Local, localfs.Memory} {
		if err := refuse("/x", localfs.System{Kind: kind}); err != nil {
			t.Errorf("%v: %v", kind, err)
		}
	}
}
