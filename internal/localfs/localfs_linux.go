package localfs

import "golang.org/x/sys/unix"

// networks has the numbers of network file systems, from statfs(2) and the file systems' own sources.
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

// Of tells what a path is on. Its errors are those of statfs(2), unchanged.
func Of(path string) (System, error) {
	st, err := statfs(path)
	if err != nil {
		return System{}, err
	}
	return numbered(uint32(st.Type)), nil
}

func numbered(magic uint32) System {
	if name, ok := networks[magic]; ok {
		return System{Network, name}
	}
	switch magic {
	case unix.FUSE_SUPER_MAGIC:
		return System{FUSE, "FUSE"}
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return System{Kind: Memory}
	}
	return System{}
}
