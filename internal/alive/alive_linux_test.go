package alive

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestFile: nobody can execute the file where the kernel can ensure that, which some kernels are set to require.
func TestLockedFile(t *testing.T) {
	f, err := File("elect")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	probe, err := unix.MemfdCreate("probe", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if err == unix.EINVAL {
		t.Skip("a kernel before 6.3, which knows nothing of that")
	}
	unix.Close(probe)
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_EXEC == 0 {
		t.Errorf("seals %#x, %v; want F_SEAL_EXEC", seals, err)
	}
	if info, err := f.Stat(); err != nil || info.Mode()&0o111 != 0 {
		t.Errorf("%v, %v; want a file that nobody may execute", info.Mode(), err)
	}
}
