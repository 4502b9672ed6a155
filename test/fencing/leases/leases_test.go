//go:build linux && cgo

package leases_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/mattn/go-sqlite3" // a driver

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/store/consul"
	"github.com/electd/elect/store/etcd"
	"github.com/electd/elect/store/kubernetes"
	"github.com/electd/elect/store/nats"
	"github.com/electd/elect/store/redis"
	"github.com/electd/elect/store/s3"
	"github.com/electd/elect/store/sqlstore"
	"github.com/electd/elect/store/zookeeper"
	"github.com/electd/elect/test/fencing/server"
)

// openers are the schemes of the tests, each with the driver that it opens.
var openers = map[string]driver.Opener{
	"postgres": sqlstore.Opener(sqlstore.PostgreSQL, func(u *url.URL) (*sql.DB, error) { return sql.Open("pgx", u.String()) }),
	"mysql": sqlstore.Opener(sqlstore.MySQL, func(u *url.URL) (*sql.DB, error) {
		cfg := mysql.NewConfig()
		cfg.User, cfg.Net, cfg.Addr, cfg.DBName = u.User.Username(), "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
		cfg.Logger = &mysql.NopLogger{} // it says that connections were lost, which is what is tested
		return sql.Open("mysql", cfg.FormatDSN())
	}),
	"sqlite": sqlstore.Opener(sqlstore.SQLite, func(u *url.URL) (*sql.DB, error) {
		return sql.Open("sqlite3", "file:"+u.Path+"?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=1000")
	}),
	"etcd":  etcd.Open,
	"redis": redis.Open, "rediss": redis.Open,
	"consul":     consul.Open,
	"kubernetes": kubernetes.Open,
	"zookeeper":  zookeeper.Open,
	"nats":       nats.Open,
	"s3":         s3.Open,
}

func TestMain(m *testing.M) {
	supervise.KeeperMain(witness)
	if arguments := os.Getenv(memberVariable); arguments != "" {
		belong(strings.Fields(arguments))
	}
	serveNative()
	serveJob()
	if arguments := os.Getenv(crowdVariable); arguments != "" {
		crowd(arguments)
	}
	electtest.Serve(openers)
	work()
	os.Exit(m.Run())
}

// times are of the elections of the tests: short, and longer than a busy machine's pauses.
const times = "lease=2s&max_lease=2s&poll=200ms"

// database is a kind of database with an empty one for each test.
type database struct {
	dialect sqlstore.Dialect
	make    func(t testing.TB) *url.URL
	server  process // nil: there is none, and no network
}

// process is a server's.
type process interface {
	Kill(testing.TB)
	Start(testing.TB)
	Pause(t testing.TB, on bool)
}

func databases(t testing.TB) map[string]func(testing.TB) database {
	return map[string]func(testing.TB) database{
		"postgresql": func(t testing.TB) database {
			pg := server.StartPostgres(t)
			return database{sqlstore.PostgreSQL, func(t testing.TB) *url.URL { return parse(t, pg.Database(t)) }, pg}
		},
		"mariadb": func(t testing.TB) database {
			m := server.StartMariaDB(t)
			return database{sqlstore.MySQL, func(t testing.TB) *url.URL {
				cfg := m.Database(t)
				return parse(t, "mysql://"+cfg.User+"@"+cfg.Addr+"/"+cfg.DBName)
			}, m}
		},
		"sqlite": func(testing.TB) database {
			return database{sqlstore.SQLite, func(t testing.TB) *url.URL { return parse(t, "sqlite:"+filepath.Join(t.TempDir(), "elections.db")) }, nil}
		},
	}
}

// restarts kills a server, and starts it again.
func restarts(s process) func(testing.TB) {
	return func(t testing.TB) { s.Kill(t); s.Start(t) }
}

func parse(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// place is the database of one case, and the era that its operator has given.
type place struct {
	*database
	at  *url.URL
	era int
}

func (d *database) place(t testing.TB) *place {
	t.Helper()
	p := &place{database: d, at: d.make(t)}
	p.install(t)
	return p
}

// url is the place as a participant gets it, asked at addr if that is not empty.
func (p *place) url(addr string) string {
	u := *p.at
	if addr != "" {
		u.Host = addr
	}
	q := u.Query()
	own, _ := url.ParseQuery(times)
	for key := range own {
		q.Set(key, own.Get(key))
	}
	q.Set("era", fmt.Sprint(p.era))
	u.RawQuery = q.Encode()
	return u.String()
}

// source is the driver of the place, and what it opens.
func (p *place) source() (driver, name string) {
	switch p.dialect {
	case sqlstore.PostgreSQL:
		return "pgx", p.at.String()
	case sqlstore.MySQL:
		return "mysql", p.at.User.Username() + "@tcp(" + p.at.Host + ")" + p.at.Path + "?interpolateParams=true"
	}
	return "sqlite3", "file:" + p.at.Path + "?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=10000"
}

func (p *place) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(p.source())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (p *place) install(t testing.TB) {
	t.Helper()
	if err := sqlstore.Install(t.Context(), p.open(t), p.dialect, ""); err != nil {
		t.Fatal(err)
	}
}

func (p *place) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := p.open(t).ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

// participant opens one in a process of its own, behind a cable that can be cut.
func (p *place) participant(t testing.TB, name, id string) electtest.Participant {
	t.Helper()
	if p.server == nil {
		return electtest.Spawn(t, p.url(""), name, id)
	}
	return behindCable(t, p.at.Host, p.url, name, id)
}

// TestConformance has each participant in a process of its own, at a real database.
func TestConformance(t *testing.T) {
	long.Test(t, "it waits for leases, in processes")
	t.Parallel()
	for name, start := range databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "mariadb" {
				long.Full(t, "it takes minutes; the other databases are asked in the same way")
			}
			d := start(t)
			of := perCase(d.place)
			cannot := map[electtest.Fault]string{
				electtest.Lose:  "a connection loses no single answer; the register's own tests do",
				electtest.Delay: "as Lose",
			}
			if d.server == nil {
				cannot[electtest.Cut] = "a file cannot be cut off"
				cannot[electtest.Restart] = "there is no server"
			}
			cfg := electtest.Config{
				Cannot: cannot, Candidates: 5,
				Recreate: func(t testing.TB) {
					p := of(t)
					p.exec(t, "DELETE FROM "+sqlstore.DefaultTable)
					p.era++
				},
			}
			if d.server != nil {
				cfg.Restart = restarts(d.server)
			}
			electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant { return of(t).participant(t, name, id) }, cfg)
		})
	}
}
