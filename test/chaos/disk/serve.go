//go:build linux

package disk

import (
	"maps"
	"slices"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// service answers the kernel. The kernel caches none of the answers, except for the content of
// files.
type service struct {
	fuse.RawFileSystem // for what is not here: there is none of that
	*volume
}

func (s service) String() string { return "elect-chaos" }

func (s service) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, code := s.at(in.NodeId)
	if code != fuse.OK {
		return code
	}
	i := dir.names[name]
	if i == nil {
		return fuse.ENOENT
	}
	s.tell(i, out)
	return fuse.OK
}

func (s service) Forget(node, lookups uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.known[node]
	if i == nil || node == fuse.FUSE_ROOT_ID {
		return
	}
	if i.lookups -= min(lookups, i.lookups); i.lookups == 0 {
		delete(s.known, node)
		i.node = 0
		if i.content != nil {
			i.content.lost = nil // its pages have gone from the kernel's memory
		}
	}
}

func (s service) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, code := s.at(in.NodeId)
	if code == fuse.OK {
		i.describe(&out.Attr)
	}
	return code
}

func (s service) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, code := s.at(in.NodeId)
	if code != fuse.OK {
		return code
	}
	if code := s.changes(); code != fuse.OK {
		return code
	}
	now := time.Now()
	if size, ok := in.GetSize(); ok {
		if code := s.truncate(i, size); code != fuse.OK {
			return code
		}
		i.data = now
	}
	if mode, ok := in.GetMode(); ok {
		i.mode = i.mode&unix.S_IFMT | mode
	}
	if uid, ok := in.GetUID(); ok {
		i.uid = uid
	}
	if gid, ok := in.GetGID(); ok {
		i.gid = gid
	}
	if t, ok := in.GetMTime(); ok {
		i.data = t
	}
	if t, ok := in.GetATime(); ok {
		i.access = t
	}
	i.state = now
	i.describe(&out.Attr)
	return fuse.OK
}

// make gives a new inode a name.
func (s service) make(in *fuse.InHeader, name string, mode uint32, out *fuse.EntryOut) (*inode, fuse.Status) {
	dir, code := s.at(in.NodeId)
	if code != fuse.OK {
		return nil, code
	}
	if dir.names[name] != nil {
		return nil, fuse.Status(unix.EEXIST)
	}
	if code := s.grows(); code != fuse.OK {
		return nil, code
	}
	i := s.tree.inode(mode, in.Uid, in.Gid)
	s.tree.do(edit{dir, name, i})
	s.tell(i, out)
	return i, fuse.OK
}

func (s service) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, code := s.make(&in.InHeader, name, in.Mode, out)
	if code == fuse.OK {
		i.rdev = in.Rdev
	}
	return code
}

func (s service) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, code := s.make(&in.InHeader, name, unix.S_IFDIR|in.Mode&0o7777, out)
	return code
}

func (s service) Symlink(_ <-chan struct{}, in *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, code := s.make(in, name, unix.S_IFLNK|0o777, out)
	if code == fuse.OK {
		i.target = target
		i.describe(&out.Attr)
	}
	return code
}

func (s service) Readlink(_ <-chan struct{}, in *fuse.InHeader) ([]byte, fuse.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, code := s.at(in.NodeId)
	if code != fuse.OK {
		return nil, code
	}
	return []byte(i.target), fuse.OK
}

func (s service) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, code := s.at(in.NodeId)
	if code != fuse.OK {
		return code
	}
	i, code := s.at(in.Oldnodeid)
	if code != fuse.OK {
		return code
	}
	if dir.names[name] != nil {
		return fuse.Status(unix.EEXIST)
	}
	if code := s.grows(); code != fuse.OK {
		return code
	}
	s.tree.do(edit{dir, name, i})
	s.tell(i, out)
	return fuse.OK
}

func (s service) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return s.remove(in, name)
}

func (s service) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return s.remove(in, name)
}

func (s service) remove(in *fuse.InHeader, name string) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, code := s.at(in.NodeId)
	if code != fuse.OK {
		return code
	}
	i := dir.names[name]
	if i == nil {
		return fuse.ENOENT
	}
	if code := s.changes(); code != fuse.OK {
		return code
	}
	if len(i.names) > 0 {
		return fuse.Status(unix.ENOTEMPTY)
	}
	s.tree.do(edit{dir, name, nil})
	return fuse.OK
}

func (s service) Rename(_ <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, code := s.at(in.NodeId)
	if code != fuse.OK {
		return code
	}
	toDir, code := s.at(in.Newdir)
	if code != fuse.OK {
		return code
	}
	if code := s.changes(); code != fuse.OK {
		return code
	}
	i, old := dir.names[from], toDir.names[to]
	switch {
	case i == nil:
		return fuse.ENOENT
	case in.Flags == unix.RENAME_EXCHANGE:
		if old == nil {
			return fuse.ENOENT
		}
		s.tree.do(edit{dir, from, old}, edit{toDir, to, i})
		return fuse.OK
	case in.Flags == unix.RENAME_NOREPLACE && old != nil:
		return fuse.Status(unix.EEXIST)
	case in.Flags&^unix.RENAME_NOREPLACE != 0:
		return fuse.EINVAL
	case old == i:
		return fuse.OK // two names of one file stay
	case old != nil && old.isDir() && !i.isDir():
		return fuse.EISDIR
	case old != nil && !old.isDir() && i.isDir():
		return fuse.ENOTDIR
	case old != nil && len(old.names) > 0:
		return fuse.Status(unix.ENOTEMPTY)
	}
	s.tree.do(edit{dir, from, nil}, edit{toDir, to, i})
	return fuse.OK
}

func (s service) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, code := s.at(in.NodeId)
	if code != fuse.OK {
		return code
	}
	s.hold(dir, in.Pid, out)
	return fuse.OK
}

func (s service) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.open[in.Fh]
	if s.off || h == nil {
		return fuse.EIO
	}
	if in.Offset == 0 {
		h.entries = []fuse.DirEntry{{Name: ".", Mode: unix.S_IFDIR, Ino: h.inode.number}, {Name: "..", Mode: unix.S_IFDIR}}
		for _, name := range slices.Sorted(maps.Keys(h.inode.names)) {
			to := h.inode.names[name]
			h.entries = append(h.entries, fuse.DirEntry{Name: name, Mode: to.mode, Ino: to.number})
		}
	}
	for n := in.Offset; n < uint64(len(h.entries)); n++ {
		if !out.AddDirEntry(h.entries[n]) {
			break
		}
	}
	return fuse.OK
}

func (s service) ReleaseDir(in *fuse.ReleaseIn) { s.letGo(in.Fh) }

func (s service) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, code := s.at(in.NodeId)
	if code != fuse.OK {
		return code
	}
	number := s.tree.count
	switch {
	case !s.delay(), s.fault.SyncError:
		return fuse.EIO
	case s.fault.ReadOnly && slices.ContainsFunc(s.tree.changes, func(c change) bool { return c.touches(dir) }):
		return fuse.EROFS
	}
	s.tree.sync(dir, number)
	return fuse.OK
}

func (s service) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	*out = fuse.StatfsOut{Blocks: 1 << 20, Bfree: 1 << 19, Bavail: 1 << 19, Files: 1 << 20, Ffree: 1 << 19, Bsize: pageSize, Frsize: pageSize, NameLen: 255}
	if s.fault.Full {
		out.Bfree, out.Bavail, out.Ffree = 0, 0, 0
	}
	return fuse.OK
}
