//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect"
)

func TestMain(m *testing.M) {
	if os.Args[0] == "elect-keeper" || os.Getenv("GUARDED_UNDER_TEST") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestTakeover starts three copies and kills, again and again, the one that
// leads: what was started, or the program below it. The log must prove that no
// worker outlived its leader's leadership.
func TestTakeover(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "work.log")
	fronts := map[int]*exec.Cmd{} // by pid
	start := func() {
		cmd := exec.Command(os.Args[0], "-election", "file:"+dir, "-log", path)
		cmd.Env = append(os.Environ(), "GUARDED_UNDER_TEST=1")
		cmd.Stderr = t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		fronts[cmd.Process.Pid] = cmd
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // unless it was killed already
			_ = cmd.Wait()
		})
	}
	for range 3 {
		start()
	}
	var last entry
	for round := range 4 {
		last = await(t, path, last.token)
		if round%2 == 0 {
			// One that led for a moment between two killings is gone already.
			if err := syscall.Kill(last.program, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				t.Fatal(err)
			}
		} else {
			for _, cmd := range fronts { // whichever leads: all at once
				_ = cmd.Process.Kill()
			}
			for pid, cmd := range fronts {
				_ = cmd.Wait()
				delete(fronts, pid)
			}
		}
		for range 3 {
			start()
		}
	}
	await(t, path, last.token)
	for _, cmd := range fronts {
		if err := cmd.Process.Signal(syscall.SIGTERM); err == nil && cmd.Wait() != nil && cmd.ProcessState.ExitCode() > 0 {
			t.Errorf("told to end, it did with %v", cmd.ProcessState)
		}
	}
	if err := verifyLog(path); err != nil {
		t.Error(err)
	}
}

// await waits for a line of a leader later than that with token, and returns
// the last.
func await(t *testing.T, path string, token elect.Token) entry {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		var last entry
		if f, err := os.Open(path); err == nil {
			_ = readLog(f, func(e entry) error { last = e; return nil })
			f.Close()
		}
		if last.token > token {
			return last
		}
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatal("no worker of a new leader for 30 s")
		}
	}
}

func TestVerifyFinds(t *testing.T) {
	for log, says := range map[string]string{
		"token=1 program=7\ntoken=2 program=8\ntoken=1 program=7\n": "line 3: a worker with token 1 wrote after one with token 2",
		"token=1 program=7\nboo\n":                                  `line 2: "boo" is no entry`,
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := verifyLog(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
	}
}
