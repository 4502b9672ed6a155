//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
)

func TestMain(m *testing.M) {
	if os.Args[0] == "elect-keeper" || os.Getenv("SCHEDULER_UNDER_TEST") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// ran is one line of the job.
type ran struct {
	token, position uint64
	program         int
}

// TestTakeover kills the program that leads. Another goes on, with a greater token.
func TestTakeover(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // for what nodes on the loopback make there
	url := harness.FreePeers(t, 3) + "?profile=lan&data=" + t.TempDir()
	jobs := make(chan ran, 1024)
	start := func(id string) {
		cmd := exec.Command(os.Args[0], "-election", url, "-id", id, "-every", "5ms")
		cmd.Env = append(os.Environ(), "SCHEDULER_UNDER_TEST=1")
		cmd.Stderr = t.Output()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var r ran
				if _, err := fmt.Sscanf(lines.Text(), "token=%d position=%d program=%d", &r.token, &r.position, &r.program); err != nil {
					t.Errorf("%q: %v", lines.Text(), err)
				}
				jobs <- r
			}
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM) // unless it was killed already
			for {
				select {
				case <-jobs: // of those that still end
					continue
				case <-read:
				}
				break
			}
			_ = cmd.Wait()
		})
	}
	for _, id := range []string{"n1", "n2", "n3"} {
		start(id)
	}
	first := await(t, jobs, 0)
	if err := syscall.Kill(first.program, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if next := await(t, jobs, first.token); next.program == first.program || next.position == 0 {
		t.Errorf("after %+v was killed came %+v", first, next)
	}
}

// await waits for a job of a leader with a token above that one.
func await(t *testing.T, jobs <-chan ran, above uint64) ran {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case r := <-jobs:
			if r.token > above {
				return r
			}
		case <-deadline:
			t.Fatalf("nobody led after token %d", above)
		}
	}
}
