//go:build linux

package disk

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

// TestSyncDelay: a sync takes its time, everything else does not, and when the disk is healed
// waiting syncs end.
func TestSyncDelay(t *testing.T) {
	const delay = 200 * time.Millisecond
	b := newBench(t)
	f := b.create(b.at("f"), "")
	dir := b.open(b.at(""), unix.O_RDONLY|unix.O_DIRECTORY)
	b.fault(Fault{SyncDelay: delay})
	for _, o := range []order{{Do: "fsync", File: f}, {Do: "fdatasync", File: f}, {Do: "fsync", File: dir}} {
		for late := time.Now().Add(time.Minute); ; { // a busy machine may take as long once
			begin := time.Now()
			b.write(f, 0, "new")
			took := time.Since(begin)
			if took < delay {
				break
			}
			if time.Now().After(late) {
				t.Fatalf("a write takes %v; want less than %v: it is no sync", took, delay)
			}
		}
		begin := time.Now()
		b.must(o)
		if took := time.Since(begin); took < delay {
			t.Errorf("%s takes %v; want at least %v", o.Do, took, delay)
		}
	}
	b.outage(Fault{})
	if got := b.content(b.at("f")); got != "new" {
		t.Errorf("%q; want what was synced slowly", got)
	}

	b.fault(Fault{SyncDelay: time.Hour})
	f = b.open(b.at("f"), unix.O_RDWR)
	b.write(f, 0, "synced when the disk was well again")
	b.send(order{Do: "fsync", File: f})
	harness.Eventually(t, "it syncs", func() bool { return syncing(b.cmd.Process.Pid) })
	b.fault(Fault{})
	if a := b.receive(); a.Errno != 0 {
		t.Error(a.Errno)
	}
	b.outage(Fault{})
	if got := b.content(b.at("f")); got != "synced when the disk was well again" {
		t.Errorf("%q", got)
	}
}

// TestSyncDelayCovers: a sync makes durable what was written before it began, and nothing that is
// written while it lasts. The kernel lets no process write to a file of FUSE meanwhile, so it is
// asked here.
func TestSyncDelayCovers(t *testing.T) {
	s := service{fuse.NewDefaultRawFileSystem(), newVolume()}
	var made fuse.CreateOut
	in := fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}
	if code := s.Create(nil, &fuse.CreateIn{InHeader: in}, "f", &made); code != fuse.OK {
		t.Fatal(code)
	}
	write := func(at int, data string) {
		t.Helper()
		in := &fuse.WriteIn{InHeader: fuse.InHeader{NodeId: made.NodeId}, Offset: uint64(at)}
		if n, code := s.Write(nil, in, []byte(data)); code != fuse.OK || n != uint32(len(data)) {
			t.Fatal(n, code)
		}
	}
	write(0, "before")
	s.setFault(Fault{SyncDelay: time.Hour})
	synced := make(chan fuse.Status)
	go func() {
		synced <- s.FsyncDir(nil, &fuse.FsyncIn{InHeader: in})
	}()
	go func() {
		synced <- s.Fsync(nil, &fuse.FsyncIn{InHeader: fuse.InHeader{NodeId: made.NodeId}})
	}()
	harness.Eventually(t, "two wait", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.waiting == 2
	})
	write(6, " and while it lasts")
	var dir fuse.EntryOut
	if code := s.Mkdir(nil, &fuse.MkdirIn{InHeader: in}, "while it lasts", &dir); code != fuse.OK {
		t.Fatal(code)
	}
	s.setFault(Fault{})
	for range 2 {
		if code := <-synced; code != fuse.OK {
			t.Error(code)
		}
	}
	after := s.tree.outage(false, 0).root.names
	if len(after) != 1 || string(after["f"].content.live) != "before" {
		t.Errorf("%v", after)
	}
}

// TestSyncError: data of a failed sync never becomes durable, though the next sync succeeds and the
// file can be read. Data that is written again is durable with its whole page.
func TestSyncError(t *testing.T) {
	page := strings.Repeat(".", pageSize)
	begin := func(t *testing.T) (b *bench, f int) {
		b = newBench(t)
		b.fsync(b.create(b.at("f"), "old 1"+page[5:]+"old 2"+page[5:]))
		b.syncDir(b.at(""))
		f = b.open(b.at("f"), unix.O_RDWR)
		b.must(order{Do: "read", File: f, Size: 2 * pageSize}) // so the kernel has it in memory
		b.write(f, 0, "new 1")
		b.write(f, pageSize, "new 2")
		b.fault(Fault{SyncError: true})
		for _, do := range []string{"fsync", "fdatasync"} {
			b.fails(order{Do: do, File: f}, unix.EIO)
		}
		b.fault(Fault{})
		b.fsync(f)
		if got := firsts(b.content(b.at("f"))); got != "new 1, new 2" {
			t.Errorf("%s is read after a sync that has failed; want what was written", got)
		}
		return b, f
	}
	t.Run("and the power goes", func(t *testing.T) {
		b, _ := begin(t)
		b.outage(Fault{})
		if got := firsts(b.content(b.at("f"))); got != "old 1, old 2" {
			t.Errorf("%s", got)
		}
	})
	t.Run("and the process is killed", func(t *testing.T) {
		b, _ := begin(t)
		b.kill()
		b.hand = newHand(t)
		if got := firsts(b.content(b.at("f"))); got != "new 1, new 2" {
			t.Errorf("%s is read by the next process; want what was written", got)
		}
		f := b.open(b.at("f"), unix.O_RDWR)
		b.fsync(f)
		b.must(order{Do: "forget", File: f})
		if got := firsts(b.content(b.at("f"))); got != "old 1, old 2" {
			t.Errorf("%s is read when memory has forgotten it; want what is on the disk", got)
		}
		b.write(f, 3, "!")
		b.fsync(f)
		b.outage(Fault{})
		if got := firsts(b.content(b.at("f"))); got != "old!1, old 2" {
			t.Errorf("%s", got)
		}
	})
	t.Run("and one page is written again", func(t *testing.T) {
		b, f := begin(t)
		b.write(f, 10, "again")
		b.fsync(f)
		b.outage(Fault{})
		if got := firsts(b.content(b.at("f"))); got != "new 1, old 2" {
			t.Errorf("%s; want the page that was written again with all that is in it, and the other one lost", got)
		}
	})
	t.Run("of a file that has grown", func(t *testing.T) {
		b := newBench(t)
		f := b.create(b.at("f"), "old")
		b.fsync(f)
		b.syncDir(b.at(""))
		b.write(f, 3, "new")
		b.fault(Fault{SyncError: true})
		b.fails(order{Do: "fsync", File: f}, unix.EIO)
		b.fault(Fault{})
		b.fsync(f)
		b.outage(Fault{})
		if got := b.content(b.at("f")); got != "old\x00\x00\x00" {
			t.Errorf("%q; want the size without the data", got)
		}
	})
	t.Run("of a directory", func(t *testing.T) {
		b := newBench(t)
		b.fsync(b.create(b.at("f"), "new"))
		dir := b.open(b.at(""), unix.O_RDONLY|unix.O_DIRECTORY)
		b.fault(Fault{SyncError: true})
		b.fails(order{Do: "fsync", File: dir}, unix.EIO)
		b.outage(Fault{})
		if got := b.content(b.at("f")); got != "absent" {
			t.Errorf("%q", got)
		}
	})
}

// firsts are the first bytes of each page.
func firsts(text string) string {
	var all []string
	for ; len(text) > 0; text = text[min(pageSize, len(text)):] {
		all = append(all, text[:min(5, len(text))])
	}
	return strings.Join(all, ", ")
}

// TestFull: existing content can be overwritten; nothing grows, and nothing is made.
func TestFull(t *testing.T) {
	b := newBench(t)
	f := b.create(b.at("f"), "0123456789")
	b.must(order{Do: "mkdir", Path: b.at("dir")})
	b.fault(Fault{Full: true})
	b.write(f, 2, "in place")
	if a := b.must(order{Do: "write", File: f, At: 5, Data: []byte("partly in place")}); a.N != 5 {
		t.Errorf("%d bytes are written where there is space for 5", a.N)
	}
	b.fails(order{Do: "write", File: f, At: 10, Data: []byte("more")}, unix.ENOSPC)
	b.fails(order{Do: "append", File: b.open(b.at("f"), unix.O_WRONLY|unix.O_APPEND), Data: []byte("more")}, unix.ENOSPC)
	b.fails(order{Do: "fallocate", File: f, Size: 20}, unix.ENOSPC)
	b.fails(order{Do: "open", Path: b.at("g"), Flags: unix.O_RDWR | unix.O_CREAT}, unix.ENOSPC)
	b.fails(order{Do: "open", Path: b.at(""), Flags: unix.O_RDWR | unix.O_TMPFILE}, unix.ENOSPC)
	b.fails(order{Do: "mkdir", Path: b.at("g")}, unix.ENOSPC)
	b.fails(order{Do: "symlink", Path: b.at("g"), To: "f"}, unix.ENOSPC)
	b.fails(order{Do: "link", Path: b.at("f"), To: b.at("g")}, unix.ENOSPC)
	b.fsync(f)
	if free := b.must(order{Do: "free", Path: b.at("")}).N; free != 0 {
		t.Errorf("%d blocks are free", free)
	}
	b.must(order{Do: "rename", Path: b.at("f"), To: b.at("dir/f")})
	if got := b.content(b.at("dir/f")); got != "01in partl" {
		t.Errorf("%q", got)
	}
	b.must(order{Do: "unlink", Path: b.at("dir/f")})
	b.must(order{Do: "rmdir", Path: b.at("dir")})
	b.fault(Fault{})
	b.create(b.at("g"), "more")
	if free := b.must(order{Do: "free", Path: b.at("")}).N; free == 0 {
		t.Error("no block is free")
	}
}

// TestReadOnly: every change is refused, and everything can be read.
func TestReadOnly(t *testing.T) {
	b := newBench(t)
	b.fsync(b.create(b.at("g"), "old"))
	b.syncDir(b.at(""))
	f := b.create(b.at("f"), "not synced")
	dir := b.open(b.at(""), unix.O_RDONLY|unix.O_DIRECTORY)
	b.fault(Fault{ReadOnly: true})
	for _, o := range []order{
		{Do: "write", File: f, Data: []byte("new")},
		{Do: "ftruncate", File: f},
		{Do: "fallocate", File: f, Size: 20},
		{Do: "open", Path: b.at("g"), Flags: unix.O_WRONLY},
		{Do: "open", Path: b.at("g"), Flags: unix.O_RDONLY | unix.O_TRUNC},
		{Do: "open", Path: b.at("h"), Flags: unix.O_RDWR | unix.O_CREAT},
		{Do: "open", Path: b.at(""), Flags: unix.O_RDWR | unix.O_TMPFILE},
		{Do: "mkdir", Path: b.at("h")},
		{Do: "symlink", Path: b.at("h"), To: "f"},
		{Do: "link", Path: b.at("f"), To: b.at("h")},
		{Do: "rename", Path: b.at("f"), To: b.at("h")},
		{Do: "unlink", Path: b.at("f")},
		{Do: "chmod", Path: b.at("f"), Flags: 0o640},
		{Do: "fsync", File: f},
		{Do: "fsync", File: dir},
	} {
		b.fails(o, unix.EROFS)
	}
	b.fsync(b.open(b.at("g"), unix.O_RDONLY)) // nothing is to be done
	if got, want := b.files(), map[string]string{"f": "not synced", "g": "old"}; !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
	b.fault(Fault{})
	b.write(f, 0, "new")
	b.fsync(f)
	b.fsync(dir)
	b.outage(Fault{})
	if got := b.content(b.at("f")); got != "new synced" {
		t.Errorf("%q", got)
	}
}

// TestWriteError: writes to a file fail, and leave it as it was.
func TestWriteError(t *testing.T) {
	b := newBench(t)
	f := b.create(b.at("f"), "old")
	b.fault(Fault{WriteError: true})
	b.fails(order{Do: "write", File: f, Data: []byte("new")}, unix.EIO)
	b.fails(order{Do: "write", File: f, At: 3, Data: []byte("new")}, unix.EIO)
	b.fails(order{Do: "ftruncate", File: f}, unix.EIO)
	b.fsync(f)
	if got := b.content(b.at("f")); got != "old" {
		t.Errorf("%q", got)
	}
	b.fault(Fault{})
	b.write(f, 0, "new")
	if got := b.content(b.at("f")); got != "new" {
		t.Errorf("%q", got)
	}
}

// TestLocks: flock and locks of open file descriptions keep processes out, also
// on a directory, and go with the process that has them.
func TestLocks(t *testing.T) {
	for _, do := range []struct {
		name     string
		lock     order
		unlocked unix.Errno
	}{
		{"flock", order{Do: "flock", Flags: unix.LOCK_EX | unix.LOCK_NB}, unix.EWOULDBLOCK},
		{"ofd", order{Do: "ofd", Flags: unix.F_WRLCK}, unix.EAGAIN},
	} {
		t.Run(do.name, func(t *testing.T) {
			b := newBench(t)
			b.create(b.at("f"), "")
			other := newHand(t)
			flags := unix.O_RDWR
			for _, path := range []string{b.at("f"), b.at("")} {
				if path == b.at("") {
					if do.name == "ofd" {
						continue // a directory cannot be opened for writing, so not locked so
					}
					flags = unix.O_RDONLY
				}
				lock, theirs := do.lock, do.lock
				lock.File = b.open(path, flags)
				theirs.File = other.open(path, flags)
				b.must(lock)
				other.fails(theirs, do.unlocked)
				if path == b.at("f") {
					got := other.must(order{Do: "ofd-ask", File: theirs.File}).N
					if want := int64(unix.F_UNLCK); do.name == "flock" && got != want {
						t.Errorf("%d; want none of that kind", got)
					}
					if want := int64(unix.F_WRLCK); do.name == "ofd" && got != want {
						t.Errorf("%d; want it shown", got)
					}
				}
				b.kill()
				other.must(theirs)
				b.hand = newHand(t)
				lock.File = b.open(path, flags)
				b.fails(lock, do.unlocked)
				other.must(order{Do: "close", File: theirs.File})
				b.must(lock)
			}
		})
	}
}

// TestPrograms: a program on the disk can be run.
func TestPrograms(t *testing.T) {
	b := newBench(t)
	f := b.create(b.at("program"), "#!/bin/sh\necho well\n")
	b.must(order{Do: "close", File: f})
	b.must(order{Do: "chmod", Path: b.at("program"), Flags: 0o700})
	if got := string(b.must(order{Do: "run", Path: b.at("program")}).Data); got != "well\n" {
		t.Errorf("%q", got)
	}
}

// TestCopies: snapshots, restoring, wiping, and what is left at the end, on all
// kinds of disks.
func TestCopies(t *testing.T) {
	long.Test(t, "it mounts disks")
	kinds := map[string]func(string) (Disk, error){
		"fuse":  NewFUSE,
		"tmpfs": func(dir string) (Disk, error) { return NewTmpfs(dir, 1<<20) },
		"plain": NewPlain,
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			d, err := kind(t.TempDir())
			b := benchOn(t, d, err)
			do := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			shows := func(want map[string]string) {
				t.Helper()
				b.kill()
				b.hand = newHand(t)
				if got := b.files(); !maps.Equal(got, want) {
					t.Errorf("%q; want %q", got, want)
				}
			}
			first := map[string]string{"dir/": "", "dir/f": "first", "link": "first"}
			b.must(order{Do: "mkdir", Path: b.at("dir")})
			b.create(b.at("dir/f"), "first")
			b.must(order{Do: "symlink", Path: b.at("link"), To: "dir/f"})
			do(d.Snapshot("one"))
			shows(first)
			b.create(b.at("dir/f"), "second")
			b.create(b.at("g"), "second")
			second := map[string]string{"dir/": "", "dir/f": "second", "link": "second", "g": "second"}
			shows(second)
			do(d.Snapshot("two"))
			b.kill()
			do(d.Restore("one"))
			shows(first)
			b.kill()
			do(d.Wipe())
			shows(map[string]string{})
			b.kill()
			do(d.Restore("two"))
			shows(second)
			b.kill()
			do(d.Restore("one"))
			shows(first)
			if err := d.Restore("none"); err == nil {
				t.Error("what was never kept is restored")
			}
			shows(first)
			if name == "fuse" {
				b.outage(Fault{})
				shows(first) // a backup that was put back is durable
			}
			do(d.Close())
			shows(first)
			do(d.Close())
		})
	}
}

// TestSmallDisk: a tmpfs that is full stays full when something is removed, and
// has space again when it is well.
func TestSmallDisk(t *testing.T) {
	long.Test(t, "it mounts disks")
	d, err := NewTmpfs(t.TempDir(), 256<<10)
	b := benchOn(t, d, err)
	f := b.create(b.at("f"), "there")
	ballast := b.create(b.at("ballast"), strings.Repeat("x", 100<<10))
	b.fault(Fault{Full: true})
	b.write(f, 0, "where")
	b.fails(order{Do: "write", File: f, At: pageSize, Data: []byte("more")}, unix.ENOSPC)
	b.must(order{Do: "ftruncate", File: ballast})
	harness.Eventually(t, "nothing is free", func() bool { return b.must(order{Do: "free", Path: b.at("")}).N == 0 })
	b.fails(order{Do: "write", File: f, At: pageSize, Data: []byte("more")}, unix.ENOSPC)
	b.fault(Fault{Full: true})
	b.fault(Fault{})
	b.write(f, pageSize, "more")
	if got := b.must(order{Do: "list", Path: b.at("")}).Names; len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// TestUnable: a disk refuses the faults that it cannot have.
func TestUnable(t *testing.T) {
	long.Test(t, "it mounts disks")
	plain, err := NewPlain(t.TempDir())
	b := benchOn(t, plain, err)
	for _, f := range []Fault{{SyncDelay: 1}, {SyncError: true}, {WriteError: true}, {Full: true}, {ReadOnly: true}, {Torn: true}, {Luck: 1}} {
		if err := plain.Can(f); !isUnable(err) {
			t.Errorf("%+v: %v", f, err)
		}
		if err := plain.Fault(f); !isUnable(err) {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if err := plain.PowerLoss(); !isUnable(err) {
		t.Error(err)
	}
	if err := plain.Fault(Fault{}); err != nil {
		t.Error(err)
	}
	b.create(b.at("f"), "")

	small, err := NewTmpfs(t.TempDir(), 1<<20)
	benchOn(t, small, err)
	if err := small.Can(Fault{Full: true}); err != nil {
		t.Error(err)
	}
	if err := small.Fault(Fault{Full: true, SyncError: true}); !isUnable(err) {
		t.Error(err)
	}
	if err := small.PowerLoss(); !isUnable(err) {
		t.Error(err)
	}

	d := newBench(t).disk
	if err := d.Can(Fault{SyncDelay: 1, SyncError: true, WriteError: true, Full: true, ReadOnly: true, Torn: true, Luck: 1}); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d.PowerLoss() == nil || d.Snapshot("late") == nil {
		t.Error("a closed disk is used")
	}
}

// TestSweep: the next process removes the mounts of a killed one, and leaves those of a live one.
func TestSweep(t *testing.T) {
	if os.Geteuid() != 0 {
		newBench(t) // which says why not, and fails in CI
	}
	mine := newBench(t)
	dead := t.TempDir() + "/with a space"
	if err := os.Mkdir(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	h := newHand(t)
	source := sourceOf(h.cmd.Process.Pid)
	if err := unix.Mount(source, dead, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	mounted := func() bool {
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), " "+source+" ")
	}
	t.Cleanup(func() {
		if mounted() {
			_ = detach(dead)
		}
	})
	if _, err := sweep(); err != nil || !mounted() {
		t.Errorf("%v; want a mount to stay whose process lives", err)
	}
	h.kill()
	if _, err := sweep(); err != nil || mounted() {
		t.Errorf("%v; want the mount of a dead process removed", err)
	}
	mine.create(mine.at("f"), "mine is there")
}
