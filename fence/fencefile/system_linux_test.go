package fencefile

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestJudge(t *testing.T) {
	for magic, want := range map[uint32]string{unix.NFS_SUPER_MAGIC: "NFS", unix.SMB2_SUPER_MAGIC: "SMB2", unix.CIFS_SUPER_MAGIC: "CIFS"} {
		if _, err := judge("/x", magic); err == nil || !strings.Contains(err.Error(), "/x is on "+want+",") {
			t.Errorf("%s: %v", want, err)
		}
	}
	for magic, want := range map[uint32]string{unix.FUSE_SUPER_MAGIC: "FUSE", unix.TMPFS_MAGIC: "memory"} {
		if warning, err := judge("/x", magic); err != nil || !strings.Contains(warning, want) {
			t.Errorf("%s: %q, %v", want, warning, err)
		}
	}
	if warning, err := judge("/x", unix.EXT4_SUPER_MAGIC); warning != "" || err != nil {
		t.Errorf("ext4: %q, %v", warning, err)
	}
}
