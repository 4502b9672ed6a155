//go:build linux

// Package clitest runs a command in scripts, as a shell would, with processes beside it. It is for tests, on Linux. A
// test owns the processes that it starts: those that are left at its end are killed, and fail the test.
package clitest

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
	// Patience is how long tests wait for what takes milliseconds.
	Patience = 2 * time.Minute

	poll = 2 * time.Millisecond

	// Mark is a variable that identifies the processes of one test. It does not begin with ELECT_, because the demo does
	// not pass those on to its candidates.
	Mark = "TEST_OF_ELECT"
)

// RaceEnv lets a process end at once under -race; each would wait for a second.
func RaceEnv() string {
	return "GORACE=" + strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")
}

// Eventually reports whether ok came true in time.
func Eventually(ok func() bool) bool {
	for late := time.Now().Add(Patience); !ok(); time.Sleep(poll) {
		if time.Now().After(late) {
			return false
		}
	}
	return true
}

// AwaitNone waits until no process has started with that variable in its environment. It returns a list of those that
// are left in the end, and has killed them.
func AwaitNone(variable string) string {
	if Eventually(func() bool { return len(marked(variable)) == 0 }) {
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

// Dead reports whether a process has ended, reaped or not.
func Dead(pid int) bool {
	s, ok := proc.Read(pid)
	return !ok || s.Dead()
}
