//go:build linux && cgo

package leases_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/store/sqlstore"
	"github.com/electd/elect/test/fencing/server"
)

// TestDoctor: elect doctor finds nothing wrong with a server of each kind that is set up as a guarantee needs it, and
// measures it; and it names each thing that is wrong with another one.
func TestDoctor(t *testing.T) {
	long.Full(t, "it starts a server of each kind, and one for each thing that is wrong")
	program := harness.Build(t, "../../../cmd/elect")
	says := func(t *testing.T, args ...string) (string, error) {
		t.Helper()
		cmd := exec.Command(program, append([]string{"doctor", "--election"}, args...)...)
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		t.Logf("elect doctor --election %s:\n%s", strings.Join(args, " "), out)
		return string(out), err
	}
	for _, b := range backends {
		t.Run(strings.Trim(b.name, "`"), func(t *testing.T) {
			at := b.url(t)
			if strings.HasPrefix(at, "peer:") || strings.HasPrefix(at, "sqlite:") {
				t.Skip("it has tests of its own, or no driver in the command")
			}
			out, err := says(t, at)
			if err != nil || strings.Contains(out, "wrong:") || strings.Count(out, " at the median of ") != 2 {
				t.Errorf("%v; want nothing wrong, and two times that were measured", err)
			}
		})
	}
	inPostgres := func(spoil func(*testing.T, *place), settings ...string) func(*testing.T) string {
		return func(t *testing.T) string {
			pg := server.StartPostgres(t, settings...)
			d := &database{dialect: sqlstore.PostgreSQL, make: func(t testing.TB) *url.URL { return parse(t, pg.Database(t)) }}
			p := d.place(t)
			spoil(t, p)
			return p.at.String()
		}
	}
	inMariaDB := func(set string, settings ...string) func(*testing.T) string {
		return func(t *testing.T) string {
			m := server.StartMariaDB(t, settings...)
			d := &database{dialect: sqlstore.MySQL, make: func(t testing.TB) *url.URL {
				cfg := m.Database(t)
				return parse(t, "mysql://root@"+cfg.Addr+"/"+cfg.DBName)
			}}
			p := d.place(t)
			m.Exec(t, "SET GLOBAL "+set)
			return p.at.String()
		}
	}
	inRedis := func(settings ...string) func(*testing.T) string {
		return func(t *testing.T) string { return "redis://" + server.StartRedis(t, settings...).Addr + "/0" }
	}
	inZooKeeper := func(child string) func(*testing.T) string {
		return func(t *testing.T) string {
			z := newZnodes(t, server.StartZooKeeper(t))
			for _, path := range []string{z.prefix, z.prefix + "/doctor", z.prefix + "/doctor/" + child} {
				if _, err := z.client.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
					t.Fatal(err)
				}
			}
			return z.url("")
		}
	}
	for name, c := range map[string]struct {
		at   func(*testing.T) string
		want string
	}{
		"PostgreSQL, a standby":    {func(t *testing.T) string { p := newPair(t); p.follows(); return p.after.at.String() }, "wrong: it takes no writes"},
		"PostgreSQL, asynchronous": {inPostgres(func(*testing.T, *place) {}, "synchronous_commit=off"), "synchronous_commit is off"},
		"PostgreSQL, no standby":   {inPostgres(func(t *testing.T, p *place) { p.standbys(t, "s9") }), "wrong: no standby is connected"},
		"PostgreSQL, no right to write": {inPostgres(func(t *testing.T, p *place) {
			p.exec(t, "CREATE ROLE someone LOGIN; GRANT SELECT ON "+sqlstore.DefaultTable+" TO someone")
			p.at.User = url.User("someone")
		}), "missing: wrong: "},
		"MariaDB, forgets":     {inMariaDB("innodb_flush_log_at_trx_commit = 2"), "innodb_flush_log_at_trx_commit"},
		"MariaDB, rolls back":  {inMariaDB("sync_binlog = 0", "--log-bin=binlog"), "sync_binlog"},
		"MariaDB, a replica":   {inMariaDB("read_only = ON"), "wrong: it takes no writes"},
		"Redis, keeps nothing": {inRedis("--appendonly", "no"), "appendonly is no"},
		"Redis, syncs later":   {inRedis("--appendfsync", "everysec"), "appendfsync is everysec"},
		"Redis, evicts":        {inRedis("--maxmemory-policy", "allkeys-lru"), "maxmemory-policy is allkeys-lru"},
		"Redis, a cluster":     {inRedis("--cluster-enabled", "yes"), "want a server outside a cluster"},
		"Redis, a replica": {func(t *testing.T) string {
			host, port, _ := strings.Cut(server.StartRedis(t).Addr, ":")
			return inRedis("--replicaof", host, port)(t)
		}, "wrong: it takes no writes"},
		"ZooKeeper, another library": {inZooKeeper("a__lock__0000000007"), "wrong: candidates of another library"},
		"ZooKeeper, a child":         {inZooKeeper("config"), "wrong: they are no candidates"},
		"ZooKeeper, no majority": {func(t *testing.T) string {
			all := server.StartZooKeepers(t, 3)
			all[1].Kill(t)
			all[2].Kill(t)
			return "zookeeper://" + all[0].Addr + "/elect"
		}, "not serving: wrong: "},
		"etcd, no majority": {func(t *testing.T) string {
			all := server.StartEtcdCluster(t, 3, "--unsafe-no-fsync")
			all[1].Kill(t)
			all[2].Kill(t)
			return strings.Replace(all[0].URL, "http", "etcd", 1) + "/e"
		}, "not listed: wrong: "},
		"etcd, full": {func(t *testing.T) string {
			s := server.StartEtcd(t, "--unsafe-no-fsync", "--quota-backend-bytes", "65536")
			for c, i := s.Client(t), 0; i < 1000; i++ {
				if _, err := c.Put(t.Context(), fmt.Sprint(i), strings.Repeat("x", 10_000)); err != nil {
					break
				}
			}
			return strings.Replace(s.URL, "http", "etcd", 1)
		}, "wrong: it reports "},
		"etcd, a member is down": {func(t *testing.T) string {
			all := server.StartEtcdCluster(t, 3, "--unsafe-no-fsync")
			all[2].Kill(t)
			return strings.Replace(all[0].URL, "http", "etcd", 1) + "/e?servers_fixed=on"
		}, "no answer: wrong: it does not answer within 1s"},
		"Consul, no right to write": {func(t *testing.T) string {
			c := server.StartConsulACL(t)
			c.Do(t, http.MethodPut, "/v1/acl/policy", `{"Name": "reads", "Rules": "key_prefix \"\" { policy = \"read\" }"}`)
			var made struct{ SecretID string }
			if err := json.Unmarshal([]byte(c.Do(t, http.MethodPut, "/v1/acl/token", `{"Policies": [{"Name": "reads"}]}`)), &made); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(made.SecretID), 0o600); err != nil {
				t.Fatal(err)
			}
			return "consul://" + c.Addr + "?token_file=" + file
		}, "missing: wrong: "},
		"Consul, in memory":    {func(t *testing.T) string { return "consul://" + server.StartConsul(t, "-dev").Addr }, "wrong: the agent keeps everything in memory"},
		"Kubernetes, no right": {func(t *testing.T) string { return leaseURL(t, server.StartKubernetes(t), "nobody", "", "") }, `User "nobody" cannot get`},
		"NATS, in memory": {func(t *testing.T) string {
			b := newBucket(t, server.StartNATS(t))
			if _, err := b.client.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: b.name, Storage: jetstream.MemoryStorage}); err != nil {
				t.Fatal(err)
			}
			return b.url("")
		}, "it is in memory"},
		"NATS, no majority": {func(t *testing.T) string {
			all := server.StartNATSCluster(t, 3)
			b := newBucket(t, all[0])
			released(t, b.elector(t, "a").campaign(soon(t)))
			all[1].Kill(t)
			all[2].Kill(t)
			return b.url("")
		}, "a majority of the bucket's servers"},
		"S3, no bucket": {func(t *testing.T) string {
			s3Credentials(t)
			return "s3://none?endpoint=" + url.QueryEscape(server.StartS3(t).URL)
		}, "want a bucket that exists"},
		"a server that is far off": {func(t *testing.T) string {
			c := cableTo(t, server.StartRedis(t).Addr)
			c.Delay(30 * time.Millisecond)
			return "redis://" + c.Addr() + "/0?lease=400ms"
		}, "want a lease of "},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := says(t, c.at(t)); err == nil || !strings.Contains(out, c.want) {
				t.Errorf("%v; want a failure that says %q", err, c.want)
			}
		})
	}
}
