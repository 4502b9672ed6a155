//go:build linux

package disk

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/electd/elect/internal/long"
	"golang.org/x/sys/unix"
)

// The twin is a disk that keeps everything that was ever done, and works out what
// is durable only when it is asked, by the rules as they are written down.

type twin struct {
	root  *thing
	done  []renaming
	clock int
}

// thing is a file or a directory of it.
type thing struct {
	data, synced string
	names        map[string]*thing // nil: a file
	before       map[string]*thing // as the last outage left them
}

// renaming is a change of names: all that it takes away and gives.
type renaming struct {
	at     []spot
	final  bool // a sync has covered it
	needed bool // by something that was moved to what it gives a name
}

type spot struct {
	dir  *thing
	name string
	to   *thing
}

func (w *twin) change(at ...spot) {
	for _, p := range at {
		if delete(p.dir.names, p.name); p.to != nil {
			p.dir.names[p.name] = p.to
		}
	}
	w.done = append(w.done, renaming{at: at})
}

func newDir() *thing { return &thing{names: map[string]*thing{}, before: map[string]*thing{}} }

// syncDir: all changes in the directory are final, and so is all that one of those
// rests on.
func (w *twin) syncDir(dir *thing) {
	for i, c := range w.done {
		for _, p := range c.at {
			if p.dir == dir {
				w.done[i].final = true
			}
		}
	}
	for again := true; again; {
		again = false
		for i, c := range w.done {
			for j := range w.done[:i] {
				e := &w.done[j]
				shares, names := c.rests(*e)
				if c.final && (shares || names) && (!e.final || names && !e.needed) {
					e.final, again = true, true
					e.needed = e.needed || names
				}
			}
		}
	}
}

// rests says what c has to do with the earlier e: whether it changes a directory
// that e changed too, and whether it, or what rests on it, moves something to a
// directory that e gave its name.
func (c renaming) rests(e renaming) (shares, names bool) {
	for _, p := range c.at {
		for _, q := range e.at {
			shares = shares || p.dir == q.dir
			names = names || q.to == p.dir && (c.moves() || c.needed)
		}
	}
	return shares, names
}

func (c renaming) moves() bool { return len(c.at) == 2 && c.at[0].dir != c.at[1].dir }

// outage leaves what was final.
func (w *twin) outage() {
	dirs := map[*thing]bool{w.root: true}
	for _, c := range w.done {
		for _, p := range c.at {
			dirs[p.dir] = true
			if p.to != nil && p.to.names != nil {
				dirs[p.to] = true
			}
		}
	}
	var add func(*thing)
	add = func(d *thing) {
		dirs[d] = true
		for _, to := range d.before {
			if to.names != nil && !dirs[to] {
				add(to)
			}
		}
	}
	for d := range maps.Clone(dirs) {
		add(d)
	}
	for d := range dirs {
		d.names = maps.Clone(d.before)
	}
	for _, c := range w.done {
		if c.final {
			for _, p := range c.at {
				if delete(p.dir.names, p.name); p.to != nil {
					p.dir.names[p.name] = p.to
				}
			}
		}
	}
	for d := range dirs {
		d.before = maps.Clone(d.names)
		for _, to := range d.names {
			to.data = to.synced
		}
	}
	w.done = nil
}

func (w *twin) files() map[string]string {
	files := map[string]string{}
	var walk func(string, *thing)
	walk = func(at string, d *thing) {
		for name, to := range d.names {
			if to.names == nil {
				files[path.Join(at, name)] = to.data
				continue
			}
			files[path.Join(at, name)+"/"] = ""
			walk(path.Join(at, name), to)
		}
	}
	walk("", w.root)
	return files
}

// all are the paths of what there is of one kind, in order.
func (w *twin) all(dirs bool) (paths []string, things map[string]*thing) {
	things = map[string]*thing{}
	var walk func(string, *thing)
	walk = func(at string, d *thing) {
		if dirs {
			things[at] = d
		}
		for name, to := range d.names {
			if to.names != nil {
				walk(path.Join(at, name), to)
			} else if !dirs {
				things[path.Join(at, name)] = to
			}
		}
	}
	walk("", w.root)
	return slices.Sorted(maps.Keys(things)), things
}

// TestTwin does the same at random to a disk and to its twin. After each kill and
// each outage they have the same files.
func TestTwin(t *testing.T) {
	chance := rand.New(rand.NewPCG(Seed(t), 0))
	b := newBench(t)
	w := &twin{root: newDir()}
	steps := long.FullOr(2500, 400)
	var last []string
	counts := map[string]int{}
	for range steps {
		what := step(b, w, chance)
		counts[strings.Fields(what)[0]]++
		last = append(last, what)
		end := chance.IntN(80)
		switch end {
		case 0:
			b.kill()
			b.hand = newHand(t)
		case 1, 2:
			b.outage(Fault{})
			w.outage()
		default:
			continue
		}
		if got, want := b.files(), w.files(); !maps.Equal(got, want) {
			t.Fatalf("%s\n%q; want\n%q", strings.Join(last, "\n"), got, want)
		}
		if end != 0 {
			last = last[:0]
		}
	}
	for _, do := range []string{"create", "write", "truncate", "fsync", "sync", "mkdir", "unlink", "rmdir", "rename", "move", "exchange", "link"} {
		if counts[do] == 0 {
			t.Errorf("it was never done: %s", do)
		}
	}
	t.Log(counts)
}

// step does one thing to both, and says what.
func step(b *bench, w *twin, chance *rand.Rand) string {
	b.t.Helper()
	paths, dirs := w.all(true)
	dirPath := paths[chance.IntN(len(paths))]
	dir := dirs[dirPath]
	other := paths[chance.IntN(len(paths))]
	filePaths, files := w.all(false)
	name := path.Join(dirPath, string(rune('a'+chance.IntN(4))))
	free := dir.names[path.Base(name)] == nil

	kind := chance.IntN(14)
	switch {
	case kind == 13:
		b.syncDir(b.at(dirPath))
		w.syncDir(dir)
		return "sync of /" + dirPath
	case kind < 2 && free && len(paths) < 8 && strings.Count(name, "/") < 4:
		b.must(order{Do: "mkdir", Path: b.at(name)})
		w.change(spot{dir, path.Base(name), newDir()})
		return "mkdir " + name
	case kind < 5 && free:
		data := fmt.Sprint("made ", w.tick())
		b.must(order{Do: "close", File: b.create(b.at(name), data)})
		w.change(spot{dir, path.Base(name), &thing{data: data}})
		return "create " + name
	case len(filePaths) == 0:
		return "nothing"
	}
	file := filePaths[chance.IntN(len(filePaths))]
	f := files[file]
	from, fromName := dirs[strings.TrimPrefix(path.Dir("/" + file)[1:], "/")], path.Base(file)
	switch kind {
	case 0, 1, 2:
		// A directory that is empty, or else a file.
		for _, at := range paths[1:] {
			if len(dirs[at].names) == 0 {
				b.must(order{Do: "rmdir", Path: b.at(at)})
				w.change(spot{dirs[path.Dir("/" + at)[1:]], path.Base(at), nil})
				return "rmdir " + at
			}
		}
		b.must(order{Do: "unlink", Path: b.at(file)})
		w.change(spot{from, fromName, nil})
		return "unlink " + file
	case 3, 4, 5:
		at := int64(chance.IntN(2 * pageSize))
		if chance.IntN(2) == 0 {
			at = int64(len(f.data))
		}
		data := strings.Repeat(fmt.Sprintf("<%d>", w.tick()), 1+chance.IntN(300))
		fd := b.open(b.at(file), unix.O_RDWR)
		b.write(fd, at, data)
		b.must(order{Do: "close", File: fd})
		all := append([]byte(f.data), make([]byte, max(0, int(at)+len(data)-len(f.data)))...)
		copy(all[at:], data)
		f.data = string(all)
		return fmt.Sprintf("write %d bytes at %d to %s", len(data), at, file)
	case 6:
		size := chance.IntN(len(f.data) + 100)
		fd := b.open(b.at(file), unix.O_RDWR)
		b.must(order{Do: "ftruncate", File: fd, Size: int64(size)})
		b.must(order{Do: "close", File: fd})
		f.data = (f.data + strings.Repeat("\x00", 100))[:size]
		return fmt.Sprintf("truncate %s to %d", file, size)
	case 7, 8:
		fd := b.open(b.at(file), unix.O_RDONLY)
		b.must(order{Do: []string{"fsync", "fdatasync"}[kind-7], File: fd})
		b.must(order{Do: "close", File: fd})
		f.synced = f.data
		return "fsync " + file
	case 9, 10: // over whatever file is there
		to := dir.names[path.Base(name)]
		if to != nil && to.names != nil || to == f {
			return "nothing"
		}
		b.must(order{Do: "rename", Path: b.at(file), To: b.at(name)})
		w.change(spot{from, fromName, nil}, spot{dir, path.Base(name), f})
		return "rename " + file + " to " + name
	case 11: // a directory to another
		if dirPath == "" || strings.HasPrefix(other+"/", dirPath+"/") || dirs[other].names["moved"] != nil {
			return "nothing"
		}
		b.must(order{Do: "rename", Path: b.at(dirPath), To: b.at(path.Join(other, "moved"))})
		w.change(spot{dirs[path.Dir("/" + dirPath)[1:]], path.Base(dirPath), nil}, spot{dirs[other], "moved", dir})
		return "move " + dirPath + " to " + other
	case 12:
		if chance.IntN(2) == 0 {
			if !free {
				return "nothing"
			}
			b.must(order{Do: "link", Path: b.at(file), To: b.at(name)})
			w.change(spot{dir, path.Base(name), f})
			return "link " + file + " to " + name
		}
		to := dir.names[path.Base(name)]
		if to == nil || to.names != nil || to == f {
			return "nothing"
		}
		b.must(order{Do: "rename", Path: b.at(file), To: b.at(name), Flags: unix.RENAME_EXCHANGE})
		w.change(spot{from, fromName, to}, spot{dir, path.Base(name), f})
		return "exchange " + file + " and " + name
	}
	return "nothing"
}

func (w *twin) tick() int {
	w.clock++
	return w.clock
}
