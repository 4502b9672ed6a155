//go:build linux && cgo

package leases_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/conditions"
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

// contest is a back end in which candidates of elect take over from each other, and in turns those of another elector.
type contest struct {
	name, page string // of the benchmark, and of its row in docs/back-ends.md
	native     string // the other elector; "" if there is none
	lease      time.Duration
	waits      bool // the other elector counts by a lease too, and a leader that is stopped is replaced
	// start starts the server at addr, "" if there is none. ours is the URL, asked at an address, and theirs a
	// candidate, or nil.
	start func(b *testing.B) (addr string, ours func(addr string) string, theirs func(addr string) *exec.Cmd)
}

func contests() []contest {
	native := func(name, at string) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), nativeEnv+"="+name+"="+at)
		return cmd
	}
	const short = 2 * time.Second // of etcd's own elector the shortest
	inSQL := func(name, page, lock string) contest {
		return contest{name, page, lock, short, false, func(b *testing.B) (string, func(string) string, func(string) *exec.Cmd) {
			d := databases(b)[name](b)
			p := d.place(b)
			_, at := p.source()
			return p.at.Host, p.url, func(addr string) *exec.Cmd { return native(name, strings.Replace(at, p.at.Host, addr, 1)) }
		}}
	}
	return []contest{
		{"file", "`file:`", "`flock(1)`", 0, false, func(b *testing.B) (string, func(string) string, func(string) *exec.Cmd) {
			dir := b.TempDir()
			return "", func(string) string { return "file:" + dir }, func(string) *exec.Cmd {
				return exec.Command("sh", "-c", `echo standing by >&2; exec flock -F "$0" sh -c 'echo $$; exec sleep 1000'`, filepath.Join(dir, "native"))
			}
		}},
		inSQL("postgresql", "PostgreSQL", "`pg_advisory_lock`"),
		inSQL("mariadb", "MySQL, MariaDB", "`GET_LOCK`"),
		{"etcd", "etcd", "`concurrency.Election`", short, true, func(b *testing.B) (string, func(string) string, func(string) *exec.Cmd) {
			_, addr, _ := strings.Cut(startEtcd(b).URL, "://")
			return addr, func(addr string) string { return "etcd://" + addr + "/bench?lease=2s&servers_fixed=on" },
				func(addr string) *exec.Cmd { return native("etcd", "http://"+addr) }
		}},
		{"kubernetes", "Kubernetes", "client-go", short, true, func(b *testing.B) (string, func(string) string, func(string) *exec.Cmd) {
			k := server.StartKubernetes(b)
			return k.Addr, func(addr string) string { return leaseURL(b, k, "admin", addr, "lease=2s&max_lease=2s") },
				func(addr string) *exec.Cmd { // with the proportions of its defaults, 15, 10 and 2 s
					return exec.Command(server.ClientGo(b), "-kubeconfig", k.Config(b, "admin", addr), "-namespace", "default", "-name", "native",
						"-id", rand.Text(), "-lease", "2s", "-renew", "1333ms", "-retry", "267ms", "-release")
				}
		}},
		{"redis", "Redis, Valkey", "`SET NX PX`", short, true, func(b *testing.B) (string, func(string) string, func(string) *exec.Cmd) {
			s := newSlot(b, server.StartRedis(b))
			return s.server.Addr, s.url, func(addr string) *exec.Cmd { return native("redis", addr) }
		}},
		{"consul", "Consul", "`consul lock`", 15 * time.Second, true, func(b *testing.B) (string, func(string) string, func(string) *exec.Cmd) {
			c := server.StartConsul(b)
			return c.Addr, func(addr string) string { return "consul://" + addr + "/bench?lease=15s" }, // as its sessions
				func(addr string) *exec.Cmd {
					cmd := c.Command()
					cmd.Env = append(cmd.Env, "CONSUL_HTTP_ADDR="+addr)
					cmd.Args = append([]string{"sh", "-c", `exec 3>&1 1>&2; exec "$0" lock -verbose bench/native 'echo $$ >&3; exec sleep 1000'`}, cmd.Args...)
					cmd.Path = "/bin/sh"
					return cmd
				}
		}},
		{"zookeeper", "ZooKeeper", "the client's `Lock`", zooKeeperLease, true, func(b *testing.B) (string, func(string) string, func(string) *exec.Cmd) {
			return server.StartZooKeeper(b).Addr, func(addr string) string { return fmt.Sprintf("zookeeper://%s/bench?lease=%v", addr, zooKeeperLease) },
				func(addr string) *exec.Cmd { return native("zookeeper", addr) }
		}},
		{"nats", "NATS", "a key with a TTL", short, true, func(b *testing.B) (string, func(string) string, func(string) *exec.Cmd) {
			n := server.StartNATS(b)
			return n.Addr, newBucket(b, n).url, func(addr string) *exec.Cmd { return native("nats", "nats://"+addr) }
		}},
		{"s3", "S3", "", short, false, func(b *testing.B) (string, func(string) string, func(string) *exec.Cmd) {
			s3Credentials(b)
			s := server.StartS3(b)
			return strings.TrimPrefix(s.URL, "http://"), newObjects(b, s).url, nil
		}},
	}
}

// deaths are the ways in which a leader is brought down, as docs/back-ends.md calls them.
var deaths = []struct {
	what string
	ours bool
	how  func(c *candidate, work int)
}{
	{"machine", true, func(c *candidate, work int) {
		c.signal(syscall.SIGSTOP)
		killed(keeperOf(work), work, c.cmd.Process.Pid)
	}},
	{"machine", false, func(c *candidate, _ int) { c.signal(syscall.SIGKILL) }},
	{"hang", true, func(c *candidate, _ int) { c.signal(syscall.SIGSTOP) }},
	{"hang", false, func(c *candidate, _ int) { c.signal(syscall.SIGSTOP) }},
	{"graceful", true, func(c *candidate, _ int) { c.signal(syscall.SIGTERM) }},
	{"graceful", false, func(c *candidate, _ int) { c.signal(syscall.SIGTERM) }},
	{"process", true, func(c *candidate, _ int) { c.signal(syscall.SIGKILL) }},
	{"command", true, func(_ *candidate, work int) { killed(work) }},
}

var (
	recordTakeovers = flag.Bool("record", false, "write what BenchmarkFailover measures into testdata/takeovers.json, of which TestTakeovers makes tables")
	restTime        = flag.Duration("rest", 30*time.Second, "`time` that BenchmarkFailover counts requests at rest, if that is three leases")
)

// BenchmarkFailover takes the time from just before a leader is brought down until the next one has written its first
// line: of elect run, and in turns of the store's own elector. Each iteration is a round of each kind. Before that it
// counts what both do at rest.
func BenchmarkFailover(b *testing.B) {
	program := harness.Build(b, "../../../cmd/elect")
	b.Run("peer", func(b *testing.B) { benchPeers(b, program) })
	for _, c := range contests() {
		b.Run(c.name, func(b *testing.B) {
			addr, url, native := c.start(b)
			ours := func(id, addr string) *candidate { return stands(b, program, url(addr), id) }
			var theirs func(id, addr string) *candidate
			if native != nil {
				theirs = func(_, addr string) *candidate { return began(b, "native", native(addr)) }
			}
			m := measured{Native: c.native, Bound: bound(b, url(addr)), Medians: map[string]float64{}, Rest: map[string]rest{}, Before: conditions.Load()[0]}
			if c.lease > 0 {
				m.Lease = c.lease.String()
			}
			c.rest(b, &m, addr, ours, theirs)
			took := map[string][]time.Duration{}
			for b.Loop() {
				m.Rounds++
				for _, d := range deaths {
					if d.what == "hang" && !(d.ours && c.lease > 0 || c.waits) {
						continue // it leads for ever
					}
					begin, who := ours, "elect"
					if !d.ours {
						begin, who = theirs, "native"
					}
					if begin == nil {
						continue
					}
					first := begin("first", addr)
					work := first.leads(b)
					next := begin("next", addr)
					next.standsBy(b)
					<-time.After(500*time.Millisecond + mathrand.N(time.Second)) // somewhere between two renewals
					begun := time.Now()
					d.how(first, work)
					after := next.leads(b)
					took[d.what+"/"+who] = append(took[d.what+"/"+who], time.Since(begun))
					if c.name == "consul" || c.name == "file" {
						killed(work, after) // it leaves its command when it is killed
					}
					next.signal(syscall.SIGTERM)
					first.end()
					next.end()
				}
			}
			b.ReportMetric(0, "ns/op") // it has no meaning
			for what, all := range took {
				slices.Sort(all)
				m.Medians[what] = float64(all[len(all)/2].Round(10*time.Microsecond)) / 1e6
				b.ReportMetric(m.Medians[what], what+"-ms")
				b.Logf("%s: %v", what, all)
			}
			m.After = conditions.Load()[0]
			if *recordTakeovers {
				record(b, c.page, m)
			}
		})
	}
}

// benchPeers is BenchmarkFailover for peers, which elect bench measures itself, in two rounds or more. Nothing else elects
// there.
func benchPeers(b *testing.B, program string) {
	if b.N == 1 { // the first call, whatever -benchtime is
		return
	}
	asked := func(into any, args ...string) {
		b.Helper()
		cmd := exec.Command(program, append([]string{"bench", "-o", "json"}, args...)...)
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+b.TempDir())
		cmd.Stderr = b.Output()
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, into)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	var times struct {
		Promise   float64     `json:"promise_ms"`
		Worst     float64     `json:"worst_takeover_ms"`
		Before    *[3]float64 `json:"load_before"`
		After     *[3]float64 `json:"load_after"`
		Takeovers []struct {
			Kill   string  `json:"kill"`
			Median float64 `json:"median_ms"`
		} `json:"takeovers"`
	}
	asked(&times, "failover", "--peers", "3", "--kill", "child,parent,resign,freeze", "--rounds", strconv.Itoa(b.N))
	var quiet struct {
		Nodes []struct {
			Role string  `json:"role"`
			CPU  float64 `json:"cpu_percent"`
		} `json:"nodes"`
	}
	asked(&quiet, "steady", "--for", restTime.String())
	span := func(ms float64) string { return span(time.Duration(ms * 1e6)) }
	m := measured{Lease: span(times.Promise), Bound: span(times.Worst), Rounds: b.N, Medians: map[string]float64{}, Rest: map[string]rest{}}
	if times.Before != nil && times.After != nil {
		m.Before, m.After = times.Before[0], times.After[0]
	}
	b.ReportMetric(0, "ns/op") // it has no meaning
	for _, t := range times.Takeovers {
		what := map[string]string{"child": "command", "parent": "process", "resign": "graceful", "freeze": "hang"}[t.Kill]
		m.Medians[what+"/elect"] = t.Median
		b.ReportMetric(t.Median, what+"/elect-ms")
	}
	for _, n := range quiet.Nodes {
		if n.Role != "leader" {
			n.Role = "candidate"
		}
		m.Rest[n.Role+"/elect"] = rest{CPU: n.CPU}
	}
	if *recordTakeovers {
		record(b, "`peer:`", m)
	}
}

// bound is the longest takeover that is computed for a URL.
func bound(b *testing.B, at string) string {
	u := parse(b, at)
	open := openers[u.Scheme]
	if open == nil {
		return "–"
	}
	e, err := open(b.Context(), driver.Target{URL: u, Name: "bound", ID: "bound"})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	return span(e.Limits().Takeover)
}

// standsBy waits until a candidate has entered.
func (c *candidate) standsBy(b *testing.B) {
	b.Helper()
	harness.Eventually(b, "it stands by", func() bool {
		said := strings.ToLower(c.said.String())
		return strings.Contains(said, "standing by") || strings.Contains(said, "attempting ")
	})
}

// rest counts what a leader and a candidate ask of the server, and their processor time, while nothing happens: of both
// electors at the same time, each process behind a meter of its own.
func (c *contest) rest(b *testing.B, m *measured, addr string, ours, theirs func(id, addr string) *candidate) {
	b.Helper()
	type one struct {
		who    string
		at     *meter
		of     *candidate
		before time.Duration
	}
	var all []*one
	for _, role := range []string{"leader", "candidate"} {
		for who, begin := range map[string]func(id, addr string) *candidate{"elect": ours, "native": theirs} {
			if begin == nil {
				continue
			}
			o := &one{who: role + "/" + who, at: newMeter(b, addr)}
			o.of = begin(role, o.at.addr)
			if role == "leader" {
				o.of.leads(b)
			} else {
				o.of.standsBy(b)
			}
			all = append(all, o)
		}
	}
	<-time.After(3 * time.Second) // what begins is over
	for _, o := range all {
		o.before, _ = conditions.CPUTime(o.of.cmd.Process.Pid)
		o.at.asked.Store(0)
	}
	begun := time.Now()
	<-time.After(max(*restTime, 3*c.lease))
	for _, o := range all {
		used, err := conditions.CPUTime(o.of.cmd.Process.Pid)
		if err != nil {
			b.Fatal(err)
		}
		span := time.Since(begun)
		r := rest{CPU: 100 * (used - o.before).Seconds() / span.Seconds()}
		if c.lease > 0 {
			r.Requests = float64(o.at.asked.Load()) / span.Seconds() * c.lease.Seconds()
		}
		m.Rest[o.who] = r
		b.Logf("%s at rest: %.2f requests in a lease, %.3f %% of a core", o.who, r.Requests, r.CPU)
	}
	for _, o := range all {
		o.of.signal(syscall.SIGTERM)
	}
	for _, o := range all {
		o.of.end()
	}
}

// meter passes connections on to a server, and counts what is asked: what a client sends on one connection within 5 ms
// counts once.
type meter struct {
	addr  string // "" if there is no server
	asked atomic.Int64
}

func newMeter(b *testing.B, server string) *meter {
	b.Helper()
	m := &meter{}
	if server == "" {
		return m
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	m.addr = l.Addr().String()
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go m.carry(near, server)
		}
	}()
	return m
}

func (m *meter) carry(near net.Conn, server string) {
	defer near.Close()
	far, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(near, far)
		_ = near.Close()
	}()
	defer far.Close()
	var last time.Time
	for buf := make([]byte, 64<<10); ; {
		n, err := near.Read(buf)
		if err != nil {
			return
		}
		ping := bytes.Equal(buf[:n], []byte("PING\r\n")) // of a client of NATS: it asks nothing
		if time.Since(last) > 5*time.Millisecond && !ping {
			m.asked.Add(1)
		}
		last = time.Now()
		if _, err := far.Write(buf[:n]); err != nil {
			return
		}
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
