package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv("SCHEDULER_UNDER_TEST") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestTakeover starts three schedulers, kills the one that leads, again and
// again, and has the log prove that each tick ran once.
func TestTakeover(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ticks.log")
	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-election", "file:"+dir, "-log", path, "-every", "2ms")
		cmd.Env = append(os.Environ(), "SCHEDULER_UNDER_TEST=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // unless it was killed already
			_ = cmd.Wait()
		})
		return cmd
	}
	byPID := map[int]*exec.Cmd{}
	for range 3 {
		cmd := start()
		byPID[cmd.Process.Pid] = cmd
	}
	var last entry
	for range 5 {
		last = awaitEntry(t, path, func(e entry) bool { return e.token > last.token })
		leader := byPID[last.pid]
		if err := leader.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = leader.Wait() // killed
		cmd := start()
		byPID[cmd.Process.Pid] = cmd
	}
	awaitEntry(t, path, func(e entry) bool { return e.token > last.token })
	for _, cmd := range byPID {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	j, err := openJournal(path) // cuts off what the last kill left unfinished
	if err != nil {
		t.Fatal(err)
	}
	_ = j.Close()
	if err := verifyLog(path); err != nil {
		t.Error(err)
	}
}

// TestInterrupt ends a leader with Ctrl-C, which is no trouble.
func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ticks.log")
	cmd := exec.Command(os.Args[0], "-election", "file:"+dir, "-log", path, "-every", "1ms")
	cmd.Env = append(os.Environ(), "SCHEDULER_UNDER_TEST=1")
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // unless it has ended
	awaitEntry(t, path, func(entry) bool { return true })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v; want success", err)
	}
	if text := said.String(); !strings.Contains(text, "leading") || strings.Contains(text, "WARN") || strings.Contains(text, "ERROR") {
		t.Errorf("it said:\n%s", text)
	}
}

// awaitEntry waits for the last entry of the log to be as wanted.
func awaitEntry(t *testing.T, path string, want func(entry) bool) entry {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		b, _ := os.ReadFile(path)
		var last entry
		_, _ = readEntries(bytes.NewReader(b), func(e entry) error { last = e; return nil })
		if last.tick > 0 && want(last) {
			return last
		}
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatal("no tick of a new leader for 30 s")
		}
	}
}

func TestVerifyFinds(t *testing.T) {
	for name, log := range map[string]string{
		"a tick twice":       "tick=1 token=1 pid=7\ntick=1 token=2 pid=8\n",
		"a tick left out":    "tick=1 token=1 pid=7\ntick=3 token=1 pid=7\n",
		"a late old leader":  "tick=1 token=2 pid=7\ntick=2 token=1 pid=8\n",
		"a token of two":     "tick=1 token=1 pid=7\ntick=2 token=1 pid=8\n",
		"a line of no entry": "tick=1 token=1 pid=7\nboo\n",
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := verifyLog(path); err == nil {
			t.Errorf("%s was not found", name)
		} else if !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v; want it to name line 2", name, err)
		}
	}
}
