//go:build linux

package disk

import (
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// tree is the content of a disk: all files, and which of their names survive a power loss. It is
// guarded by the disk's lock.
type tree struct {
	root    *inode
	changes []change // of names, that are not durable, oldest first
	numbers uint64   // of inodes, the last that was given
	count   uint64   // of changes and writes so far
}

// inode is a file, a directory, a symbolic link, or something that has only a
// name, such as a socket.
type inode struct {
	number              uint64 // what stat(2) shows; 1 is the root
	mode, rdev          uint32
	uid, gid            uint32
	access, data, state time.Time // changed last
	links               uint32    // names; of a directory, 1 while it has one

	content *content          // of a file
	target  string            // of a symbolic link
	names   map[string]*inode // of a directory, as processes see it
	kept    map[string]*inode // of a directory, what is durable of it

	// What the kernel has of it.
	node    uint64 // by which it is called there; 0: the kernel does not know it
	lookups uint64 // how often it was told
}

func (i *inode) isDir() bool  { return i.mode&unix.S_IFMT == unix.S_IFDIR }
func (i *inode) isFile() bool { return i.mode&unix.S_IFMT == unix.S_IFREG }

// change is an atomic change of names.
type change struct {
	number uint64 // of all changes and writes
	edits  []edit
}

// touches says whether it changes a name in dir.
func (c change) touches(dir *inode) bool {
	return slices.ContainsFunc(c.edits, func(e edit) bool { return e.dir == dir })
}

// edit is one name of a change.
type edit struct {
	dir  *inode
	name string
	to   *inode // nil: the name is gone
}

func newTree() *tree {
	t := &tree{}
	t.root = t.inode(unix.S_IFDIR|0o700, 0, 0)
	t.root.links = 1
	return t
}

// inode makes one that has no name yet.
func (t *tree) inode(mode, uid, gid uint32) *inode {
	t.numbers++
	now := time.Now()
	i := &inode{number: t.numbers, mode: mode, uid: uid, gid: gid, access: now, data: now, state: now}
	switch {
	case i.isDir():
		i.names, i.kept = make(map[string]*inode), make(map[string]*inode)
	case i.isFile():
		i.content = &content{}
	}
	return i
}

// next numbers changes and writes.
func (t *tree) next() uint64 {
	t.count++
	return t.count
}

// do carries out a change, which is not durable yet.
func (t *tree) do(edits ...edit) {
	now := time.Now()
	for _, e := range edits {
		if old := e.dir.names[e.name]; old != nil {
			old.links--
			old.state = now
		}
		if e.to == nil {
			delete(e.dir.names, e.name)
		} else {
			e.dir.names[e.name] = e.to
			e.to.links++
			e.to.state = now
		}
		e.dir.data, e.dir.state = now, now
	}
	t.changes = append(t.changes, change{t.next(), edits})
}

// sync makes the changes durable that the directory had up to that number, and
// what these rest on.
func (t *tree) sync(dir *inode, number uint64) {
	t.reach(t.closure(func(c change) bool { return c.number <= number && c.touches(dir) }))
}

// closure marks the changes that are wanted, and those before them without which
// they would be other ones: what happened in a directory that they touch, and, if
// they move something from one directory to another, what gave that one its name.
func (t *tree) closure(wanted func(change) bool) []bool {
	marked := make([]bool, len(t.changes))
	touched, needed := make(map[*inode]bool), make(map[*inode]bool)
	for n, c := range slices.Backward(t.changes) {
		named := slices.ContainsFunc(c.edits, func(e edit) bool { return needed[e.to] })
		marked[n] = wanted(c) || named || slices.ContainsFunc(c.edits, func(e edit) bool { return touched[e.dir] })
		if !marked[n] {
			continue
		}
		moves := slices.ContainsFunc(c.edits, func(e edit) bool { return e.dir != c.edits[0].dir })
		for _, e := range c.edits {
			touched[e.dir] = true
			if named || moves {
				needed[e.dir] = true
			}
		}
	}
	return marked
}

// reach brings the marked changes to the disk.
func (t *tree) reach(marked []bool) {
	var rest []change
	for n, c := range t.changes {
		if !marked[n] {
			rest = append(rest, c)
			continue
		}
		for _, e := range c.edits {
			if e.to == nil {
				delete(e.dir.kept, e.name)
			} else {
				e.dir.kept[e.name] = e.to
			}
		}
	}
	t.changes = rest
}

// copy is the tree as processes see it, all of it durable, in which nothing is
// open. keep says whether its inodes have the numbers that they had, or new ones,
// as after a restore.
func (t *tree) copy(keep bool) *tree {
	return t.rebuild(keep, func(i *inode) map[string]*inode { return i.names }, (*content).durable)
}

// rebuild is a tree of copies of what names leads to, with the content that
// content makes.
func (t *tree) rebuild(keep bool, names func(*inode) map[string]*inode, of func(*content) *content) *tree {
	made := make(map[*inode]*inode)
	after := &tree{numbers: t.numbers, count: t.count}
	var build func(*inode) *inode
	build = func(i *inode) *inode {
		c := made[i]
		if c == nil {
			c = &inode{number: i.number, mode: i.mode, rdev: i.rdev, uid: i.uid, gid: i.gid,
				access: i.access, data: i.data, state: i.state, target: i.target}
			if !keep && i != t.root {
				after.numbers++
				c.number, c.state = after.numbers, time.Now()
			}
			made[i] = c
			if i.content != nil {
				c.content = of(i.content)
			}
			if i.isDir() {
				c.names = make(map[string]*inode)
				for _, name := range slices.Sorted(maps.Keys(names(i))) {
					c.names[name] = build(names(i)[name])
				}
				c.kept = maps.Clone(c.names)
			}
		}
		c.links++
		return c
	}
	after.root = build(t.root)
	return after
}
