//go:build linux && cgo

package leases_test

import (
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
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
	away       string                  // a URL without times, of a server at ADDR, where nobody answers; "": it needs none
	url        func(testing.TB) string // the same of a real server, which it starts
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
		name: "PostgreSQL", page: "databases.md", away: "postgres://elect@ADDR/elect",
		url: func(t testing.TB) string { return installed(t, "postgresql") },
		restored: "a new timeline: a wait of `max_lease`; after an asynchronous failover or a restore tokens may repeat: " +
			"raise `era`",
		natives: "none",
	},
	{
		name: "MySQL, MariaDB", page: "databases.md", away: "mysql://elect@ADDR/elect",
		url:      func(t testing.TB) string { return installed(t, "mariadb") },
		restored: "another server: as PostgreSQL", natives: "none",
	},
	{
		name: "SQLite", page: "databases.md",
		url:      func(t testing.TB) string { return installed(t, "sqlite") },
		restored: "not noticed: raise `era`", natives: "none",
	},
	{
		name: "etcd", page: "etcd.md", away: "etcd://ADDR",
		url:      func(t testing.TB) string { return strings.Replace(startEtcd(t).URL, "http", "etcd", 1) },
		restored: "not noticed, two may lead for up to `hold`: stop all, raise `era`",
		natives:  "`etcdctl elect`, `concurrency.Election`: exclusive until a native's session ends unnoticed",
	},
	{
		name: "Kubernetes", page: "kubernetes.md", away: "kubernetes://default?kubeconfig=FILE",
		url: func(t testing.TB) string {
			return leaseURL(t, server.StartKubernetes(t), "admin", "", "")
		},
		restored: "not noticed: stop all, raise `era`", natives: "client-go's `leaderelection`: a leader of client-go believes longer than it may",
	},
	{
		name: "Redis, Valkey", page: "redis.md", away: "redis://ADDR/0",
		url:      func(t testing.TB) string { return "redis://" + server.StartRedis(t).Addr + "/0" },
		restored: "a new replication id: a wait of `max_lease`; acknowledged writes may be lost: raise `era`", natives: "none",
	},
	{
		name: "Consul", page: "consul.md", away: "consul://ADDR",
		url:      func(t testing.TB) string { return "consul://" + server.StartConsul(t).Addr },
		restored: "not noticed by who starts after it: stop all, raise `era`", natives: "none: a key of `consul lock` is refused",
	},
	{
		name: "ZooKeeper", page: "zookeeper.md", away: "zookeeper://ADDR/elect",
		url:      func(t testing.TB) string { return "zookeeper://" + server.StartZooKeeper(t).Addr + "/elect" },
		restored: "not noticed: stop all, raise `era`",
		natives:  "Curator's `LeaderLatch` and `LeaderSelector`, kazoo's `Election`: two may lead for up to a `hold`, and a native after its session",
	},
	{
		name: "NATS", page: "nats.md", away: "nats://ADDR",
		url: func(t testing.TB) string { return "nats://" + server.StartNATS(t).Addr },
		restored: "a bucket that was made again: a wait of `max_lease`, tokens may repeat: raise `era`; a restore is not noticed: " +
			"stop all, raise `era`",
		natives: "none",
	},
	{
		name: "S3", page: "s3.md", away: "s3://bucket?endpoint=http://ADDR",
		url: func(t testing.TB) string {
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

// limits are those of an elector with the default times.
func limits(t *testing.T, at string) driver.Limits {
	t.Helper()
	all := map[string]driver.Opener{"file": file.Open, "peer": peer.Open}
	maps.Copy(all, openers)
	u := parse(t, at)
	e, err := all[u.Scheme](t.Context(), driver.Target{URL: u, Name: "matrix", ID: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	return e.Limits()
}

// TestMatrix compares docs/back-ends.md with what each back end says of itself with its default times. They say it
// before a server has answered, so each row is compared on each machine. That it is said at a real server, too, is
// compared where there is one.
func TestMatrix(t *testing.T) {
	s3Credentials(t)
	promises, after := make([]string, len(backends)), make([]string, len(backends))
	t.Run("rows", func(t *testing.T) {
		for i, b := range backends {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				l := limits(t, b.nobody(t))
				abilities := make([]string, len(l.Abilities))
				for i, a := range l.Abilities {
					abilities[i] = string(a)
				}
				if !l.Exclusive {
					t.Error("it is not exclusive")
				}
				name := fmt.Sprintf("[%s](%s)", b.name, b.page)
				promises[i] = fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", name, span(l.Lease), span(l.MinLease), span(l.MaxLease), span(l.Takeover), strings.Join(abilities, ", "))
				after[i] = fmt.Sprintf("| %s | %s | %s | %s |\n", name, l.Assumes, b.restored, b.natives)
				if b.away == "" {
					return
				}
				t.Run("at a real server", func(t *testing.T) {
					long.Test(t, "it starts a server")
					if real := limits(t, b.url(t)); !reflect.DeepEqual(real, l) {
						t.Errorf("it says %+v; want what it says before a server has answered, %+v", real, l)
					}
				})
			})
		}
	})
	pageHas(t, filepath.Join("..", "..", "..", "docs", "back-ends.md"), map[string]string{
		"promises":    "| back end | lease | from | to | longest takeover | abilities |\n|---|---|---|---|---|---|\n" + strings.Join(promises, ""),
		"assumptions": "| back end | exclusive if | after a restore or failover | natives in the same election |\n|---|---|---|---|\n" + strings.Join(after, ""),
	})
}

// nobody is the URL of a server that does not run.
func (b *backend) nobody(t *testing.T) string {
	t.Helper()
	if b.away == "" {
		return b.url(t)
	}
	addr, config := harness.FreeAddr(t), filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, fmt.Appendf(nil, kubeconfig, addr), 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("ADDR", addr, "FILE", config).Replace(b.away)
}

// kubeconfig names an API server.
const kubeconfig = `{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
"clusters": [{"name": "k", "cluster": {"server": "https://%s"}}], "users": [{"name": "u", "user": {"token": "t"}}]}`

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
