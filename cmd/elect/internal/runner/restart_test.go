package runner

import (
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/agent/supervise"
)

func TestRestartAgain(t *testing.T) {
	for _, c := range []struct {
		name              string
		exit              supervise.Exit
		onFailure, always bool
	}{
		{"success", supervise.Exit{Reason: supervise.Exited}, false, true},
		{"failure", supervise.Exit{Reason: supervise.Exited, Code: 1}, true, true},
		{"signal", supervise.Exit{Reason: supervise.Exited, Code: -1, Signal: syscall.SIGSEGV}, true, true},
		{"nobody reads", supervise.Exit{Reason: supervise.Exited, Code: -1, Signal: syscall.SIGPIPE}, false, true},
		{"nobody reads, and stopped", supervise.Exit{Reason: supervise.Stopped, Code: -1, Signal: syscall.SIGPIPE}, true, true},
		{"stopped, and went quietly", supervise.Exit{Reason: supervise.Stopped}, true, true},
		{"deadline", supervise.Exit{Reason: supervise.Expired, Code: -1, Signal: syscall.SIGKILL}, true, true},
		{"keeper lost", supervise.Exit{Reason: supervise.KeeperLost, Code: -1, Signal: syscall.SIGKILL}, true, true},
	} {
		if got := OnFailure.Again(c.exit); got != c.onFailure {
			t.Errorf("%s: on-failure stands again: %v, want %v", c.name, got, c.onFailure)
		}
		if got := Always.Again(c.exit); got != c.always {
			t.Errorf("%s: always stands again: %v, want %v", c.name, got, c.always)
		}
	}
}

func TestParseRestart(t *testing.T) {
	for _, r := range []Restart{OnFailure, Always} {
		if got, err := ParseRestart(r.String()); got != r || err != nil {
			t.Errorf("ParseRestart(%q) = %v, %v", r.String(), got, err)
		}
	}
	if _, err := ParseRestart("never"); err == nil {
		t.Error("ParseRestart(never) succeeded")
	}
}

func TestBackoff(t *testing.T) {
	const s = time.Second
	fail := supervise.Exit{Reason: supervise.Exited, Code: 1}
	ok := supervise.Exit{Reason: supervise.Exited}
	by := func(sig syscall.Signal) supervise.Exit {
		return supervise.Exit{Reason: supervise.Exited, Code: -1, Signal: sig}
	}
	crash, kill := by(syscall.SIGSEGV), by(syscall.SIGKILL)
	broken := supervise.Exit{Reason: supervise.Stopped, Code: -1, Signal: syscall.SIGSEGV}
	stopped := supervise.Exit{Reason: supervise.Stopped, Code: 1}
	type run struct {
		exit supervise.Exit
		ran  time.Duration
		want time.Duration
	}
	quick := func(e supervise.Exit, want time.Duration) run { return run{e, 10 * time.Millisecond, want} }
	for _, c := range []struct {
		name string
		runs []run
	}{
		{"doubles from the third on, up to 30 s", []run{
			quick(fail, 0), quick(fail, 0), quick(fail, s), quick(fail, 2*s), quick(fail, 4*s), quick(fail, 8*s),
			quick(fail, 16*s), quick(fail, 30*s), quick(fail, 30*s)}},
		{"a long run starts anew", []run{
			quick(fail, 0), quick(fail, 0), {fail, s, 0}, quick(fail, 0), quick(fail, 0), quick(fail, s)}},
		{"a success starts anew", []run{
			quick(fail, 0), quick(fail, 0), quick(fail, s), quick(ok, 0), quick(fail, 0), quick(fail, 0), quick(fail, s)}},
		{"signals count like failures", []run{
			quick(crash, 0), quick(fail, 0), quick(by(syscall.SIGPIPE), s), quick(by(syscall.SIGTERM), 2*s), quick(crash, 4*s)}},
		{"a signal after a long run starts anew", []run{
			quick(crash, 0), quick(crash, 0), {by(syscall.SIGTERM), s, 0}, quick(crash, 0), quick(crash, 0), quick(crash, s)}},
		{"SIGKILL never backs off", []run{
			quick(kill, 0), quick(kill, 0), quick(kill, 0), quick(kill, 0), quick(kill, 0)}},
		{"SIGKILL starts anew", []run{
			quick(fail, 0), quick(crash, 0), quick(kill, 0), quick(fail, 0), quick(crash, 0), quick(fail, s)}},
		{"an end from outside never backs off", []run{
			quick(stopped, 0), quick(broken, 0), quick(stopped, 0), quick(broken, 0)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b backoff
			for i, r := range c.runs {
				if got := b.after(r.exit, r.ran); got != r.want {
					t.Fatalf("run %d: waits %v, want %v", i+1, got, r.want)
				}
			}
		})
	}
}
