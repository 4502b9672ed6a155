//go:build linux

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Etcd is an etcd of one member. Its methods belong to the test's goroutine.
type Etcd struct {
	URL  string // what clients connect to
	bin  string
	dir  string
	args []string
	cmd  *exec.Cmd
}

const etcdPatience = time.Minute

// StartEtcd builds etcd, unless the variable ELECT_TEST_ETCD names a program, and starts it,
// with further flags. It syncs what it commits.
func StartEtcd(t testing.TB, flags ...string) *Etcd {
	t.Helper()
	e := &Etcd{bin: etcdBin(t), dir: t.TempDir()}
	urls := freeURLs(t, 2)
	e.URL = urls[0]
	e.args = append([]string{
		"--data-dir", filepath.Join(e.dir, "data"), "--name", "one", "--log-level", "warn",
		"--listen-client-urls", urls[0], "--advertise-client-urls", urls[0],
		"--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1], "--initial-cluster", "one=" + urls[1],
	}, flags...)
	t.Cleanup(func() {
		if e.cmd != nil {
			e.Kill(t)
		}
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(e.dir, "log"))
			t.Logf("the last that etcd said:\n%s", text[max(0, len(text)-4000):])
		}
	})
	e.Start(t)
	return e
}

func freeURLs(t testing.TB, n int) (urls []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		urls = append(urls, "http://"+l.Addr().String())
	}
	return urls
}

// etcdBin builds the server, in the module beside this file, which has its own versions of
// everything. Built once, it takes a second to find that out.
func etcdBin(t testing.TB) string {
	t.Helper()
	if bin := os.Getenv("ELECT_TEST_ETCD"); bin != "" {
		return bin
	}
	_, here, _, _ := runtime.Caller(0)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(cache, "elect-test", "etcd")
	build := exec.Command("go", "build", "-buildvcs=false", "-tags", "etcd", "-o", bin, ".")
	build.Dir = filepath.Join(filepath.Dir(here), "etcd")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		missing := fmt.Sprintf("etcd cannot be built from go.etcd.io/etcd/server/v3 (%v); or name one in ELECT_TEST_ETCD\n%s", err, out)
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	return bin
}

// Start starts the server, and returns when it answers.
func (e *Etcd) Start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	e.cmd = exec.Command(e.bin, e.args...)
	for _, v := range os.Environ() { // it takes its flags from there, too
		if !strings.HasPrefix(v, "ETCD_") {
			e.cmd.Env = append(e.cmd.Env, v)
		}
	}
	e.cmd.Stdout, e.cmd.Stderr = log, log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client := e.Client(t)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), etcdPatience)
	defer cancel()
	for {
		_, err := client.Get(ctx, "ready")
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("etcd does not answer: %v", err)
		}
	}
}

// Client connects to it. It is closed with the test.
func (e *Etcd) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.URL}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Kill kills the server, and returns when it has gone.
func (e *Etcd) Kill(t testing.TB) {
	t.Helper()
	if err := e.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	_ = e.cmd.Wait()
	e.cmd = nil
}
