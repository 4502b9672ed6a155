package keeper

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDying looks at processes that live, and at one that was killed and is not
// reaped.
func TestDying(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if dying("self") || dying(strconv.Itoa(cmd.Process.Pid)) {
		t.Error("a living process is taken for one that dies")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if !dying(strconv.Itoa(cmd.Process.Pid)) {
		t.Error("a process that was killed is taken for alive")
	}
	_ = cmd.Wait()
	if dying(strconv.Itoa(cmd.Process.Pid)) {
		t.Error("a process that is reaped is said to be dying yet")
	}
}

func TestKillPending(t *testing.T) {
	const status = "Name:\tSigPnd:\nSigQ:\t0/100\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\nSigBlk:\tffffffffffffffff\n"
	for _, c := range []struct {
		old, new string
		want     bool
	}{
		{"", "", false},
		{"SigPnd:\t0000000000000000", "SigPnd:\t0000000000000100", true},
		{"ShdPnd:\t0000000000000000", "ShdPnd:\t0000000000000101", true},
		{"ShdPnd:\t0000000000000000", "ShdPnd:\t0000000000004000", false}, // SIGTERM may be caught
	} {
		if got := killPending(strings.Replace(status, c.old, c.new, 1)); got != c.want {
			t.Errorf("%q for %q: %t", c.new, c.old, got)
		}
	}
}
