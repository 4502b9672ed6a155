//go:build linux && cgo

package leases_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/store/etcd"
	"github.com/electd/elect/store/sqlstore"
	"github.com/electd/elect/test/fencing/server"
)

// crowdVariable makes this program a process with many elections: "URL NAME COUNT ID".
const crowdVariable = "ELECT_TEST_CROWD"

// crowd stands in elections NAME0, NAME1 and so on, all at once. It writes a line for each event: sees
// (a leader), won and lost, with the election, and for won with the token and the time. It writes the
// number of its goroutines for each line that it reads, and ends with its input.
func crowd(arguments string) {
	var at, name, id string
	var count int
	if _, err := fmt.Sscan(arguments, &at, &name, &count, &id); err != nil {
		panic(err)
	}
	var mu sync.Mutex
	tell := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	stand := standing(at)
	for i := range count {
		go stand(name+strconv.Itoa(i), id, tell)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		tell("goroutines %d", runtime.NumGoroutine())
	}
	os.Exit(0)
}

// standing returns what stands in one election at a URL. The scheme native is etcd's own elector.
func standing(at string) func(name, id string, tell func(string, ...any)) {
	u, err := url.Parse(at)
	if err != nil {
		panic(err)
	}
	if u.Scheme == "native" {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + u.Host}})
		if err != nil {
			panic(err)
		}
		return func(name, id string, tell func(string, ...any)) {
			ctx := context.Background()
			s, err := concurrency.NewSession(client, concurrency.WithTTL(20))
			if err != nil {
				panic(err)
			}
			e := concurrency.NewElection(s, u.Path+"/"+name)
			go func() {
				for range e.Observe(ctx) {
					tell("sees %s", name)
					return
				}
			}()
			if err := e.Campaign(ctx, id); err != nil {
				panic(err)
			}
			tell("won %s %d %d", name, e.Rev(), time.Now().UnixNano())
			<-s.Done()
			tell("lost %s", name)
		}
	}
	open := etcd.Open
	if u.Scheme == "postgres" {
		open = sqlstore.ListeningOpener(func(u *url.URL) (*sql.DB, sqlstore.Listen, error) {
			db, err := sql.Open("pgx", u.String())
			return db, listen(db), err
		})
	}
	return func(name, id string, tell func(string, ...any)) {
		ctx := context.Background()
		e, err := open(ctx, driver.Target{URL: u, Name: name, ID: id})
		if err != nil {
			panic(err)
		}
		go func() {
			for s := range e.Watch(ctx) {
				if s.Leader != nil {
					tell("sees %s", name)
					return
				}
			}
		}()
		for {
			m, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
			if err != nil {
				panic(err)
			}
			tell("won %s %d %d", name, uint64(m.Token()), time.Now().UnixNano())
			<-m.Context().Done()
			tell("lost %s", name)
			_ = m.Release(ctx) // it stands again
		}
	}
}

// crowded is a process of crowd.
type crowded struct {
	cmd        *exec.Cmd
	ask        io.Writer
	sees, lost atomic.Int64
	goroutines chan int

	mu     sync.Mutex
	tokens map[string]uint64
	times  []time.Time
}

func startCrowd(t *testing.T, at, name string, count int, id string) *crowded {
	t.Helper()
	c := &crowded{cmd: exec.Command(os.Args[0]), goroutines: make(chan int, 1), tokens: map[string]uint64{}}
	c.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d %s", crowdVariable, at, name, count, id))
	c.cmd.Stderr = os.Stderr
	ask, out := harness.Start(t, c.cmd)
	t.Cleanup(func() { harness.End(c.cmd) })
	c.ask = ask
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			c.hear(strings.Fields(lines.Text()))
		}
	}()
	return c
}

func (c *crowded) hear(f []string) {
	switch f[0] {
	case "sees":
		c.sees.Add(1)
	case "lost":
		c.lost.Add(1)
	case "goroutines":
		n, _ := strconv.Atoi(f[1])
		c.goroutines <- n
	case "won":
		token, _ := strconv.ParseUint(f[2], 10, 64)
		at, _ := strconv.ParseInt(f[3], 10, 64)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tokens[f[1]] = token
		c.times = append(c.times, time.Unix(0, at))
	}
}

func (c *crowded) won() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tokens)
}

// until waits for a number of events.
func until(t *testing.T, what string, want int, is func() int) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); is() < want; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d %s", is(), want, what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// used is the processor time of a process, and of its children that have ended.
func used(t *testing.T, pids ...int) (sum time.Duration) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // a process of the server that has ended
		}
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
		for _, field := range f[11:15] {
			ticks, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return sum
}

// resident is the memory of a process in MB.
func resident(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if f := strings.Fields(string(text)); len(f) > 1 {
		pages, _ := strconv.Atoi(f[1])
		return pages * os.Getpagesize() >> 20
	}
	return 0
}

// sockets is how many a process has open.
func sockets(pid int) (n int) {
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, path := range all {
		if to, _ := os.Readlink(path); strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// load is that of the machine, over the last minute.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// many is a server that is asked by many elections.
type many struct {
	url      string
	pids     func() []int // of the server
	requests func() map[string]float64
}

func manyEtcd(t *testing.T, scheme, query string) many {
	e := startEtcd(t)
	return many{scheme + "://" + strings.TrimPrefix(e.URL, "http://") + "/many?" + query, e.Pids, func() map[string]float64 {
		r, err := http.Get(e.URL + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		kinds := map[string]float64{}
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			if of, found := strings.CutPrefix(lines.Text(), "grpc_server_msg_received_total{"); found {
				_, method, _ := strings.Cut(of, `grpc_method="`)
				method, _, _ = strings.Cut(method, `"`)
				n, _ := strconv.ParseFloat(of[strings.LastIndexByte(of, ' ')+1:], 64)
				kinds[method] += n
			}
		}
		return kinds
	}}
}

// manyPostgres returns a server whose elections have leases of 10 s, and a connection to it.
func manyPostgres(t *testing.T) (many, *sql.DB) {
	pg := server.StartPostgres(t)
	p := (&database{dialect: sqlstore.PostgreSQL, make: func(t testing.TB) *url.URL { return parse(t, pg.Database(t)) }}).place(t)
	db := p.open(t)
	db.SetMaxOpenConns(1)
	return many{p.at.String() + "&lease=10s", pg.Pids, func() map[string]float64 {
		var n float64
		if err := db.QueryRow(`SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return map[string]float64{"transactions": n}
	}}, db
}

// TestTogether: the elections of a process are in one statement, and yet a row that another program has locked, or has
// edited to nonsense, ends the term of its own election only.
func TestTogether(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	const count = 100
	s, db := manyPostgres(t)
	leader := startCrowd(t, s.url, "e", count, "a")
	until(t, "elections have a leader", count, leader.won)
	next := startCrowd(t, s.url, "e", count, "b")
	until(t, "candidates have seen it", count, func() int { return int(next.sees.Load()) })
	lost := leader.lost.Load()
	if _, err := db.Exec(`UPDATE elect_leases SET record = 'nonsense' WHERE name = 'e1'`); err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec(`SELECT FROM elect_leases WHERE name = 'e0' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	until(t, "terms have ended", 2, func() int { return int(leader.lost.Load() - lost) })
	<-time.After(20 * time.Second) // two leases
	if n := leader.lost.Load() - lost; n != 2 {
		t.Errorf("%d terms have ended; want that of the row which is locked, and that of the one which is nonsense", n)
	}
	if n := next.won(); n > 0 {
		t.Errorf("%d others lead", n)
	}
}

// TestThousand has 1,000 elections in one process, 1,000 candidates for them in another one, and a
// third process that leads 100 others. The first process is killed. It measures what all this costs,
// and how long it takes until the second process leads; no other lease is lost meanwhile. ELECT_CROWD
// is another number than 1,000.
func TestThousand(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	count := 1000
	if n, err := strconv.Atoi(os.Getenv("ELECT_CROWD")); err == nil && n > 0 {
		count = n
	}
	others := count / 10
	for name, start := range map[string]func(*testing.T) many{
		"etcd":        func(t *testing.T) many { return manyEtcd(t, "etcd", "lease=20s&max_hold=10s") },
		"etcd-fixed":  func(t *testing.T) many { return manyEtcd(t, "etcd", "lease=20s&servers_fixed=on") },
		"etcd-native": func(t *testing.T) many { return manyEtcd(t, "native", "") },
		"postgresql":  func(t *testing.T) many { s, _ := manyPostgres(t); return s },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			bystander := startCrowd(t, s.url, "other", others, "c")
			leader := startCrowd(t, s.url, "e", count, "a")
			until(t, "elections have a leader", count+others, func() int { return leader.won() + bystander.won() })
			next := startCrowd(t, s.url, "e", count, "b")
			until(t, "candidates have seen it", count, func() int { return int(next.sees.Load()) })

			pid, pidNext := leader.cmd.Process.Pid, next.cmd.Process.Pid
			const rest = 40 * time.Second // two leases: renewals may come in bursts
			lost, lostOther := leader.lost.Load()+bystander.lost.Load(), bystander.lost.Load()
			began, asked := time.Now(), s.requests()
			cpu := []time.Duration{used(t, pid), used(t, pidNext), used(t, s.pids()...)}
			<-time.After(rest)
			took := time.Since(began)
			share := func(i int, pids ...int) float64 { return 100 * float64(used(t, pids...)-cpu[i]) / float64(took) }
			var kinds []string
			sum := 0.0
			for kind, n := range s.requests() {
				if n -= asked[kind]; n > 0 {
					sum += n
					kinds = append(kinds, fmt.Sprintf("%s %.2f", kind, n/took.Seconds()))
				}
			}
			slices.Sort(kinds)
			t.Logf("at rest over %.1f s, load %s: %.2f requests a second (%s); processor: leader %.1f %%, candidate %.1f %%, server %.1f %%",
				took.Seconds(), load(), sum/took.Seconds(), strings.Join(kinds, ", "), share(0, pid), share(1, pidNext), share(2, s.pids()...))
			for what, c := range map[string]*crowded{"leader": leader, "candidate": next} {
				fmt.Fprintln(c.ask, "count")
				t.Logf("%s: %d sockets, %d MB, %d goroutines", what, sockets(c.cmd.Process.Pid), resident(c.cmd.Process.Pid), <-c.goroutines)
			}
			memory := 0
			for _, pid := range s.pids() {
				memory += resident(pid)
			}
			t.Logf("server: %d MB in %d processes, shared memory counted in each; %d leases lost at the start", memory, len(s.pids()), lost)
			if n := leader.lost.Load() + bystander.lost.Load(); n > lost {
				t.Errorf("%d leases were lost at rest", n-lost)
			}
			if n := sockets(pid); n > 16 {
				t.Errorf("%d sockets for %d elections; want a few", n, count)
			}

			killed := time.Now()
			if err := leader.cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			until(t, "elections have a leader again", count, next.won)
			next.mu.Lock()
			defer next.mu.Unlock()
			slices.SortFunc(next.times, time.Time.Compare)
			at := func(p float64) float64 {
				return next.times[int(math.Ceil(p*float64(count)))-1].Sub(killed).Seconds()
			}
			t.Logf("takeover, load %s: p50 %.2f s, p99 %.2f s, first %.2f s, last %.2f s", load(), at(0.5), at(0.99), at(1/float64(count)), at(1))
			for name, token := range leader.tokens {
				if next.tokens[name] <= token {
					t.Errorf("%s: token %d after %d", name, next.tokens[name], token)
				}
			}
			if n := bystander.lost.Load() - lostOther; n > 0 {
				t.Errorf("%d leases of another process were lost meanwhile", n)
			}
			if n := next.lost.Load(); n > 0 {
				t.Errorf("%d leases of the new leader were lost", n)
			}
		})
	}
}
