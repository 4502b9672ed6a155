//go:build linux

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

// Etcd is a member of an etcd. Its methods belong to the test's goroutine.
type Etcd struct {
	*process
	URL  string // what clients connect to
	args []string
	tls  *tls.Config // what clients connect with, or nil
}

// StartEtcd builds etcd, unless the variable ELECT_TEST_ETCD names a program, and starts one member,
// with further flags. It syncs what it commits.
func StartEtcd(t testing.TB, flags ...string) *Etcd {
	t.Helper()
	return StartEtcdCluster(t, 1, flags...)[0]
}

// StartEtcdTLS is StartEtcd with TLS. The flags say which certificates it has and trusts, and client is what
// [Etcd.Client] connects with.
func StartEtcdTLS(t testing.TB, client *tls.Config, flags ...string) *Etcd {
	t.Helper()
	return startEtcds(t, 1, client, flags...)[0]
}

// StartEtcdCluster is StartEtcd for a cluster of that many members.
func StartEtcdCluster(t testing.TB, members int, flags ...string) []*Etcd {
	t.Helper()
	return startEtcds(t, members, nil, flags...)
}

func startEtcds(t testing.TB, members int, client *tls.Config, flags ...string) []*Etcd {
	t.Helper()
	scheme := "http://"
	if client != nil {
		scheme = "https://"
	}
	long.Test(t, "it starts a real server")
	bin := etcdBin(t)
	free, cluster, all := harness.FreeAddrs(t, 2*members), make([]string, members), make([]*Etcd, members)
	for i := range cluster {
		cluster[i] = fmt.Sprintf("m%d=http://%s", i+1, free[2*i+1])
	}
	for i := range all {
		own, peers := scheme+free[2*i], "http://"+free[2*i+1]
		p := newProcess(t, "etcd")
		all[i] = &Etcd{process: p, URL: own, tls: client, args: append([]string{
			bin, "--data-dir", filepath.Join(p.dir, "data"), "--name", fmt.Sprintf("m%d", i+1), "--log-level", "warn",
			"--listen-client-urls", own, "--advertise-client-urls", own, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
			"--initial-cluster", strings.Join(cluster, ","),
		}, flags...)}
	}
	StartEtcds(t, all...)
	return all
}

// StartEtcds starts members that may need each other, and returns when all answer.
func StartEtcds(t testing.TB, members ...*Etcd) {
	t.Helper()
	for _, e := range members {
		cmd := e.command(e.args[0], e.args[1:]...)
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ETCD_") }) // it takes its flags from there, too
		e.launch(t, cmd)
	}
	for _, e := range members {
		client := e.Client(t)
		e.answers(t, func(ctx context.Context) error {
			_, err := client.Get(ctx, "ready")
			if errors.Is(err, rpctypes.ErrUserEmpty) {
				return nil // it wants users, and answers
			}
			return err
		})
		_ = client.Close()
	}
}

// etcdBin builds the server.
func etcdBin(t testing.TB) string {
	t.Helper()
	if bin := os.Getenv("ELECT_TEST_ETCD"); bin != "" {
		return bin
	}
	return buildEtcd(t, "etcd", ".", "; or name one in ELECT_TEST_ETCD")
}

// Etcdctl builds etcdctl, and returns where it is.
func Etcdctl(t testing.TB) string {
	t.Helper()
	long.Test(t, "it builds etcdctl")
	return buildEtcd(t, "etcdctl", "go.etcd.io/etcd/etcdctl/v3", "")
}

// buildEtcd builds a program of etcd, in the module beside this file, which has its own versions of
// everything. Built once, it takes a second to find that out.
func buildEtcd(t testing.TB, name, of, or string) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(cache, "elect-test", name)
	build := exec.Command("go", "build", "-buildvcs=false", "-tags", "etcd", "-o", bin, of)
	build.Dir = filepath.Join(filepath.Dir(here), "etcd")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		Absent(t, fmt.Sprintf("%s cannot be built from go.etcd.io/etcd (%v)%s\n%s", name, err, or, out))
	}
	return bin
}

// Start starts the server, and returns when it answers.
func (e *Etcd) Start(t testing.TB) { t.Helper(); StartEtcds(t, e) }

// Client connects to it. It is closed with the test.
func (e *Etcd) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.URL}, TLS: e.tls, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
