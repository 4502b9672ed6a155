//go:build linux

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeeperStartsEarly: the keeper of an election without a lease begins before gRPC, protobuf and etcd's client are
// initialized, which a takeover would wait for.
func TestKeeperStartsEarly(t *testing.T) {
	cmd := exec.Command("elect", "run", "--once", "--election", "file:"+filepath.Join(t.TempDir(), "e"), "--", "true")
	cmd.Env = append(environment(t), "GODEBUG=inittrace=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	// Go's runtime writes the path of each package that a process has initialized.
	for path, want := range map[string]int{
		"golang.org/x/sys/unix":                        2, // elect run, and the keeper
		"google.golang.org/protobuf/reflect/protodesc": 1,
		"google.golang.org/grpc/internal/transport":    1,
		"go.etcd.io/etcd/api/v3/etcdserverpb":          1,
		"net/http/httputil":                            1,
	} {
		if got := strings.Count(stderr.String(), path); got != want {
			t.Errorf("%s was initialized by %d processes; want %d", path, got, want)
		}
	}
	if t.Failed() {
		t.Log(&stderr)
	}
}
