//go:build linux && cgo

package leases_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/file"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/peer"
	"github.com/electd/elect/test/fencing/server"
)

var rewriteTables = flag.Bool("rewrite", false, "write the tables of the pages that tests compare")

// backend is a row of docs/back-ends.md: what an elector with the default times says of itself, and what it cannot say.
type backend struct {
	name, page string
	url        func(testing.TB) string // without times; starts the server
	restored   string                  // what happens after a restore or a failover
	natives    string                  // who else can take part in an election
}

var backends = []backend{
	{
		name: "`file:`", page: "file.md",
		url:      func(t testing.TB) string { return "file:" + t.TempDir() },
		restored: "tokens repeat: raise `era`", natives: "`flock(1)`, exclusive",
	},
	{
		name: "`peer:`", page: "peers.md",
		url: func(t testing.TB) string {
			return "peer://n1@" + harness.FreeAddr(t) + "?data=" + t.TempDir()
		},
		restored: "a data directory must not be restored", natives: "none",
	},
	{
		name: "PostgreSQL", page: "databases.md",
		url: func(t testing.TB) string { return installed(t, "postgresql") },
		restored: "a new timeline: a wait of `max_lease`; after an asynchronous failover or a restore tokens may repeat: " +
			"raise `era`",
		natives: "none",
	},
	{
		name: "MySQL, MariaDB", page: "databases.md",
		url:      func(t testing.TB) string { return installed(t, "mariadb") },
		restored: "another server: as PostgreSQL", natives: "none",
	},
	{
		name: "SQLite", page: "databases.md",
		url:      func(t testing.TB) string { return installed(t, "sqlite") },
		restored: "not noticed: raise `era`", natives: "none",
	},
	{
		name: "etcd", page: "etcd.md",
		url:      func(t testing.TB) string { return strings.Replace(startEtcd(t).URL, "http", "etcd", 1) },
		restored: "not noticed, two may lead for up to `hold`: stop all, raise `era`",
		natives:  "`etcdctl elect`, `concurrency.Election`: exclusive until a native's session ends unnoticed",
	},
	{
		name: "Kubernetes", page: "kubernetes.md",
		url: func(t testing.TB) string {
			return leaseURL(t, server.StartKubernetes(t), "admin", "", "")
		},
		restored: "not noticed: stop all, raise `era`", natives: "client-go's `leaderelection`: a leader of client-go believes longer than it may",
	},
	{
		name: "Redis, Valkey", page: "redis.md",
		url:      func(t testing.TB) string { return "redis://" + server.StartRedis(t).Addr + "/0" },
		restored: "a new replication id: a wait of `max_lease`; acknowledged writes may be lost: raise `era`", natives: "none",
	},
	{
		name: "Consul", page: "consul.md",
		url:      func(t testing.TB) string { return "consul://" + server.StartConsul(t).Addr },
		restored: "not noticed by who starts after it: stop all, raise `era`", natives: "none: a key of `consul lock` is refused",
	},
	{
		name: "ZooKeeper", page: "zookeeper.md",
		url:      func(t testing.TB) string { return "zookeeper://" + server.StartZooKeeper(t).Addr + "/elect" },
		restored: "not noticed: stop all, raise `era`",
		natives:  "Curator's `LeaderLatch` and `LeaderSelector`, kazoo's `Election`: two may lead for up to a `hold`, and a native after its session",
	},
	{
		name: "NATS", page: "nats.md",
		url: func(t testing.TB) string { return "nats://" + server.StartNATS(t).Addr },
		restored: "a bucket that was made again: a wait of `max_lease`, tokens may repeat: raise `era`; a restore is not noticed: " +
			"stop all, raise `era`",
		natives: "none",
	},
	{
		name: "S3", page: "s3.md",
		url: func(t testing.TB) string {
			s3Credentials(t)
			o := newObjects(t, server.StartS3(t))
			return "s3://" + o.bucket + "?endpoint=" + url.QueryEscape(o.server.URL)
		},
		restored: "not noticed: stop all, raise `era`", natives: "none",
	},
}

// installed is the URL of an empty database with a table.
func installed(t testing.TB, name string) string {
	d := databases(t)[name](t)
	return d.place(t).at.String()
}

// TestMatrix compares docs/back-ends.md with what each back end says of itself with its default times.
func TestMatrix(t *testing.T) {
	long.Test(t, "it starts a server of each kind")
	var promises, after bytes.Buffer
	fmt.Fprintln(&promises, "| back end | lease | from | to | longest takeover | abilities |\n|---|---|---|---|---|---|")
	fmt.Fprintln(&after, "| back end | exclusive if | after a restore or failover | natives in the same election |\n|---|---|---|---|")
	all := map[string]driver.Opener{"file": file.Open, "peer": peer.Open}
	maps.Copy(all, openers)
	path := filepath.Join("..", "..", "..", "docs", "back-ends.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range backends {
		name := fmt.Sprintf("[%s](%s)", b.name, b.page)
		here := false
		t.Run(b.page, func(t *testing.T) {
			u := parse(t, b.url(t))
			e, err := all[u.Scheme](t.Context(), driver.Target{URL: u, Name: "matrix", ID: "n1"})
			if err != nil {
				t.Fatal(err)
			}
			l := e.Limits()
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			abilities := make([]string, len(l.Abilities))
			for i, a := range l.Abilities {
				abilities[i] = string(a)
			}
			if !l.Exclusive {
				t.Error("it is not exclusive")
			}
			fmt.Fprintf(&promises, "| %s | %s | %s | %s | %s | %s |\n", name, span(l.Lease), span(l.MinLease), span(l.MaxLease), span(l.Takeover), strings.Join(abilities, ", "))
			fmt.Fprintf(&after, "| %s | %s | %s | %s |\n", name, l.Assumes, b.restored, b.natives)
			here = true
		})
		if !here { // there is no server; its rows stay as they are
			var rows []string
			for line := range strings.Lines(string(page)) {
				if strings.HasPrefix(line, "| "+name+" |") {
					rows = append(rows, line)
				}
			}
			if len(rows) < 2 { // a third one is of TestTakeovers
				t.Errorf("%s has %d rows of %s; want 2 or 3", path, len(rows), b.name)
				continue
			}
			promises.WriteString(rows[0])
			after.WriteString(rows[1])
		}
	}
	pageHas(t, path, map[string]string{"promises": promises.String(), "assumptions": after.String()})
}

// pageHas fails the test if a page does not have these tables after their markers, or writes them if it is told to.
func pageHas(t *testing.T, path string, tables map[string]string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(page)
	for marker, table := range tables {
		begin, end := "<!-- "+marker+" -->\n", "<!-- end -->"
		head, rest, found := strings.Cut(want, begin)
		_, tail, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("%s has no %q with %q after it", path, begin, end)
		}
		want = head + begin + table + end + tail
	}
	switch {
	case want == string(page):
	case *rewriteTables:
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is out of date; want go test ./test/fencing/leases -run %s -rewrite, which writes\n%v", path, t.Name(), tables)
	}
}

// span is a duration in the page.
func span(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return strings.TrimSuffix(strings.TrimSuffix(d.Round(time.Millisecond).String(), "0s"), "m0s")
}
