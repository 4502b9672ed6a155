//go:build linux

package disk

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"golang.org/x/sys/unix"
)

// bench is a disk with a process that uses it.
type bench struct {
	*hand
	disk Disk
}

// newBench makes a disk with all faults. Where it cannot be made the test is
// skipped, but not in CI: there it must run.
func newBench(t *testing.T) *bench {
	t.Helper()
	long.Test(t, "it takes the power from a disk")
	d, err := NewFUSE(t.TempDir())
	return benchOn(t, d, err)
}

func benchOn(t *testing.T, d Disk, err error) *bench {
	t.Helper()
	if errors.Is(err, ErrUnable) && os.Getenv("CI") != "true" {
		t.Skipf("SKIPPED, and so nothing was tested on a disk that fails: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bench{newHand(t), d}
}

// at is the path of a name on the disk.
func (b *bench) at(name string) string { return filepath.Join(b.disk.Path(), name) }

func (b *bench) fault(f Fault) {
	b.t.Helper()
	if err := b.disk.Fault(f); err != nil {
		b.t.Fatal(err)
	}
}

// outage kills the process, cuts the power, and starts another process.
func (b *bench) outage(f Fault) {
	b.t.Helper()
	_ = b.cmd.Process.Kill() // it may end only when the disk does
	b.fault(f)
	if err := b.disk.PowerLoss(); err != nil {
		b.t.Fatal(err)
	}
	b.kill()
	b.fault(Fault{})
	b.hand = newHand(b.t)
}

// files are the contents of all names in the directory, with a slash after those
// of directories.
func (b *bench) files() map[string]string {
	b.t.Helper()
	files := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		for _, name := range b.must(order{Do: "list", Path: b.at(dir)}).Names {
			name = filepath.Join(dir, name)
			if a := b.do(order{Do: "list", Path: b.at(name)}); a.Errno == 0 {
				files[name+"/"] = ""
				walk(name)
				continue
			}
			files[name] = b.content(b.at(name))
		}
	}
	walk("")
	return files
}

// TestPowerLoss has the results of a power loss, case by case.
func TestPowerLoss(t *testing.T) {
	big := strings.Repeat("new ", 3000)
	tests := []struct {
		name string
		do   func(b *bench) // on a disk that has a file old with "old"
		want map[string]string
	}{
		{"nothing was done", func(b *bench) {}, map[string]string{"old": "old"}},
		{"written", func(b *bench) {
			b.write(b.open(b.at("old"), unix.O_RDWR), 0, "new")
		}, map[string]string{"old": "old"}},
		{"written and closed", func(b *bench) {
			f := b.open(b.at("old"), unix.O_RDWR)
			b.write(f, 0, "new")
			b.must(order{Do: "close", File: f})
		}, map[string]string{"old": "old"}},
		{"written, fsync", func(b *bench) {
			f := b.open(b.at("old"), unix.O_RDWR)
			b.write(f, 0, "new")
			b.fsync(f)
		}, map[string]string{"old": "new"}},
		{"written, fdatasync", func(b *bench) {
			f := b.open(b.at("old"), unix.O_RDWR)
			b.write(f, 2, "new")
			b.must(order{Do: "fdatasync", File: f})
		}, map[string]string{"old": "olnew"}},
		{"written, fsync through another descriptor", func(b *bench) {
			b.write(b.open(b.at("old"), unix.O_RDWR), 0, "new")
			b.fsync(b.open(b.at("old"), unix.O_RDONLY))
		}, map[string]string{"old": "new"}},
		{"written, fsync, written", func(b *bench) {
			f := b.open(b.at("old"), unix.O_RDWR)
			b.write(f, 0, "new")
			b.fsync(f)
			b.write(f, 0, "newer")
		}, map[string]string{"old": "new"}},
		{"written with O_DSYNC", func(b *bench) {
			b.write(b.open(b.at("old"), unix.O_RDWR|unix.O_DSYNC), 0, "new")
		}, map[string]string{"old": "new"}},
		{"appended", func(b *bench) {
			b.must(order{Do: "append", File: b.open(b.at("old"), unix.O_WRONLY|unix.O_APPEND), Data: []byte(big)})
		}, map[string]string{"old": "old"}},
		{"appended, fsync", func(b *bench) {
			f := b.open(b.at("old"), unix.O_WRONLY|unix.O_APPEND)
			b.must(order{Do: "append", File: f, Data: []byte(big)})
			b.fsync(f)
		}, map[string]string{"old": "old" + big}},
		{"mapped and written", func(b *bench) {
			f := b.open(b.at("old"), unix.O_RDWR)
			b.must(order{Do: "map", File: f, Size: 3})
			b.must(order{Do: "poke", File: f, Data: []byte("new")})
		}, map[string]string{"old": "old"}},
		{"mapped and written, msync", func(b *bench) {
			f := b.open(b.at("old"), unix.O_RDWR)
			b.must(order{Do: "map", File: f, Size: 3})
			b.must(order{Do: "poke", File: f, Data: []byte("new")})
			b.must(order{Do: "msync", File: f})
		}, map[string]string{"old": "new"}},
		{"truncated", func(b *bench) {
			b.must(order{Do: "ftruncate", File: b.open(b.at("old"), unix.O_RDWR), Size: 1})
		}, map[string]string{"old": "old"}},
		{"truncated, fsync", func(b *bench) {
			f := b.open(b.at("old"), unix.O_RDWR)
			b.must(order{Do: "ftruncate", File: f, Size: 1})
			b.fsync(f)
		}, map[string]string{"old": "o"}},
		{"truncated, written anew", func(b *bench) { b.create(b.at("old"), "new") }, map[string]string{"old": "old"}},
		{"truncated, fsync, written anew", func(b *bench) {
			f := b.create(b.at("old"), "")
			b.fsync(f)
			b.write(f, 0, "new")
		}, map[string]string{"old": ""}},
		{"made", func(b *bench) { b.create(b.at("new"), "new") }, map[string]string{"old": "old"}},
		{"made, fsync", func(b *bench) { b.fsync(b.create(b.at("new"), "new")) }, map[string]string{"old": "old"}},
		{"made, fsync of the directory", func(b *bench) {
			b.create(b.at("new"), "new")
			b.syncDir(b.at(""))
		}, map[string]string{"old": "old", "new": ""}},
		{"made, fsync of both", func(b *bench) {
			b.fsync(b.create(b.at("new"), "new"))
			b.syncDir(b.at(""))
		}, map[string]string{"old": "old", "new": "new"}},
		{"made without a name, fsync, linked, fsync of the directory", func(b *bench) {
			f := b.open(b.at(""), unix.O_RDWR|unix.O_TMPFILE)
			b.write(f, 0, "new")
			b.fsync(f)
			b.must(order{Do: "link-file", File: f, To: b.at("new")})
			b.syncDir(b.at(""))
		}, map[string]string{"old": "old", "new": "new"}},
		{"linked", func(b *bench) {
			b.must(order{Do: "link", Path: b.at("old"), To: b.at("second")})
		}, map[string]string{"old": "old"}},
		{"linked, fsync of the directory, written, fsync", func(b *bench) {
			b.must(order{Do: "link", Path: b.at("old"), To: b.at("second")})
			b.syncDir(b.at(""))
			f := b.open(b.at("second"), unix.O_RDWR)
			b.write(f, 0, "new")
			b.fsync(f)
		}, map[string]string{"old": "new", "second": "new"}},
		{"renamed", func(b *bench) {
			b.must(order{Do: "rename", Path: b.at("old"), To: b.at("new")})
		}, map[string]string{"old": "old"}},
		{"renamed, fsync of the file", func(b *bench) {
			b.must(order{Do: "rename", Path: b.at("old"), To: b.at("new")})
			b.fsync(b.open(b.at("new"), unix.O_RDWR))
		}, map[string]string{"old": "old"}},
		{"renamed, fsync of the directory", func(b *bench) {
			b.must(order{Do: "rename", Path: b.at("old"), To: b.at("new")})
			b.syncDir(b.at(""))
		}, map[string]string{"new": "old"}},
		{"replaced", func(b *bench) {
			b.fsync(b.create(b.at("tmp"), "new"))
			b.must(order{Do: "rename", Path: b.at("tmp"), To: b.at("old")})
		}, map[string]string{"old": "old"}},
		{"replaced, fsync of the directory", func(b *bench) {
			b.fsync(b.create(b.at("tmp"), "new"))
			b.must(order{Do: "rename", Path: b.at("tmp"), To: b.at("old")})
			b.syncDir(b.at(""))
		}, map[string]string{"old": "new"}},
		{"replaced without fsync of the data, fsync of the directory", func(b *bench) {
			b.create(b.at("tmp"), "new")
			b.must(order{Do: "rename", Path: b.at("tmp"), To: b.at("old")})
			b.syncDir(b.at(""))
		}, map[string]string{"old": ""}},
		{"exchanged, fsync of the directory", func(b *bench) {
			b.fsync(b.create(b.at("new"), "new"))
			b.must(order{Do: "rename", Path: b.at("old"), To: b.at("new"), Flags: unix.RENAME_EXCHANGE})
			b.syncDir(b.at(""))
		}, map[string]string{"old": "new", "new": "old"}},
		{"removed", func(b *bench) { b.must(order{Do: "unlink", Path: b.at("old")}) }, map[string]string{"old": "old"}},
		{"removed, fsync of the directory", func(b *bench) {
			b.must(order{Do: "unlink", Path: b.at("old")})
			b.syncDir(b.at(""))
		}, map[string]string{}},
		{"removed, made anew, fsync of the new one", func(b *bench) {
			b.must(order{Do: "unlink", Path: b.at("old")})
			b.fsync(b.create(b.at("old"), "new"))
		}, map[string]string{"old": "old"}},
		{"a directory is made, and what is in it is synced", func(b *bench) {
			b.must(order{Do: "mkdir", Path: b.at("dir")})
			b.fsync(b.create(b.at("dir/new"), "new"))
			b.syncDir(b.at("dir"))
		}, map[string]string{"old": "old"}},
		{"a directory is made, and its name is synced", func(b *bench) {
			b.must(order{Do: "mkdir", Path: b.at("dir")})
			b.fsync(b.create(b.at("dir/new"), "new"))
			b.syncDir(b.at(""))
		}, map[string]string{"old": "old", "dir/": ""}},
		{"a directory is made, and all is synced", func(b *bench) {
			b.must(order{Do: "mkdir", Path: b.at("dir")})
			b.fsync(b.create(b.at("dir/new"), "new"))
			b.syncDir(b.at("dir"))
			b.syncDir(b.at(""))
		}, map[string]string{"old": "old", "dir/": "", "dir/new": "new"}},
		{"moved to a new directory, fsync of the directory it leaves", func(b *bench) {
			b.must(order{Do: "mkdir", Path: b.at("dir")})
			b.must(order{Do: "rename", Path: b.at("old"), To: b.at("dir/old")})
			b.syncDir(b.at(""))
		}, map[string]string{"dir/": "", "dir/old": "old"}},
		{"moved to a new directory, fsync of that", func(b *bench) {
			b.must(order{Do: "mkdir", Path: b.at("dir")})
			b.must(order{Do: "rename", Path: b.at("old"), To: b.at("dir/old")})
			b.syncDir(b.at("dir"))
		}, map[string]string{"dir/": "", "dir/old": "old"}},
		{"one directory is synced, not the other", func(b *bench) {
			b.must(order{Do: "mkdir", Path: b.at("dir")})
			b.syncDir(b.at(""))
			b.fsync(b.create(b.at("new"), "new"))
			b.fsync(b.create(b.at("dir/new"), "new"))
			b.syncDir(b.at("dir"))
		}, map[string]string{"old": "old", "dir/": "", "dir/new": "new"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			b.fsync(b.create(b.at("old"), "old"))
			b.syncDir(b.at(""))
			test.do(b)
			before := b.files()
			b.kill()
			b.hand = newHand(t)
			if got := b.files(); !maps.Equal(got, before) {
				t.Errorf("after a kill: %q; want what was there before, %q", got, before)
			}
			b.outage(Fault{})
			if got := b.files(); !maps.Equal(got, test.want) {
				t.Errorf("after the outage: %q; want %q", got, test.want)
			}
		})
	}
}

// TestTorn: the first part of the last write to a file that was not synced survives, and without
// luck nothing of the writes before it.
func TestTorn(t *testing.T) {
	b := newBench(t)
	size := int64(3000)
	old, lost, last := strings.Repeat("o", int(size)), strings.Repeat("l", int(size)), strings.Repeat("n", int(size))
	seen := map[int]bool{}
	for luck := range uint64(8) {
		f := b.create(b.at("f"), old)
		b.fsync(f)
		b.syncDir(b.at(""))
		b.write(f, size, lost)
		b.write(f, 100, last)
		b.create(b.at("later, and without a name that is durable"), "later")
		b.outage(Fault{Torn: true, Luck: luck})
		got := b.content(b.at("f"))
		n := strings.Count(got, "n")
		if n < 1 || n >= len(last) || !strings.HasPrefix(got[100:], last[:n]) {
			t.Errorf("luck %d: %d bytes of the last write, of %d; want its beginning", luck, n, len(last))
		}
		if want := old[:100] + last[:n] + old[min(size, int64(100+n)):]; luck == 0 && got != want {
			t.Errorf("without luck something else survives too")
		}
		seen[n] = true
	}
	if len(seen) < 4 {
		t.Errorf("it is always torn in the same places: %v", slices.Collect(maps.Keys(seen)))
	}
}

// TestLuck: what was not synced survives in every way that a disk allows, and in
// no other.
func TestLuck(t *testing.T) {
	b := newBench(t)
	old := strings.Repeat("0", 4*sectorSize)
	seen := map[string]int{}
	for luck := uint64(1); luck <= 120; luck++ {
		b.fsync(b.create(b.at("f"), old))
		b.fsync(b.create(b.at("g"), "durable"))
		b.syncDir(b.at(""))
		f := b.open(b.at("f"), unix.O_RDWR)
		b.write(f, 0, strings.Repeat("1", 2*sectorSize))
		b.write(f, sectorSize, strings.Repeat("2", 3*sectorSize))
		b.create(b.at("tmp"), "not synced")
		b.must(order{Do: "rename", Path: b.at("tmp"), To: b.at("g")})
		b.outage(Fault{Luck: luck})
		files := b.files()

		var sectors []string
		for sector := range slices.Chunk([]byte(files["f"]), sectorSize) {
			sectors = append(sectors, string(slices.Compact(sector)))
		}
		data := strings.Join(sectors, "")
		g := files["g"]
		if tmp, ok := files["tmp"]; ok {
			g += ", tmp:" + tmp
		}
		for i, allowed := range []string{"01", "012", "02", "02"} {
			if len(data) != 4 || !strings.Contains(allowed, data[i:i+1]) {
				t.Fatalf("luck %d: sectors %q", luck, data)
			}
		}
		if !slices.Contains([]string{"durable", "durable, tmp:", "durable, tmp:not synced", "", "not synced"}, g) {
			t.Fatalf("luck %d: %q", luck, files)
		}
		seen["f: "+data]++
		seen["g: "+g]++
	}
	for _, want := range []string{"f: 0000", "f: 1222", "f: 1100", "f: 0022", "g: durable", "g: durable, tmp:not synced", "g: ", "g: not synced"} {
		if seen[want] == 0 {
			t.Errorf("never seen: %q", want)
		}
	}
	if len(seen) < 15 {
		t.Errorf("%d outcomes of %v; want more", len(seen), seen)
	}
}

// TestLuckRepeats: the same seed keeps the same.
func TestLuckRepeats(t *testing.T) {
	make := func() *tree {
		t := newTree()
		for _, name := range []string{"a", "b", "c"} {
			i := t.inode(unix.S_IFREG|0o600, 0, 0)
			t.do(edit{t.root, name, i})
			for n := range int64(5) {
				i.content.do(write{t.next(), 100 * n, []byte(strings.Repeat(name, 700))})
			}
		}
		return t
	}
	read := func(t *tree) map[string]string {
		files := map[string]string{}
		for name, i := range t.root.names {
			files[name] = string(i.content.live)
		}
		return files
	}
	different := map[int]bool{}
	for luck := uint64(1); luck < 200; luck++ {
		one, two := read(make().outage(true, luck)), read(make().outage(true, luck))
		if !maps.Equal(one, two) {
			t.Fatalf("luck %d: %q and %q", luck, one, two)
		}
		different[len(one)] = true
	}
	if len(different) != 4 {
		t.Errorf("of 3 names survive %v", different)
	}
}

// TestPowerLossInSync: the power goes while a sync is under way.
func TestPowerLossInSync(t *testing.T) {
	b := newBench(t)
	f := b.create(b.at("f"), "old")
	b.fsync(f)
	b.syncDir(b.at(""))
	b.write(f, 0, "new")
	b.fault(Fault{SyncDelay: time.Hour})
	b.send(order{Do: "fsync", File: f})
	harness.Eventually(t, "it syncs", func() bool { return syncing(b.cmd.Process.Pid) })
	begin := time.Now()
	b.outage(Fault{SyncDelay: time.Hour})
	if took := time.Since(begin); took > patience {
		t.Errorf("%v", took)
	}
	if got := b.content(b.at("f")); got != "old" {
		t.Errorf("%q; want what was there before the sync that the outage has cut short", got)
	}
}

// TestInUse: a power loss while a process uses the disk is refused, names it, and loses nothing.
func TestInUse(t *testing.T) {
	long.Full(t, "it waits for a process to end that does not")
	t.Parallel()
	b := newBench(t)
	b.create(b.at("f"), "not synced")
	err := b.disk.PowerLoss()
	if err == nil || !strings.Contains(err.Error(), "/f by process ") {
		t.Errorf("%v; want it refused, and the process that has f open", err)
	}
	if got := b.content(b.at("f")); got != "not synced" {
		t.Errorf("%q", got)
	}
}
