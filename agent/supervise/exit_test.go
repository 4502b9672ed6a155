package supervise_test

import (
	"syscall"
	"testing"

	"github.com/electd/elect/agent/supervise"
)

func TestExit(t *testing.T) {
	for _, c := range []struct {
		exit supervise.Exit
		code int
		text string
	}{
		{supervise.Exit{Reason: supervise.Exited}, 0, "exit status 0"},
		{supervise.Exit{Reason: supervise.Exited, Code: 3}, 3, "exit status 3"},
		{supervise.Exit{Reason: supervise.Exited, Code: -1, Signal: syscall.SIGKILL}, 137, "signal: killed"},
		{supervise.Exit{Reason: supervise.Stopped, Code: -1, Signal: syscall.SIGTERM}, 143, "signal: terminated (told to stop)"},
		{supervise.Exit{Reason: supervise.Expired, Code: 1}, 1, "exit status 1 (deadline passed)"},
	} {
		if c.exit.ExitCode() != c.code || c.exit.String() != c.text {
			t.Errorf("%+v: %d, %q, want %d, %q", c.exit, c.exit.ExitCode(), c.exit.String(), c.code, c.text)
		}
	}
}
