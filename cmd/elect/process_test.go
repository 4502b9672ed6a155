//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/electd/elect/internal/proc"
)

const (
	// patience is how long tests wait for what takes milliseconds.
	patience = 2 * time.Minute

	poll = 2 * time.Millisecond

	// mark is a variable by which the processes of one test are known. It does
	// not begin with ELECT_: those are not passed on to candidates of the demo.
	mark = "TEST_OF_ELECT"
)

// raceEnv lets a process end at once under -race; each would wait for a second.
func raceEnv() string {
	return "GORACE=" + strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")
}

// eventually reports whether ok came true in time.
func eventually(ok func() bool) bool {
	for late := time.Now().Add(patience); !ok(); time.Sleep(poll) {
		if time.Now().After(late) {
			return false
		}
	}
	return true
}

// awaitNone waits until no process has that variable in the environment that it
// was started with. It returns a list of those that have it in the end, and has
// killed them.
func awaitNone(variable string) string {
	if eventually(func() bool { return len(marked(variable)) == 0 }) {
		return ""
	}
	var list strings.Builder
	for _, pid := range marked(variable) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		fmt.Fprintf(&list, "%d %s\n", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return list.String()
}

func marked(variable string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range files {
		env, err := os.ReadFile(path) // empty for a zombie
		if err != nil || !bytes.Contains(append([]byte{0}, env...), []byte("\x00"+variable+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// dead reports whether a process has ended, reaped or not.
func dead(pid int) bool {
	s, ok := proc.Read(pid)
	return !ok || s.Dead()
}
