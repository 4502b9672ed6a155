//go:build linux

package disk

import (
	"slices"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// maxFile is the greatest size of a file, in bytes: it is all in memory.
const maxFile = 256 << 20

func (s service) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, code := s.make(&in.InHeader, name, unix.S_IFREG|in.Mode&0o7777, &out.EntryOut)
	if code == fuse.OK {
		s.hold(i, in.Pid, &out.OpenOut)
	}
	return code
}

func (s service) Tmpfile(_ <-chan struct{}, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if code := s.grows(); code != fuse.OK {
		return code
	}
	i := s.tree.inode(unix.S_IFREG|in.Mode&0o7777, in.Uid, in.Gid)
	s.tell(i, &out.EntryOut)
	s.hold(i, in.Pid, &out.OpenOut)
	return fuse.OK
}

func (s service) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, code := s.at(in.NodeId)
	if code != fuse.OK {
		return code
	}
	if in.Flags&unix.O_ACCMODE != unix.O_RDONLY {
		if code := s.changes(); code != fuse.OK {
			return code
		}
	}
	s.hold(i, in.Pid, out)
	return fuse.OK
}

func (s service) Release(_ <-chan struct{}, in *fuse.ReleaseIn) { s.letGo(in.Fh) }

func (s service) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, code := s.at(in.NodeId)
	if code != fuse.OK {
		return nil, code
	}
	return fuse.ReadResultData(buf[:i.content.read(buf[:min(len(buf), int(in.Size))], int64(in.Offset))]), fuse.OK
}

func (s service) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, code := s.at(in.NodeId)
	if code != fuse.OK {
		return 0, code
	}
	switch code := s.changes(); {
	case code != fuse.OK:
		return 0, code
	case s.fault.WriteError:
		return 0, fuse.EIO
	case in.Offset+uint64(len(data)) > maxFile:
		return 0, fuse.Status(unix.EFBIG)
	}
	if s.fault.Full { // what is in its place already can be written
		there := max(0, int64(len(i.content.live))-int64(in.Offset))
		if data = data[:min(int64(len(data)), there)]; len(data) == 0 {
			return 0, fuse.Status(unix.ENOSPC)
		}
	}
	i.content.do(write{s.tree.next(), int64(in.Offset), slices.Clone(data)})
	i.data = time.Now()
	i.state = i.data
	return uint32(len(data)), fuse.OK
}

// truncate sets the size of a file. The caller has checked that changes are possible.
func (s service) truncate(i *inode, size uint64) fuse.Status {
	switch {
	case !i.isFile():
		return fuse.EINVAL
	case s.fault.WriteError:
		return fuse.EIO
	case size > maxFile:
		return fuse.Status(unix.EFBIG)
	case size == uint64(len(i.content.live)):
		return fuse.OK
	}
	i.content.do(write{s.tree.next(), int64(size), nil})
	return fuse.OK
}

func (s service) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, code := s.at(in.NodeId)
	if code != fuse.OK {
		return code
	}
	if in.Mode&^unix.FALLOC_FL_KEEP_SIZE != 0 {
		return fuse.ENOTSUP
	}
	size := in.Offset + in.Length
	if size <= uint64(len(i.content.live)) {
		return s.changes()
	}
	if code := s.grows(); code != fuse.OK || in.Mode != 0 {
		return code
	}
	return s.truncate(i, size)
}

// Flush has nothing to do: all writes are here already. The kernel does not ask again after this
// answer. Else it would ask when a child of this process, which has a copy of its descriptors,
// begins its program, and that may be before this process runs on.
func (s service) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }

func (s service) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, code := s.at(in.NodeId)
	if code != fuse.OK {
		return code
	}
	c := i.content
	if c == nil {
		return fuse.OK
	}
	number := c.last()
	switch {
	case !s.delay():
		return fuse.EIO
	case s.fault.ReadOnly && c.split(number) > 0:
		return fuse.EROFS
	case s.fault.SyncError:
		c.lose(number, s.tree.next)
		return fuse.EIO
	}
	c.reach(number)
	return fuse.OK
}
