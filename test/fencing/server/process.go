//go:build linux

package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/proc"
)

const (
	patience = time.Minute // for what takes a second at most
	nobody   = 65534       // the user, and the group, of servers that refuse to run as root
)

// process is a server's process. It ends, and its directory is removed, with the test.
type process struct {
	name      string // in what is said of it
	dir       string // where it works; what it says is in its file log
	cmd       *exec.Cmd
	databases atomic.Int64
}

// newProcess makes the directory, which an unprivileged user may write to.
func newProcess(t testing.TB, name string) *process {
	t.Helper()
	dir, err := os.MkdirTemp("", "elect-"+strings.ToLower(name)+"-") // not t.TempDir, which others may not enter
	if err != nil {
		t.Fatal(err)
	}
	p := &process{name: name, dir: dir}
	t.Cleanup(func() {
		if p.cmd != nil {
			p.Kill(t)
		}
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("the last that %s said:\n%s", name, text[max(0, len(text)-4000):])
		}
		_ = os.RemoveAll(dir)
	})
	if os.Getuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// Absent is [harness.Absent].
func Absent(t testing.TB, missing string) {
	t.Helper()
	harness.Absent(t, missing)
}

// built is where make servers has put a program, or what a variable names in its place: nats-server or
// ELECT_TEST_NATS_SERVER.
func built(t testing.TB, name string) string {
	t.Helper()
	variable := "ELECT_TEST_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	bin := os.Getenv(variable)
	if bin == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		bin = filepath.Join(cache, "elect-test", name)
	}
	if _, err := os.Stat(bin); err != nil {
		Absent(t, fmt.Sprintf("%v; want make servers, which builds for minutes, or a program in %s", err, variable))
	}
	return bin
}

// Lend copies files to a directory where the servers' user can read them, and returns it.
func Lend(t testing.TB, files ...string) (dir string) {
	t.Helper()
	dir = newProcess(t, "lent").dir
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lent := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(lent, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if os.Getuid() == 0 {
			if err := os.Chown(lent, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// command returns a command in the directory. It does not outlive the test.
func (p *process) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// unprivileged is a command of a program that refuses to run as root.
func (p *process) unprivileged(name string, args ...string) *exec.Cmd {
	cmd := p.command(name, args...)
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// start starts the server, and returns when it answers.
func (p *process) start(t testing.TB, cmd *exec.Cmd, ping func(context.Context) error) {
	t.Helper()
	p.launch(t, cmd)
	p.answers(t, ping)
}

// launch starts the server.
func (p *process) launch(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.cmd = cmd
}

// answers waits until the server does.
func (p *process) answers(t testing.TB, ping func(context.Context) error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := ping(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer: %v", p.name, err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// Pause stops all of the server's processes as SIGSTOP does, or resumes them.
func (p *process) Pause(t testing.TB, on bool) {
	t.Helper()
	sig := syscall.SIGCONT
	if on {
		sig = syscall.SIGSTOP
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	for pid := range childrenOf(p.cmd.Process.Pid) {
		_ = syscall.Kill(pid, sig) // it may have ended
	}
}

// Kill kills the server as kill -9 does, and returns when none of its processes is left.
func (p *process) Kill(t testing.TB) {
	t.Helper()
	children := childrenOf(p.cmd.Process.Pid)
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	p.cmd = nil
	for pid := range children {
		_ = syscall.Kill(pid, syscall.SIGCONT) // a paused one would not notice that the server has ended
	}
	for deadline := time.Now().Add(patience); ; { // they end when they notice that it has
		left := 0
		for pid, start := range children {
			if now, ok := proc.Read(pid); ok && !now.Dead() && now.Start == start {
				left++
			}
		}
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d processes of %s are left", left, p.name)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// Backup copies the data of a server that does not run, and returns a function that puts it back.
func (p *process) Backup(t testing.TB) (restore func()) {
	t.Helper()
	data, kept := filepath.Join(p.dir, "data"), filepath.Join(p.dir, "backup")
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := p.command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	run("cp", "-a", data, kept)
	return func() {
		t.Helper()
		run("rm", "-r", data)
		run("cp", "-a", kept, data)
	}
}

// Pids are the ids of its processes.
func (p *process) Pids() []int {
	pids := []int{p.cmd.Process.Pid}
	for pid := range childrenOf(pids[0]) {
		pids = append(pids, pid)
	}
	return pids
}

// childrenOf are the children of a process, and when each was started.
func childrenOf(parent int) map[int]int {
	all := map[int]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if stat, ok := proc.Read(pid); ok && stat.Parent == parent {
			all[pid] = stat.Start
		}
	}
	return all
}

// serve starts a server of databases, which answers at a place.
func (p *process) serve(t testing.TB, cmd *exec.Cmd, driver, place string) {
	t.Helper()
	db, err := sql.Open(driver, place)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p.start(t, cmd, db.PingContext)
}

// create makes an empty database at the server, and returns its name.
func (p *process) create(t testing.TB, driver, place string) string {
	t.Helper()
	db, err := sql.Open(driver, place)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	name := fmt.Sprintf("test%d", p.databases.Add(1))
	if _, err := db.ExecContext(context.Background(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return name
}

// freePort is that of a free address.
func freePort(t testing.TB) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(harness.FreeAddr(t))
	return port
}
