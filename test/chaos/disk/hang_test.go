//go:build linux

package disk_test

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/proc"
	"github.com/electd/elect/test/chaos/disk"
)

// TestStopWhileDisksHang: elect run exits when it is told to, leader or not, although a write to its disk hangs. The
// kernel keeps the thread that writes until it has ended, and with it the lock of the directory.
func TestStopWhileDisksHang(t *testing.T) {
	long.Test(t, "it waits until real processes have written to their disks")
	v := newVoters(t, build(t), quick)
	v.start()
	v.calm()
	v.fault(disk.Fault{SyncDelay: time.Hour})
	v.hold(11 * time.Second) // a node with nothing to save writes after 10 s
	for _, n := range v.nodes {
		if err := unix.Kill(n.cmd.Process.Pid, unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range v.nodes {
		harness.Eventually(t, n.id+" has exited", func() bool {
			s, ok := proc.Read(n.cmd.Process.Pid)
			return !ok || s.State == 'Z'
		})
		if !strings.Contains(n.said(), "the disk of the data directory hangs") {
			t.Errorf("%s did not say that its disk hangs", n.id)
		}
	}
	v.fault(disk.Fault{})
	for _, n := range v.nodes {
		n.join()
	}
	v.start()
	v.calm()
}
