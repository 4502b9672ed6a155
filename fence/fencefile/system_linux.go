package fencefile

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// networks are file systems that other machines may write, too, which do not see the
// lock, or only under conditions that cannot be checked from here. The numbers are those
// of statfs(2), and of the systems' own sources.
var networks = map[uint32]string{
	unix.NFS_SUPER_MAGIC:  "NFS",
	unix.SMB_SUPER_MAGIC:  "SMB",
	unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.SMB2_SUPER_MAGIC: "SMB2",
	unix.V9FS_MAGIC:       "9p",
	unix.AFS_SUPER_MAGIC:  "AFS",
	unix.AFS_FS_MAGIC:     "AFS",
	unix.CEPH_SUPER_MAGIC: "Ceph",
	unix.CODA_SUPER_MAGIC: "Coda",
	unix.NCP_SUPER_MAGIC:  "NCP",
	0x7461636f:            "OCFS2",
	0x01161970:            "GFS2",
	0x0bd00bd0:            "Lustre",
	0x47504653:            "GPFS",
	0x19830326:            "BeeGFS",
	0x20030528:            "OrangeFS",
	0xaad7aaea:            "PanFS",
	0x786f4256:            "a VirtualBox share",
	0x7c7c6673:            "a Parallels share",
	0xbacbacbc:            "a VMware share",
}

// fileSystem refuses what is not local, and says what is not known to be.
func fileSystem(path string) (warning string, err error) {
	var st unix.Statfs_t
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Statfs(path, &st)
	}
	if err != nil {
		return "", fmt.Errorf("fencefile: statfs %s: %w", path, err)
	}
	return judge(path, uint32(st.Type))
}

func judge(path string, magic uint32) (warning string, err error) {
	if name, ok := networks[magic]; ok {
		return "", fmt.Errorf("fencefile: %s is on %s, whose locks other machines do not see; want a directory on a local file system", path, name)
	}
	switch magic {
	case unix.FUSE_SUPER_MAGIC:
		return "on FUSE, which may be another machine's; it holds only if that is a local file system, and keeps what is synced", nil
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return "in memory: it is gone when the machine starts again", nil
	}
	return "", nil
}
