//go:build linux

package lives

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/test/chaos/skew"
)

const (
	roleEnv = "LIVES_TEST_ROLE"
	pathEnv = "LIVES_TEST_LEDGER"
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		os.Exit(m.Run())
	case "now":
		os.Stdout.WriteString(strconv.FormatInt(Now(), 10))
	case "live":
		l, err := Open(os.Getenv(pathEnv))
		if err != nil {
			panic(err)
		}
		for token := range int64(100) {
			l.Begin(Life{Token: token + 1, Node: int64(os.Getppid()), Kind: Command}).Stamp()
		}
		s := l.Begin(Life{Token: 1000, Kind: Command})
		s.Stamp()
		for {
			s.Stamp()
		}
	}
}

// TestProcesses has processes claim slots at the same time, live, and be killed in
// it.
func TestProcesses(t *testing.T) {
	const processes = 4
	path := filepath.Join(t.TempDir(), "ledger")
	l := open(t, path)
	children := map[int64]*exec.Cmd{}
	for range processes {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), roleEnv+"=live", pathEnv+"="+path)
		cmd.Stderr = t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { harness.End(cmd) })
		children[int64(cmd.Process.Pid)] = cmd
	}
	last := func() map[int64]Life {
		found := map[int64]Life{}
		for _, life := range l.Lives() {
			if life.Token == 1000 {
				found[life.Pid] = life
			}
		}
		return found
	}
	deadline := time.After(30 * time.Second)
	for len(last()) < processes {
		select {
		case <-deadline:
			t.Fatalf("only %d of %d live", len(last()), processes)
		case <-time.After(time.Millisecond):
		}
	}
	killed := map[int64]int64{}
	for pid, cmd := range children {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		killed[pid] = Now()
	}
	count := map[int64]map[int64]int{}
	for _, life := range l.Lives() {
		if count[life.Pid] == nil {
			count[life.Pid] = map[int64]int{}
		}
		count[life.Pid][life.Token]++
	}
	after := last()
	for pid := range children {
		if n := len(count[pid]); n != 101 {
			t.Errorf("process %d has %d of 101 lives", pid, n)
		}
		for token, n := range count[pid] {
			if n != 1 {
				t.Errorf("process %d has %d lives with token %d", pid, n, token)
			}
		}
		if after[pid].Last > killed[pid] || after[pid].Last <= after[pid].Start {
			t.Errorf("killed at %d: %+v", killed[pid], after[pid])
		}
	}
	if now := last(); len(now) != processes {
		t.Errorf("%d lives; want %d", len(now), processes)
	} else {
		for pid := range now {
			if !reflect.DeepEqual(now[pid], after[pid]) {
				t.Errorf("the dead process %d goes on: %+v after %+v", pid, now[pid], after[pid])
			}
		}
	}
}

// TestNowInATimeNamespace: a process whose clocks the kernel has moved reads the
// same time as all others.
func TestNowInATimeNamespace(t *testing.T) {
	if err := skew.Able(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("NOT TESTED: ", err)
	}
	for _, ahead := range []time.Duration{0, 1000 * time.Hour} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), roleEnv+"=now")
		if ahead != 0 {
			cmd = skew.TimeNamespace(cmd, ahead, ahead)
		}
		before := Now()
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		got, err := strconv.ParseInt(string(out), 10, 64)
		if after := Now(); err != nil || got < before || got > after {
			t.Errorf("%v ahead: it read %s, between %d and %d here (%v)", ahead, out, before, after, err)
		}
	}
}
