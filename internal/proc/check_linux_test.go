package proc

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestCheck: /proc is right here, and is another's in a pid namespace into which it was
// not mounted.
func TestCheck(t *testing.T) {
	if os.Getenv("PROC_CHECK") != "" {
		err := Check()
		if err == nil {
			t.Fatal("in a namespace of its own: no error")
		}
		os.Stdout.WriteString(err.Error() + "\n")
		return
	}
	if err := Check(); err != nil {
		t.Error(err)
	}
	if os.Getuid() != 0 {
		t.Skip("a pid namespace needs root")
	}
	for name, flags := range map[string]uintptr{
		"is another namespace's": syscall.CLONE_NEWPID,
		"no procfs is mounted":   syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
	} {
		test := exec.Command("/proc/self/exe", "-test.run=TestCheck$", "-test.v")
		if flags&syscall.CLONE_NEWNS != 0 {
			test = exec.Command("/bin/sh", "-c", `mount -t tmpfs none /proc && exec "$@"`, "sh", os.Args[0], "-test.run=TestCheck$", "-test.v")
		}
		test.Env = append(os.Environ(), "PROC_CHECK=1")
		test.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		out, err := test.CombinedOutput()
		if err != nil || !strings.Contains(string(out), name) {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}
