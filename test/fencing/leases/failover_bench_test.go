//go:build linux && cgo

package leases_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/test/fencing/server"
)

// nativeEnv makes this program a candidate of a store's own elector: the store, and where it is.
const nativeEnv = "ELECT_TEST_NATIVE"

// serveNative is that candidate. It writes its process id when it leads, and resigns at SIGTERM.
func serveNative() {
	store, at, is := strings.Cut(os.Getenv(nativeEnv), "=")
	if !is {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	resign, err := map[string]func(context.Context, string) (func(), error){
		"etcd":       leadEtcd,
		"redis":      leadRedis,
		"zookeeper":  leadZooKeeper,
		"nats":       leadNATS,
		"postgresql": leadSQL("pgx", "SELECT pg_advisory_lock(7)", "SELECT pg_advisory_unlock(7)"),
		"mariadb":    leadSQL("mysql", "DO GET_LOCK('native', 1000)", "DO RELEASE_LOCK('native')"), // it takes no endless time
	}[store](ctx, at)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(os.Getpid())
	<-ctx.Done()
	resign()
	os.Exit(0)
}

// leadEtcd leads with package concurrency, and the shortest lease that etcd grants.
func leadEtcd(ctx context.Context, at string) (func(), error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{at}})
	if err != nil {
		return nil, err
	}
	s, err := concurrency.NewSession(c, concurrency.WithTTL(2))
	if err != nil {
		return nil, err
	}
	e := concurrency.NewElection(s, "native")
	fmt.Fprintln(os.Stderr, "standing by")
	return func() { _ = e.Resign(context.Background()) }, e.Campaign(ctx, "x")
}

// leadRedis leads with SET NX PX, which it renews three times in 2 s, and a waiting one tries every 200 ms, as elect's do
// here.
func leadRedis(ctx context.Context, at string) (func(), error) {
	c := goredis.NewClient(&goredis.Options{Addr: at})
	me := strconv.Itoa(os.Getpid())
	fmt.Fprintln(os.Stderr, "standing by")
	for {
		won, err := c.SetNX(ctx, "native", me, 2*time.Second).Result()
		if err != nil {
			return nil, err
		}
		if won {
			break
		}
		<-time.After(200 * time.Millisecond)
	}
	mine := func(do string) *goredis.Script {
		return goredis.NewScript("if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call(" + do + ") end return 1")
	}
	go func() {
		for ctx.Err() == nil {
			_ = mine("'PEXPIRE', KEYS[1], 2000").Run(ctx, c, []string{"native"}, me).Err()
			<-time.After(2 * time.Second / 3)
		}
	}()
	return func() { _ = mine("'DEL', KEYS[1]").Run(context.Background(), c, []string{"native"}, me).Err() }, nil
}

// leadZooKeeper leads with the lock of the client, which is ZooKeeper's recipe, and a session as long as ours.
func leadZooKeeper(ctx context.Context, at string) (func(), error) {
	c, _, err := zk.Connect([]string{at}, zooKeeperLease, zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	lock := zk.NewLock(c, "/native", zk.WorldACL(zk.PermAll))
	fmt.Fprintln(os.Stderr, "standing by")
	return func() { _ = lock.Unlock() }, lock.Lock()
}

const zooKeeperLease = 4 * time.Second

// leadSQL leads with a lock of a session.
func leadSQL(driver, lock, unlock string) func(context.Context, string) (func(), error) {
	return func(ctx context.Context, at string) (func(), error) {
		db, err := sql.Open(driver, at)
		if err != nil {
			return nil, err
		}
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(os.Stderr, "standing by")
		_, err = conn.ExecContext(ctx, lock)
		return func() { _, _ = conn.ExecContext(context.Background(), unlock) }, err
	}
}

// BenchmarkFailover takes the time from just before a leader is brought down until the next one has written its first
// line: of elect run, and in turns of the store's own elector. Each iteration is a round of each kind.
func BenchmarkFailover(b *testing.B) {
	program := harness.Build(b, "../../../cmd/elect")
	native := func(name, at string) func() *exec.Cmd {
		return func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), nativeEnv+"="+name+"="+at)
			return cmd
		}
	}
	stores := map[string]func(b *testing.B) (string, func() *exec.Cmd){
		"etcd": func(b *testing.B) (string, func() *exec.Cmd) {
			at := startEtcd(b).URL
			return strings.Replace(at, "http://", "etcd://", 1) + "/bench?lease=2s&servers_fixed=on", native("etcd", at)
		},
		"redis": func(b *testing.B) (string, func() *exec.Cmd) {
			s := newSlot(b, server.StartRedis(b))
			return s.url(""), native("redis", s.server.Addr)
		},
		"consul": func(b *testing.B) (string, func() *exec.Cmd) { // its locks have sessions of 15 s
			c := server.StartConsul(b)
			return "consul://" + c.Addr + "/bench?lease=15s", func() *exec.Cmd {
				cmd := c.Command()
				cmd.Args = append([]string{"sh", "-c", `exec 3>&1 1>&2; exec "$0" lock -verbose bench/native 'echo $$ >&3; exec sleep 1000'`}, cmd.Args...)
				cmd.Path = "/bin/sh"
				return cmd
			}
		},
		"zookeeper": func(b *testing.B) (string, func() *exec.Cmd) {
			at := server.StartZooKeeper(b).Addr
			return fmt.Sprintf("zookeeper://%s/bench?lease=%v", at, zooKeeperLease), native("zookeeper", at)
		},
		"nats": func(b *testing.B) (string, func() *exec.Cmd) {
			n := server.StartNATS(b)
			return newBucket(b, n).url(""), native("nats", "nats://"+n.Addr)
		},
		"s3": func(b *testing.B) (string, func() *exec.Cmd) { // it has no elector
			s3Credentials(b)
			return newObjects(b, server.StartS3(b)).url(""), nil
		},
	}
	for name, start := range databases(b) {
		if name != "sqlite" { // it has no elector
			stores[name] = func(b *testing.B) (string, func() *exec.Cmd) {
				d := start(b)
				p := d.place(b)
				_, at := p.source()
				return p.url(""), native(name, at)
			}
		}
	}
	for name, start := range stores {
		b.Run(name, func(b *testing.B) {
			at, native := start(b)
			ours := func(id string) *candidate { return stands(b, program, at, id) }
			theirs := func(string) *candidate { return began(b, "native", native()) }
			took := map[string][]time.Duration{}
			for b.Loop() {
				for _, c := range []struct {
					what  string
					begin func(id string) *candidate
					how   func(c *candidate, work int)
				}{
					{"killed/elect", ours, func(c *candidate, work int) {
						c.signal(syscall.SIGSTOP)
						killed(keeperOf(work), work, c.cmd.Process.Pid)
					}},
					{"killed/native", theirs, func(c *candidate, _ int) { c.signal(syscall.SIGKILL) }},
					{"stopped/elect", ours, func(c *candidate, _ int) { c.signal(syscall.SIGSTOP) }},
					{"stopped/native", theirs, func(c *candidate, _ int) { c.signal(syscall.SIGSTOP) }},
					{"released/elect", ours, func(c *candidate, _ int) { c.signal(syscall.SIGTERM) }},
					{"released/native", theirs, func(c *candidate, _ int) { c.signal(syscall.SIGTERM) }},
					{"run-killed/elect", ours, func(c *candidate, _ int) { c.signal(syscall.SIGKILL) }},
					{"command-killed/elect", ours, func(_ *candidate, work int) { killed(work) }},
				} {
					if !slices.Contains([]string{"etcd", "redis", "consul", "zookeeper", "nats"}, name) && c.what == "stopped/native" {
						continue // it leads for ever
					}
					if native == nil && strings.HasSuffix(c.what, "/native") {
						continue
					}
					first := c.begin("first")
					work := first.leads(b)
					next := c.begin("next")
					harness.Eventually(b, "it stands by", func() bool {
						return strings.Contains(next.said.String(), "standing by") || strings.Contains(next.said.String(), "Attempting lock acquisition")
					})
					<-time.After(500*time.Millisecond + rand.N(time.Second)) // somewhere between two renewals
					begun := time.Now()
					c.how(first, work)
					after := next.leads(b)
					took[c.what] = append(took[c.what], time.Since(begun))
					if name == "consul" {
						killed(work, after) // a consul lock that was killed leaves its command
					}
					next.signal(syscall.SIGTERM)
					first.end()
					next.end()
				}
			}
			b.ReportMetric(0, "ns/op") // it has no meaning
			for what, all := range took {
				slices.Sort(all)
				b.ReportMetric(float64(all[len(all)/2])/1e6, what+"-ms")
				b.Logf("%s: %v", what, all)
			}
		})
	}
}

func killed(pids ...int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// keeperOf is the parent of a command.
func keeperOf(work int) int {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(work), "status"))
	for line := range strings.Lines(string(text)) {
		if parent, is := strings.CutPrefix(line, "PPid:"); is {
			pid, _ := strconv.Atoi(strings.TrimSpace(parent))
			return pid
		}
	}
	return 0
}
