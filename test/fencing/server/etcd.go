//go:build linux

package server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

// Etcd is an etcd of one member. Its methods belong to the test's goroutine.
type Etcd struct {
	*process
	URL  string // what clients connect to
	args []string
}

// StartEtcd builds etcd, unless the variable ELECT_TEST_ETCD names a program, and starts it,
// with further flags. It syncs what it commits.
func StartEtcd(t testing.TB, flags ...string) *Etcd {
	t.Helper()
	long.Test(t, "it starts a real server")
	bin := etcdBin(t)
	p, free := newProcess(t, "etcd"), harness.FreeAddrs(t, 2)
	own, peers := "http://"+free[0], "http://"+free[1]
	e := &Etcd{p, own, append([]string{
		bin, "--data-dir", filepath.Join(p.dir, "data"), "--name", "one", "--log-level", "warn",
		"--listen-client-urls", own, "--advertise-client-urls", own,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "one=" + peers,
	}, flags...)}
	e.Start(t)
	return e
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
		Absent(t, fmt.Sprintf("etcd cannot be built from go.etcd.io/etcd/server/v3 (%v); or name one in ELECT_TEST_ETCD\n%s", err, out))
	}
	return bin
}

// Start starts the server, and returns when it answers.
func (e *Etcd) Start(t testing.TB) {
	t.Helper()
	cmd := e.command(e.args[0], e.args[1:]...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ETCD_") }) // it takes its flags from there, too
	client := e.Client(t)
	defer client.Close()
	e.start(t, cmd, func(ctx context.Context) error {
		_, err := client.Get(ctx, "ready")
		return err
	})
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
