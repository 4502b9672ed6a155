package localfs

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestNumbered(t *testing.T) {
	for magic, want := range map[uint32]System{
		0x6969: {Network, "NFS"}, 0xff534d42: {Network, "CIFS"}, 0xfe534d42: {Network, "SMB2"}, 0x65735546: {FUSE, "FUSE"},
		0x01021997: {Network, "9p"}, 0x5346414f: {Network, "AFS"}, 0x6b414653: {Network, "AFS"}, 0x00c36400: {Network, "Ceph"},
		unix.TMPFS_MAGIC: {Kind: Memory}, unix.RAMFS_MAGIC: {Kind: Memory},
		unix.EXT4_SUPER_MAGIC: {}, unix.XFS_SUPER_MAGIC: {}, unix.BTRFS_SUPER_MAGIC: {}, unix.OVERLAYFS_SUPER_MAGIC: {},
	} {
		if got := numbered(magic); got != want {
			t.Errorf("%#x: %+v; want %+v", magic, got, want)
		}
	}
}

func TestOf(t *testing.T) {
	if got, err := Of("/proc"); err != nil || got.Kind == Network {
		t.Errorf("of /proc: %+v, %v", got, err)
	}
	if _, err := Of(t.TempDir() + "/nothing"); err != unix.ENOENT {
		t.Errorf("of nothing: %v; want ENOENT, as it is", err)
	}
}
