//go:build linux

package disk

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// volume is a tree behind a mount: with what the kernel knows of it, the faults,
// and the power.
type volume struct {
	mu        sync.Mutex
	tree      *tree
	known     map[uint64]*inode // by the kernel
	nodes     uint64            // given to the kernel so far; none is given twice
	open      map[uint64]*handle
	handles   uint64 // given so far
	fault     Fault
	off       bool // there is no power
	waiting   int  // syncs that are under way
	snapshots map[string]*tree

	turned   chan struct{} // closed and made anew when fault, tree or off change
	released chan struct{} // has one when something was closed
}

// handle is an open file or directory.
type handle struct {
	inode   *inode
	process uint32
	entries []fuse.DirEntry // of a directory that is read
}

// patience is how long processes that were killed may take to end.
const patience = 10 * time.Second

func newVolume() *volume {
	v := &volume{
		tree:      newTree(),
		known:     make(map[uint64]*inode),
		nodes:     fuse.FUSE_ROOT_ID,
		open:      make(map[uint64]*handle),
		snapshots: make(map[string]*tree),
		turned:    make(chan struct{}),
		released:  make(chan struct{}, 1),
	}
	v.enter()
	return v
}

// enter has the kernel find the tree: nothing of it is known yet but the root.
func (v *volume) enter() {
	clear(v.known)
	v.tree.root.node = fuse.FUSE_ROOT_ID
	v.known[fuse.FUSE_ROOT_ID] = v.tree.root
}

// turn tells the waiting goroutines that something has changed.
func (v *volume) turn() {
	close(v.turned)
	v.turned = make(chan struct{})
}

func (v *volume) setFault(f Fault) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fault = f
	v.turn()
}

// delay waits as long as a sync takes. The caller holds the lock, and has it
// again afterwards. It returns false if the power has gone meanwhile.
func (v *volume) delay() bool {
	t, begin := v.tree, time.Now()
	v.waiting++
	defer func() { v.waiting-- }()
	for !v.off && v.tree == t {
		rest := v.fault.SyncDelay - time.Since(begin)
		if rest <= 0 {
			return true
		}
		turned := v.turned
		v.mu.Unlock()
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-turned:
		}
		timer.Stop()
		v.mu.Lock()
	}
	return false
}

// replace cuts the power, waits until the volume is unused, and puts the tree in its place that
// next makes of it: what it is given is what was there when the power went.
func (v *volume) replace(next func(*tree) (*tree, error)) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.off {
		return errors.New("it is closed, or another loss of power is under way")
	}
	v.off = true
	v.turn()
	err := v.idle()
	if err == nil {
		var t *tree
		if t, err = next(v.tree); err == nil {
			v.tree = t
			v.enter()
		}
	}
	v.off = false
	v.turn()
	return err
}

// idle waits until nothing is open. The lock is held, but not while it waits.
func (v *volume) idle() error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for len(v.open) > 0 {
		v.mu.Unlock()
		late := false
		select {
		case <-v.released:
		case <-timer.C:
			late = true
		}
		v.mu.Lock()
		if late && len(v.open) > 0 {
			return fmt.Errorf("it is in use: %v; want all processes killed that use it", v.users())
		}
	}
	return nil
}

// users says what is open, and by which processes it was opened.
func (v *volume) users() []string {
	names := make(map[*inode]string)
	var walk func(at string, i *inode)
	walk = func(at string, i *inode) {
		names[i] = at
		for name, to := range i.names {
			walk(filepath.Join(at, name), to)
		}
	}
	walk("/", v.tree.root)
	users := make(map[string]bool)
	for _, h := range v.open {
		name := names[h.inode]
		if name == "" {
			name = "a file that has no name any more"
		}
		users[fmt.Sprintf("%s by process %d", name, h.process)] = true
	}
	return slices.Sorted(maps.Keys(users))
}

// changes says why nothing can be changed, or OK.
func (v *volume) changes() fuse.Status {
	switch {
	case v.off:
		return fuse.EIO
	case v.fault.ReadOnly:
		return fuse.EROFS
	}
	return fuse.OK
}

// grows says why nothing can be made, or OK.
func (v *volume) grows() fuse.Status {
	if s := v.changes(); s != fuse.OK {
		return s
	}
	if v.fault.Full {
		return fuse.Status(unix.ENOSPC)
	}
	return fuse.OK
}

// at is what the kernel calls by that number.
func (v *volume) at(node uint64) (*inode, fuse.Status) {
	if v.off {
		return nil, fuse.EIO
	}
	if i := v.known[node]; i != nil {
		return i, fuse.OK
	}
	return nil, fuse.Status(unix.ESTALE)
}

// tell gives the kernel an inode.
func (v *volume) tell(i *inode, out *fuse.EntryOut) {
	if i.node == 0 {
		v.nodes++
		i.node = v.nodes
		v.known[i.node] = i
	}
	i.lookups++
	out.NodeId, out.Generation = i.node, 1
	i.describe(&out.Attr)
}

// hold opens an inode.
func (v *volume) hold(i *inode, process uint32, out *fuse.OpenOut) {
	v.handles++
	v.open[v.handles] = &handle{inode: i, process: process}
	out.Fh = v.handles
	// The kernel keeps what it has in memory, as that of a disk does.
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
}

func (v *volume) letGo(fh uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.open, fh)
	select {
	case v.released <- struct{}{}:
	default:
	}
}

// describe is what stat(2) shows.
func (i *inode) describe(a *fuse.Attr) {
	*a = fuse.Attr{Ino: i.number, Mode: i.mode, Nlink: i.links, Owner: fuse.Owner{Uid: i.uid, Gid: i.gid}, Rdev: i.rdev, Blksize: pageSize}
	switch {
	case i.isFile():
		a.Size = uint64(len(i.content.live))
	case i.isDir():
		a.Size = pageSize
		if i.links > 0 {
			a.Nlink = 2
		}
		for _, to := range i.names {
			if to.isDir() {
				a.Nlink++
			}
		}
	default:
		a.Size = uint64(len(i.target))
	}
	a.Blocks = (a.Size + sectorSize - 1) / sectorSize
	a.SetTimes(&i.access, &i.data, &i.state)
}
