//go:build linux

package supervise_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/spawn"
)

// TestMain lets this program be the keeper, and each of the parts that the
// tests need as processes of their own.
func TestMain(m *testing.M) {
	if os.Getenv("SUPERVISE_PART") == "unready" {
		unready() // and without KeeperMain
	}
	supervise.KeeperMain(testify)
	if part := os.Getenv("SUPERVISE_PART"); part != "" {
		parts := map[string]func(args []string){
			"parent": parent, "run": run, "member": member, "hostile": hostile, "daemon": daemon,
			"forkloop": forkLoop, "inspect": inspect, "tree": tree, "strike": strike, "innocent": innocent, "spare": spare,
			"guarded": guarded, "guardrun": guardRun, "guardbench": guardBench,
			"late": late, "latecommand": lateCommand, "spin": spin, "readproc": readProc,
			"headless": headless, "crowd": crowd, "blind": blind, "stuck": stuck,
			"bomb": bomb, "evil": evil, "tracer": tracer, "setuid": setUID, "enter": enter, "leave": leave, "level": level, "limited": limited, "hook": hook, "talk": talk, "shout": shout, "linger": linger, "pump": pump, "pour": pour,
		}
		parts[part](os.Args[1:])
		os.Exit(0)
	}
	spawn.DefaultSignals()
	os.Exit(m.Run())
}

// partEnv is the environment in which this program is a part of a test.
func partEnv(part string) []string {
	env := []string{"SUPERVISE_PART=" + part}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "SUPERVISE_PART=") {
			env = append(env, kv)
		}
	}
	return env
}

// check ends a part that cannot go on. Its standard error is the test's.
func check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Getenv("SUPERVISE_PART"), err)
		os.Exit(70)
	}
}

// program returns a copy of this program that other users may execute.
func program(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(executable(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(openDir(t), "program")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// openDir returns a directory that other users may use; t.TempDir's is not.
func openDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "supervise-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

const nobody = 65534

// users calls test as this user and, if that is root, as an ordinary one.
func users(t *testing.T, test func(t *testing.T, as *syscall.Credential)) {
	if os.Getuid() != 0 {
		test(t, nil)
		return
	}
	t.Run("root", func(t *testing.T) { test(t, nil) })
	t.Run("ordinary", func(t *testing.T) { test(t, &syscall.Credential{Uid: nobody, Gid: nobody}) })
}

// executable is the program of this test, which is also that of its parts.
func executable(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// startPart starts exe as a part, and kills it when the test ends.
func startPart(t testing.TB, exe, part string, as *syscall.Credential, args ...string) *exec.Cmd {
	t.Helper()
	return startPartWith(t, os.Stderr, exe, part, as, args...)
}

func startPartWith(t testing.TB, stderr *os.File, exe, part string, as *syscall.Credential, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(exe, args...)
	cmd.Env = partEnv(part)
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGKILL}
	if dir := os.Getenv("SUPERVISE_CGROUP"); dir != "" {
		in, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(in.Fd())
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// patience is how long tests wait for what takes milliseconds.
const patience = 60 * time.Second

// eventually waits until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	harness.Eventually(t, what, ok)
}

// parseArgs reads name=value.
func parseArgs(args []string) map[string]string {
	m := map[string]string{}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		m[name] = value
	}
	return m
}
