//go:build linux

package server

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a redis-server. Its methods belong to the test's goroutine.
type Redis struct {
	// Dir is where its files are; they may be changed while it is down.
	Dir string

	// Addr is where it listens.
	Addr string

	bin  string
	args []string
	cmd  *exec.Cmd
}

const redisPatience = time.Minute

// StartRedis starts a redis-server that appends to a file and syncs it before it answers.
// Further settings are as on its command line: "--name", "value".
func StartRedis(t testing.TB, settings ...string) *Redis {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		missing := "there is no redis-server in PATH; on Debian: apt-get install redis-server"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := &Redis{Dir: t.TempDir(), Addr: addr.String(), bin: bin}
	r.args = append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(addr.Port), "--dir", r.Dir, "--logfile", filepath.Join(r.Dir, "log"),
		"--save", "", "--appendonly", "yes", "--appendfsync", "always",
	}, settings...)
	r.Start(t)
	t.Cleanup(func() {
		if r.cmd != nil {
			r.Kill(t)
		}
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(r.Dir, "log"))
			t.Logf("the last that Redis said:\n%s", text[max(0, len(text)-4000):])
		}
	})
	return r
}

// Start starts the server, and returns when it answers and has loaded what it had kept.
func (r *Redis) Start(t testing.TB) {
	t.Helper()
	r.cmd = exec.Command(r.bin, r.args...)
	r.cmd.Dir = r.Dir
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: r.Addr, MaxRetries: -1})
	defer client.Close()
	for deadline := time.Now().Add(redisPatience); ; {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := client.Ping(ctx).Err()
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("Redis does not answer: %v", err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// Kill kills the server as kill -9 does, and returns when it has gone.
func (r *Redis) Kill(t testing.TB) {
	t.Helper()
	if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	_ = r.cmd.Wait()
	r.cmd = nil
}

// Client returns a client of the server, which ends with the test.
func (r *Redis) Client(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: r.Addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}
