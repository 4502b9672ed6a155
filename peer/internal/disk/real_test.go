//go:build linux || darwin || freebsd

package disk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/place"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
)

// helper is the environment variable that makes the test binary another process
// with a directory: it opens it, says so, and waits for its end.
const helper = "ELECT_TEST_DISK"

func TestMain(m *testing.M) {
	path, ok := os.LookupEnv(helper)
	if !ok {
		os.Exit(m.Run())
	}
	if _, err := Open(context.Background(), at(path), owner); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("open")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// at is a data directory as somebody has chosen it.
func at(path string) place.At { return place.At{Path: path} }

func mustOpen(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(t.Context(), at(path), owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// soon is a context that has ended, so that no lock is waited for.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestReal: the same on a real disk, over three lives.
func TestReal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "elect", "jobs", "n1")
	d := mustOpen(t, path)
	if d.Ballot() != nil || len(d.Pins()) != 0 || d.Identity().Dir == (protocol.DirID{}) {
		t.Errorf("new: ballot %x, pins %v, %+v", d.Ballot(), d.Pins(), d.Identity())
	}
	if name := d.Locks()[0].Name(); name != filepath.Join(path, "lock") || !filepath.IsAbs(name) {
		t.Errorf("the lock is %s", name)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v; want mode 0700", info, err)
	}
	id := d.Identity()
	if err := errors.Join(d.Pin("n2", dirOf(2)), d.Pin("n3", dirOf(3)), d.Pin("n2", dirOf(2)), d.Save(ballotOf(1)), d.Save(ballotOf(2)), d.Close()); err != nil {
		t.Fatal(err)
	}
	for life := 2; life < 4; life++ {
		d = mustOpen(t, path)
		if n := numberOf(d.Ballot()); n != life || d.Identity() != id || len(d.Pins()) != 2 || d.Pins()["n3"] != dirOf(3) || len(d.Warnings()) > 0 {
			t.Errorf("life %d: ballot %d, %+v, pins %v, %q", life, n, d.Identity(), d.Pins(), d.Warnings())
		}
		if err := errors.Join(d.Save(ballotOf(life+1)), d.Mirror(), d.Mirror(), d.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRefused: each thing that a directory can be instead is told.
func TestRefused(t *testing.T) {
	write := func(name, text string) func(path string) error {
		return func(path string) error { return os.WriteFile(filepath.Join(path, name), []byte(text), 0o600) }
	}
	remove := func(name string) func(path string) error {
		return func(path string) error { return os.Remove(filepath.Join(path, name)) }
	}
	zero := func(path string) error { return os.Truncate(filepath.Join(path, "ballot"), 0) }
	for name, c := range map[string]struct {
		change func(path string) error
		want   Identity
		says   string
	}{
		"another id":       {nil, Identity{Cluster: "elect", Election: "jobs", ID: "n2"}, `it belongs to n1 of the election "jobs" in the cluster "elect", and not to n2 of the election "jobs" in the cluster "elect"; want `},
		"another election": {nil, Identity{Cluster: "elect", Election: "mail", ID: "n1"}, `it belongs to n1 of the election "jobs" in`},
		"another cluster":  {nil, Identity{Cluster: "east", Election: "jobs", ID: "n1"}, `it belongs to n1 of the election "jobs" in`},
		"no ballot":        {remove("ballot"), owner, "its votes are lost: its file ballot is missing. A voter that"},
		"an empty ballot":  {zero, owner, "its votes are lost: both copies of the ballot are damaged (first: it was never written"},
		"another ballot":   {write("ballot", "elect"), owner, "its votes are lost: both copies of the ballot are damaged (first: it begins with"},
		"no identity":      {remove("identity"), owner, "its file identity is missing, but ballot is there: "},
		"a bad identity":   {write("identity", "{}\n"), owner, "its file identity is damaged: its checksum is wrong"},
		"no pins":          {remove("pins"), owner, "its file pins, which has the directories that the other voters are known by, is lost: it is missing. "},
		"bad pins":         {write("pins", ""), owner, "its file pins, which has the directories that the other voters are known by, is lost: it is cut short. "},
		"a newer format":   {write("identity", sealLine(`{"format":2,"colour":"red"}`)), owner, "its file identity is damaged: it has format 2; this program reads format 1"},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			d := mustOpen(t, path)
			if err := errors.Join(d.Pin("n2", dirOf(2)), d.Save(ballotOf(1)), d.Close()); err != nil {
				t.Fatal(err)
			}
			if c.change != nil {
				if err := c.change(path); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Open(t.Context(), at(path), c.want)
			r, ok := errors.AsType[*Refused](err)
			if !ok || r.Path != path || !strings.HasPrefix(r.Says, c.says) {
				t.Errorf("%v\nwant: %s…", err, c.says)
			}
		})
	}
}

// TestForeign: a directory with something else in it is left alone.
func TestForeign(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "letter.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), at(path), owner)
	if _, ok := errors.AsType[*Refused](err); !ok || !strings.Contains(err.Error(), `there is "letter.txt"; want an empty directory`) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(path, "ballot")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v: something was made", err)
	}
	if _, err := Open(t.Context(), at(filepath.Join(path, "letter.txt")), owner); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a file: %v", err)
	}
	for _, bad := range []Identity{{Cluster: "elect", Election: "jobs"}, {Cluster: "elect", ID: "n1"}, {Election: "jobs", ID: "n1"}, {Cluster: "\xff", Election: "jobs", ID: "n1"}} {
		if _, err := Open(t.Context(), at(filepath.Join(path, "new")), bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// TestLostBeforeTheFirst: only a directory that has told of a vote misses its ballots.
func TestLostBeforeTheFirst(t *testing.T) {
	path := t.TempDir()
	first := mustOpen(t, path)
	id := first.Identity()
	d := mustOpenAgain(t, first, func() error { return os.Remove(filepath.Join(path, "ballot")) })
	if d.Identity() != id || d.Ballot() != nil {
		t.Errorf("%+v, %x; want %+v and no ballot", d.Identity(), d.Ballot(), id)
	}
}

// mustOpenAgain closes no more of the life before than the locks, as a kill would
// with everything.
func mustOpenAgain(t *testing.T, before *Dir, change func() error) *Dir {
	t.Helper()
	if err := errors.Join(change(), closeAll(before.locks)); err != nil {
		t.Fatal(err)
	}
	before.locks = nil
	return mustOpen(t, before.path)
}

// TestLock: one process at a time, until the last copy of the lock is closed.
func TestLock(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, path)
	_, err := Open(soon(t), at(path), owner)
	if u, ok := errors.AsType[*InUse](err); !ok || u.PID != os.Getpid() || u.Path != path {
		t.Errorf("%v; want it in use by %d", err, os.Getpid())
	}
	keeper, err := unix.Dup(int(d.Locks()[0].Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err = Open(soon(t), at(path), owner); err == nil {
		t.Fatal("it is open while a keeper has the lock")
	}
	// A process that waits gets it as soon as the keeper lets go.
	began := make(chan struct{})
	opened := make(chan error)
	go func() {
		close(began)
		d, err := Open(t.Context(), at(path), owner)
		if err == nil {
			err = d.Close()
		}
		opened <- err
	}()
	<-began
	if err := unix.Close(keeper); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

// TestLockWaits: for so long, and no longer.
func TestLockWaits(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, path)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if _, err := Open(t.Context(), at(path), owner); err == nil || time.Since(start) != LockWait {
			t.Errorf("%v after %v; want it to wait for %v", err, time.Since(start), LockWait)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if _, err := Open(ctx, at(path), owner); err == nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v; want it to wait as long as its context", err, time.Since(start))
		}
	})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLockOfAProcess: another process has it until it is killed.
func TestLockOfAProcess(t *testing.T) {
	path := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), helper+"="+path)
	in, out := harness.Start(t, cmd)
	defer in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "open\n" {
		t.Fatalf("%q, %v", line, err)
	}
	_, err = Open(soon(t), at(path), owner)
	if u, ok := errors.AsType[*InUse](err); !ok || u.PID != cmd.Process.Pid {
		t.Errorf("%v; want it in use by %d", err, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	mustOpen(t, path)
}

// TestPin: what is pinned stays pinned.
func TestPin(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	if err := d.Pin("n2", dirOf(2)); err != nil {
		t.Fatal(err)
	}
	err := d.Pin("n2", dirOf(3))
	if want := "pin of n2: it is known by the directory 02000000000000000000000000000000, and this is 03000000000000000000000000000000"; err == nil || err.Error() != want {
		t.Errorf("%v\nwant: %s", err, want)
	}
	if d.Pin("n 3", dirOf(3)) == nil || d.Pin("n3", protocol.DirID{}) == nil {
		t.Error("nonsense was pinned")
	}
	got := d.Pins()
	got["n2"] = dirOf(9)
	if d.Pins()["n2"] != dirOf(2) {
		t.Error("the pins were changed through a copy")
	}
	for i := range maxPins - 1 {
		if err := d.Pin(protocol.NodeID(fmt.Sprintf("p%d", i)), dirOf(1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Pin("one-too-many", dirOf(1)); err == nil {
		t.Error("there is no end of pins")
	}
}

// TestSizes: the greatest ballot of quorum fits, and what does not is refused.
func TestSizes(t *testing.T) {
	long := func(i int) protocol.NodeID { return protocol.NodeID(fmt.Sprintf("%064d", i)) }
	m := &protocol.Membership{Version: 1}
	for i := range protocol.MaxVoters {
		m.Voters = append(m.Voters, protocol.Voter{ID: long(i), Dir: dirOf(i)})
	}
	for i := range 100 {
		m.Observers = append(m.Observers, long(100+i))
	}
	b := quorum.Ballot{Term: quorum.MaxTerm, VotedFor: m.Voters[8], Membership: m, MaxPromise: quorum.LongestPromise, Incarnation: 1}.Append(nil)
	if len(b) != 8146 || len(b) > MaxBallot {
		t.Errorf("%d bytes; want what the comment of MaxBallot says", len(b))
	}
	d := mustOpen(t, t.TempDir())
	if err := errors.Join(d.Save(b), d.Save(make([]byte, MaxBallot))); err != nil {
		t.Error(err)
	}
	if d.Save(make([]byte, MaxBallot+1)) == nil || d.Save(nil) == nil {
		t.Error("a ballot that does not fit was taken")
	}
}

// BenchmarkSave is a save of a usual ballot, of three voters.
func BenchmarkSave(b *testing.B) {
	d, err := Open(b.Context(), at(b.TempDir()), owner)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	data := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Save(data); err != nil {
			b.Fatal(err)
		}
	}
}

// TestNoPlace: where no directory can be made, Open says so.
func TestNoPlace(t *testing.T) {
	for _, path := range []string{"/proc/elect-test", "/proc/elect-test/below"} {
		if _, err := os.Stat("/proc/self"); err != nil {
			t.Skip("there is no /proc here")
		}
		d, err := Open(t.Context(), at(path), Identity{Cluster: "c", Election: "e", ID: "n1"})
		if err == nil {
			_ = d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "/proc/elect-test") {
			t.Errorf("%s: %v; want an error that names the place", path, err)
		}
	}
}

// TestEra: it only rises, not before it is raised, and what it was raised to is
// known after a restart.
func TestEra(t *testing.T) {
	path := t.TempDir()
	dir, last := protocol.DirID{}, uint64(0)
	for i, c := range []struct {
		era  uint64
		says string
	}{{0, ""}, {3, ""}, {2, "era=3 or more"}, {3, ""}, {0, "era=3 or more"}, {9, ""}} {
		d, err := Open(t.Context(), at(path), Identity{Cluster: "c", Election: "e", ID: "n1", Era: c.era})
		if c.says != "" {
			if _, is := errors.AsType[*Refused](err); !is || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d: era %d: %v; want it refused and %q", i, c.era, err, c.says)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%d: era %d: %v", i, c.era, err)
		}
		if id := d.Identity(); id.Era != last {
			t.Errorf("%d: opened with era %d; want %d until it is raised", i, id.Era, last)
		}
		if err := d.Raise(c.era); err != nil {
			t.Errorf("%d: era %d: %v", i, c.era, err)
		}
		last = c.era
		if err := d.Raise(0); last > 0 && err == nil {
			t.Errorf("%d: an era can be lowered from %d to 0", i, last)
		}
		if id := d.Identity(); id.Era != c.era || i > 0 && id.Dir != dir {
			t.Errorf("%d: %+v; want era %d and the directory %s", i, id, c.era, dir)
		}
		dir = d.Identity().Dir
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLockRemoved: to remove the file lock opens the directory to nobody.
func TestLockRemoved(t *testing.T) {
	path := t.TempDir()
	want := Identity{Cluster: "c", Election: "e", ID: "n1"}
	d, err := Open(t.Context(), at(path), want)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if len(d.Locks()) != 2 {
		t.Skip("directories cannot be locked on this file system")
	}
	if err := os.Remove(filepath.Join(path, "lock")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	second, err := Open(ctx, at(path), want)
	if _, ok := errors.AsType[*InUse](err); !ok {
		t.Errorf("%v; want it in use", err)
	}
	if err == nil {
		_ = second.Close()
	}
}

// A pause outlives the process, and so does its end.
func TestPause(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, path)
	if p, err := d.Pause(); err != nil || p != (Pause{}) {
		t.Errorf("a new directory has %+v, %v; want the zero Pause", p, err)
	}
	for _, on := range []bool{true, true, false, true} {
		if err := d.SetPause(pauseOf(on)); err != nil {
			t.Fatal(err)
		}
		d = mustOpenAgain(t, d, func() error { return nil })
		if p, err := d.Pause(); err != nil || p != pauseOf(on) {
			t.Errorf("it has %+v, %v; want %+v", p, err, pauseOf(on))
		}
	}
	long := pauseOf(true)
	long.By = strings.Repeat("\xff", 1<<20)
	if err := d.SetPause(long); err != nil {
		t.Fatal(err)
	}
	if p, err := d.Pause(); err != nil || !p.Paused || len(p.By) > maxBy {
		t.Errorf("it has %+v, %v; want what was too long cut short", p, err)
	}
}

// A directory that is void is refused from then on, with the reason.
func TestVoid(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, path)
	own := d.Identity()
	if err := d.Void("founded twice. " + strings.Repeat("ü", maxWhy)); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, says string }{
		{"", "founded twice."},
		{"void", "which says that it must not be used any more, and cannot be read"},
		{sealLine(`{"format":1}`), "it must not be used any more"},
	} {
		if c.text != "" {
			if err := os.WriteFile(filepath.Join(path, voidName), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Open(t.Context(), at(path), own)
		if _, ok := errors.AsType[*Refused](err); !ok || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v; want it refused: %s", c.text, err, c.says)
		}
	}
}
