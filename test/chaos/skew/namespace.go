//go:build linux

package skew

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/electd/elect/internal/clock/warp"
)

// ErrUnable says that there are no time namespaces here; it is wrapped with the
// reason.
var ErrUnable = errors.New("skew: no time namespaces here")

// Able returns nil where TimeNamespace works, or an ErrUnable with the reason. It tries it with a
// program.
func Able() error {
	const ahead = time.Hour
	var out strings.Builder
	cmd := TimeNamespace(exec.Command("cat", "/proc/self/timens_offsets"), ahead, 0)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %w: %s", ErrUnable, err, strings.TrimSpace(out.String()))
	}
	// Before Linux 6.1 a program entered its namespace with its first child only.
	want := strconv.Itoa(int(ahead / time.Second))
	for line := range strings.Lines(out.String()) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "boottime" && f[1] == want {
			return nil
		}
	}
	return fmt.Errorf("%w: unshare says that it made one, and the clocks are those of the machine: %s", ErrUnable, strings.TrimSpace(out.String()))
}

// TimeNamespace has cmd run in a time namespace of its own, whose clocks are
// ahead of the machine's by boottime and monotonic. Both are cut to whole seconds,
// and may be negative as long as the clocks show no time before 0. It takes root.
// It changes cmd, which was not started, and returns it. The process is the
// program's own: unshare becomes it.
func TimeNamespace(cmd *exec.Cmd, boottime, monotonic time.Duration) *exec.Cmd {
	seconds := func(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }
	args := []string{"unshare", "--time", "--boottime", seconds(boottime), "--monotonic", seconds(monotonic), "--", cmd.Path}
	if len(cmd.Args) > 1 {
		args = append(args, cmd.Args[1:]...)
	}
	through := exec.Command(args[0])
	cmd.Path, cmd.Args = through.Path, args
	cmd.Err = errors.Join(cmd.Err, through.Err)
	return cmd
}

// Offsets returns by how much CLOCK_BOOTTIME of this process is ahead of that of
// the machine's first time namespace. It does not change while a process lives;
// each call reads a file.
func Offsets() (boottime time.Duration) {
	boottime, _ = offsets()
	return boottime
}

func offsets() (boottime, monotonic time.Duration) {
	boottime, monotonic, err := warp.Offsets()
	if err != nil {
		panic("skew: " + err.Error()) // /proc is always there for tests, and has the form that the kernel documents
	}
	return boottime, monotonic
}
