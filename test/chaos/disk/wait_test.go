//go:build linux

package disk

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// syncing says whether a thread of a process waits in fsync or fdatasync.
func syncing(pid int) bool {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/syscall", pid, thread.Name()))
		var number int
		if _, err := fmt.Sscanf(string(text), "%d ", &number); err == nil && (number == unix.SYS_FSYNC || number == unix.SYS_FDATASYNC) {
			return true
		}
	}
	return false
}

// Seed is what ELECT_CHAOS_SEED says, or drawn.
func Seed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(rand.Uint32())
	if text := os.Getenv("ELECT_CHAOS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("ELECT_CHAOS_SEED=%d", seed)
	return seed
}

func isUnable(err error) bool { return errors.Is(err, ErrUnable) }
