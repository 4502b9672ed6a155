//go:build linux

package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/file/internal/durable"
)

// bystander is a directory of root that an attack is to reach, with a file in it. It
// fails the test if anything about the two has changed at its end.
func bystander(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bystander")
	do(t, os.Mkdir(dir, 0o755), os.WriteFile(dir+"/file", []byte("theirs"), 0o644))
	before := inodes(t, dir)
	t.Cleanup(func() {
		if after := inodes(t, dir); after != before {
			t.Errorf("the bystander was\n%s\nand is\n%s", before, after)
		}
	})
	return dir
}

// inodes tells of a directory and all that is in it what an attack could change.
func inodes(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	do(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := os.Lstat(path)
		if err == nil {
			fmt.Fprintln(&all, path, st.Mode(), statOf(st).Uid, statOf(st).Gid, st.Size(), st.ModTime())
		}
		return err
	}))
	return all.String()
}

func statOf(info os.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

func do(t *testing.T, all ...error) {
	t.Helper()
	if err := errors.Join(all...); err != nil {
		t.Fatal(err)
	}
}

// refuses campaigns, which must end for good, without waiting, with such an error.
func refuses(t *testing.T, e *Elector, want string) {
	t.Helper()
	v := receive(t, stand(t.Context(), e), "the refusal")
	if v.err == nil {
		release(t, v.m)
	}
	if !driver.IsPermanent(v.err) || !errors.Is(v.err, fs.ErrPermission) || !strings.Contains(v.err.Error(), want) || !strings.Contains(v.err.Error(), "want ") {
		t.Errorf("%v; want a refusal for good with %q", v.err, want)
	}
}

// TestLinkBelowThePlace: an election's directory that is a link to another one.
func TestLinkBelowThePlace(t *testing.T) {
	target, dir := bystander(t), t.TempDir()
	do(t, os.Symlink(target, dir+"/jobs"))
	refuses(t, elector(t, dir, "a"), "/jobs is a link")
	refuses(t, shared(t, dir, io.Discard), "/jobs is a link")
	if s := observe(t, elector(t, dir, "o")); !s.Stale || s.Leader != nil || !strings.Contains(s.Cause.Error(), "/jobs is a link") {
		t.Errorf("%+v; want a stale state that names the link", s)
	}
}

// TestLinkOfAnotherUser: as root, in the directory of an ordinary user.
func TestLinkOfAnotherUser(t *testing.T) {
	asRoot(t)
	target, dir := bystander(t), t.TempDir()
	do(t, os.Symlink(target, dir+"/jobs"), os.Chown(dir, nobody, nobody))
	refuses(t, elector(t, dir, "a"), dir+" belongs to user 65534")
	refuses(t, shared(t, dir, io.Discard), "/jobs is a link")
}

// TestLinkedPlace: who runs the program chooses the place, and its links.
func TestLinkedPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	do(t, os.Mkdir(dir+"/real", 0o700), os.Symlink("real", dir+"/link"), os.Symlink(dir+"/link", dir+"/again"))
	for _, path := range []string{"link", "again", "again/below"} {
		release(t, campaign(t, elector(t, dir+"/"+path, "a")))
	}
	if _, err := os.Lstat(dir + "/real/below/jobs/lock"); err != nil {
		t.Error(err)
	}
}

// protectsLinks reports whether the kernel itself lets no user follow such a link, as most
// systems are set up: proc_sys_fs(5), protected_symlinks.
func protectsLinks() bool {
	text, err := os.ReadFile("/proc/sys/fs/protected_symlinks")
	return err == nil && strings.TrimSpace(string(text)) != "0"
}

// TestRootRefusesWhatOthersCanWrite: as root, unless it is said that they may.
func TestRootRefusesWhatOthersCanWrite(t *testing.T) {
	asRoot(t)
	for _, c := range []struct {
		name   string
		change func(dir string) error // of dir, where the place is dir/place
		want   string
	}{
		{"the place is another user's", func(dir string) error { return os.Chown(dir+"/place", nobody, 0) }, "/place belongs to user 65534"},
		{"a group can write", func(dir string) error { return os.Chmod(dir+"/place", 0o770) }, "/place has mode 0770"},
		{"all can write, sticky", func(dir string) error { return os.Chmod(dir+"/place", 0o777|os.ModeSticky) }, "/place has mode 1777"},
		{"the directory above is another user's", func(dir string) error { return os.Chown(dir, nobody, 0) }, " belongs to user 65534, who can exchange"},
		{"all can rename above", func(dir string) error { return os.Chmod(dir, 0o777) }, " has mode 0777, so that other users can exchange"},
		{"the election is another user's", func(dir string) error { return os.Chown(dir+"/place/jobs", nobody, 0) }, "/place/jobs belongs to user 65534"},
		{"all can write the election", func(dir string) error { return os.Chmod(dir+"/place/jobs", 0o777|os.ModeSticky) }, "/place/jobs has mode 1777"},
		{"another user's link leads to the place", func(dir string) error {
			return errors.Join(os.Rename(dir+"/place", dir+"/real"), os.Chmod(dir, 0o777|os.ModeSticky), os.Symlink("real", dir+"/place"), os.Lchown(dir+"/place", nobody, 0))
		}, "/place is a link of user 65534"},
		{"a link leads through another user's directory", func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/theirs", 0o755), os.Chown(dir+"/theirs", nobody, 0),
				os.Rename(dir+"/place", dir+"/theirs/real"), os.Symlink("./theirs/../theirs/real", dir+"/place"))
		}, "/theirs belongs to user 65534"},
		{"the link of root is dangling", func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/place"), os.Chmod(dir, 0o777), os.Symlink("real", dir+"/place"))
		}, " has mode 0777"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			do(t, os.MkdirAll(dir+"/place/jobs", 0o700), c.change(dir))
			before := inodes(t, dir)
			refuses(t, elector(t, dir+"/place", "a"), c.want)
			if after := inodes(t, dir); after != before {
				t.Errorf("was\n%s\nand is\n%s", before, after)
			}
			if strings.Contains(c.name, "dangling") || strings.Contains(c.name, "another user's link") && protectsLinks() {
				return
			}
			m := campaign(t, shared(t, dir+"/place", io.Discard))
			if err := m.Check(); err != nil {
				t.Error(err)
			}
			release(t, m)
		})
	}
}

// TestRootInASafePlace: what nobody else can touch needs no flag.
func TestRootInASafePlace(t *testing.T) {
	asRoot(t)
	dir := t.TempDir()
	do(t, os.Chmod(dir, 0o777|os.ModeSticky), os.Mkdir(dir+"/mine", 0o755), os.Symlink("mine", dir+"/link"))
	for _, place := range []string{"mine", "new/below", "link"} {
		release(t, campaign(t, elector(t, dir+"/"+place, "a")))
	}
	if st, err := os.Stat(dir + "/new"); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v; want a new directory with mode 0700", st, err)
	}
}

// TestPlantedFiles: what another user may have put at the names of an election.
func TestPlantedFiles(t *testing.T) {
	target := bystander(t)
	link := func(path string) error { return os.Symlink(target+"/file", path) }
	pipe := func(path string) error { return unix.Mkfifo(path, 0o600) }
	for _, name := range []string{lockName, durable.Name} {
		for _, c := range []struct {
			is, want string
			plant    func(path string) error
		}{
			{"link", "is a link", link},
			{"pipe", "is not a regular file", pipe},
			{"hard link", "has 2 names", func(path string) error {
				return errors.Join(os.WriteFile(path+".other", nil, 0o600), os.Link(path+".other", path))
			}},
			{"another user's", "belongs to user 65534", func(path string) error {
				return errors.Join(os.WriteFile(path, nil, 0o666), os.Chown(path, nobody, nobody))
			}},
		} {
			t.Run(name+" "+c.is, func(t *testing.T) {
				if c.is == "another user's" {
					asRoot(t)
				}
				dir := t.TempDir()
				do(t, os.Mkdir(dir+"/jobs", 0o700), c.plant(dir+"/jobs/"+name))
				refuses(t, elector(t, dir, "a"), "/jobs/"+name+" "+c.want)
			})
		}
	}
	// What is not needed is replaced, or not believed.
	for _, name := range []string{recordName, recordNewName, durable.Name + ".new", controlName, controlNewName} {
		for is, plant := range map[string]func(string) error{"link": link, "pipe": pipe} {
			t.Run(name+" "+is, func(t *testing.T) {
				dir := t.TempDir()
				do(t, os.Mkdir(dir+"/jobs", 0o700), plant(dir+"/jobs/"+name))
				e := elector(t, dir, "a")
				v := receive(t, stand(t.Context(), e), "the victory")
				do(t, v.err)
				if s := observe(t, e); s.Leader == nil || s.Leader.ID != "a" {
					t.Errorf("%+v; want the leader", s)
				}
				do(t, e.Resign(t.Context(), 1))
				release(t, v.m)
			})
		}
	}
}

// TestPlantedSocket: who asks a leader to resign does not follow a link to another
// program's socket.
func TestPlantedSocket(t *testing.T) {
	dir := t.TempDir()
	m := lead(t, elector(t, t.TempDir(), "other"))
	e := elector(t, dir, "a")
	lead(t, e)
	control := dir + "/jobs/" + controlName
	do(t, os.Remove(control), os.Symlink(m.place.path+"/"+controlName, control))
	if err := e.Resign(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("%v; want that the leader does not answer", err)
	}
	if err := m.Check(); err != nil {
		t.Errorf("the other leader was asked to resign: %v", err)
	}
}

// TestOrdinaryUserNeedsNoFlag: two candidates of an ordinary user, in a directory of
// its own that is not there yet.
func TestOrdinaryUserNeedsNoFlag(t *testing.T) {
	asRoot(t)
	dir := filepath.Join(t.TempDir(), "home")
	do(t, os.Mkdir(dir, 0o755))
	open(t, dir)
	do(t, os.Chown(dir, nobody, nobody))
	for _, want := range []string{"token: 1", "token: 2"} {
		cmd, stdin, line := helper(t, dir+"/state/elect", asNobody)
		if line != want {
			t.Errorf("%q; want %q", line, want)
		}
		_ = stdin.Close()
		do(t, cmd.Wait())
	}
	for _, path := range []string{"/state", "/state/elect", "/state/elect/jobs"} {
		if st, err := os.Stat(dir + path); err != nil || st.Mode().Perm() != 0o700 || statOf(st).Uid != nobody {
			t.Errorf("%s: %v, %v; want mode 0700, and user 65534", path, st, err)
		}
	}
}

// TestOrdinaryUserAndAPlantedLink: nor does an ordinary user follow a link.
func TestOrdinaryUserAndAPlantedLink(t *testing.T) {
	asRoot(t)
	target := bystander(t)
	dir := filepath.Join(t.TempDir(), "home")
	do(t, os.Mkdir(dir, 0o755), os.Symlink(target, dir+"/jobs"))
	open(t, dir)
	open(t, target)
	do(t, os.Chown(dir, nobody, nobody))
	if _, _, line := helper(t, dir, asNobody); !strings.Contains(line, "/jobs is a link") {
		t.Errorf("%q; want that it is a link", line)
	}
}
