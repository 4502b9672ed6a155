package file

import (
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/driver"
)

// refused are file systems whose locks other machines do not see, or see only
// under conditions that cannot be checked from here, or whose server may forget
// them. The numbers are those of statfs(2).
var refused = map[uint32]string{
	unix.NFS_SUPER_MAGIC:  "NFS",
	unix.SMB_SUPER_MAGIC:  "SMB",
	unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.SMB2_SUPER_MAGIC: "SMB2",
	refusedFUSE:           "FUSE",
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

// checkFileSystem refuses a file system on which a lock does not hold.
func checkFileSystem(path string, log *slog.Logger) error {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	for err == unix.EINTR {
		err = unix.Statfs(path, &st)
	}
	if err != nil {
		return explain("statfs", path, err)
	}
	if err := refuse(path, uint32(st.Type)); err != nil {
		return err
	}
	switch uint32(st.Type) {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		log.Info("the token counter is in memory: tokens start again at 1 after a reboot, unless the era is raised", "dir", path)
	}
	return nil
}

func refuse(path string, magic uint32) error {
	name, ok := refused[magic]
	if !ok {
		return nil
	}
	return driver.Permanent(fmt.Errorf("%s is on %s, where a lock does not hold as it does on a local disk; want a directory such as /var/lib/elect on a local one", path, name))
}
