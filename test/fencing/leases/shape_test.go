//go:build linux && cgo

package leases_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/sqlstore"
)

// shape is a table, or the rights on it, that the database's administrator has made. Each has a table of its own,
// {table}, and the user {user}.
type shape struct {
	name  string
	setup string // statements, separated by semicolons
	query string // of the URL, in addition
	read  string // what refuses an observer, too; "" nothing
	want  string // what refuses a candidate; "" nothing, and it leads
}

// shapes runs each shape. admin executes statements, and at is the URL of the user.
func shapes(t *testing.T, all []shape, admin func(statement string), at *url.URL) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var leads sync.WaitGroup
	defer leads.Wait()
	for i, s := range all {
		name := fmt.Sprintf("shape_%d", i)
		for statement := range strings.SplitSeq(s.setup, ";") {
			admin(strings.NewReplacer("{table}", name, "{user}", at.User.Username()).Replace(statement))
		}
		u := *at
		q := u.Query()
		q.Set("table", name)
		for key, value := range map[string]string{"lease": "1s", "max_lease": "1s", "poll": "100ms"} {
			q.Set(key, value)
		}
		u.RawQuery = q.Encode() + s.query
		open := func() (driver.Elector, error) {
			return openers[u.Scheme](ctx, driver.Target{URL: &u, Name: "e", ID: "a"})
		}
		e, err := open()
		for ; s.read != "" && err == nil && ctx.Err() == nil; e, err = open() { // the database has not answered in time
			_ = e.Close()
		}
		if s.read != "" {
			if err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), s.read) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v; want a permanent error with %q", s.name, err, s.read)
			}
		} else if err != nil {
			t.Errorf("%s: %v; want none before a campaign", s.name, err)
		}
		if err != nil {
			continue
		}
		leads.Go(func() {
			defer e.Close()
			m, err := campaignOnce(ctx, e, s.want == "")
			for s.want != "" && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // as above
				m, err = campaignOnce(ctx, e, false)
			}
			switch {
			case s.want == "" && err != nil:
				t.Errorf("%s: %v; want it to lead", s.name, err)
			case s.want != "" && (err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), s.want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("%s: %v; want a permanent error with %q", s.name, err, s.want)
			}
			if m != nil {
				if err := m.Release(ctx); err != nil {
					t.Errorf("%s: %v", s.name, err)
				}
			}
			found, err := e.(driver.Examiner).Examine(ctx)
			i := slices.IndexFunc(found, func(f driver.Finding) bool { return f.What == "rights" })
			if i < 0 || found[i].Wrong != (s.want != "") || !strings.Contains(found[i].Means, s.want) {
				t.Errorf("%s: doctor finds %+v, %v; want rights with %q", s.name, found, err, s.want)
			}
		})
	}
}

// campaignOnce campaigns, for 15 s unless patient.
func campaignOnce(ctx context.Context, e driver.Elector, patient bool) (driver.Mandate, error) {
	if !patient {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
	}
	return e.Campaign(ctx, driver.Candidacy{Exclusive: true})
}

// right is a table as elect install makes it, with all rights for {user}.
const (
	rightPostgres = `CREATE TABLE {table} (name text COLLATE "C" PRIMARY KEY, record text COLLATE "C" NOT NULL)`
	rightMySQL    = `CREATE TABLE {table} (name VARBINARY(128) NOT NULL PRIMARY KEY, record VARBINARY(32768) NOT NULL) ENGINE=InnoDB`
	rightSQLite   = `CREATE TABLE {table} (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID`
	granted       = `;GRANT SELECT, INSERT, UPDATE ON {table} TO {user}`
)

// postgresShapes needs the superuser of a database that other tests do not use.
func postgresShapes(t *testing.T, p *place) {
	db := p.open(t)
	admin := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	at := *p.at
	at.User = url.User("someone")
	for _, s := range []string{"CREATE ROLE someone LOGIN", "CREATE ROLE nobody NOLOGIN", "CREATE ROLE team", "GRANT team TO someone", "CREATE SCHEMA hidden", "CREATE SCHEMA open",
		"GRANT USAGE ON SCHEMA open TO someone", `CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`,
		`CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.record = ''x''; RETURN NEW; END'`} {
		admin(s)
	}
	shaped := func(columns string) string { return "CREATE TABLE {table} (" + columns + ")" + granted }
	column := func(name string) string { return "no column " + name + " of type text" }
	shapes(t, []shape{
		{name: "as installed", setup: rightPostgres + granted},
		{name: "rights on the columns", setup: rightPostgres + `;GRANT SELECT (name, record), INSERT (name, record), UPDATE (record) ON {table} TO {user}`},
		{name: "rights of a group", setup: rightPostgres + `;GRANT SELECT, INSERT, UPDATE ON {table} TO team`},
		{name: "varchar, a unique index, and further columns",
			setup: shaped(`n serial, name varchar NOT NULL, record varchar(32768), at timestamptz DEFAULT now(), by text, UNIQUE (name)`) + `;GRANT USAGE ON SEQUENCE {table}_n_seq TO {user}`},
		{name: "a trigger after, and one that is off", setup: rightPostgres + granted + `;CREATE TRIGGER a AFTER UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION stamp()` +
			`;CREATE TRIGGER b BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION stamp();ALTER TABLE {table} DISABLE TRIGGER b`},
		{name: "partitions", setup: `CREATE TABLE {table} (name text PRIMARY KEY, record text NOT NULL) PARTITION BY HASH (name)` +
			`;CREATE TABLE {table}_0 PARTITION OF {table} FOR VALUES WITH (MODULUS 1, REMAINDER 0)` + granted},
		{name: "no rights", setup: rightPostgres, read: "the role someone lacks rights on the table shape_6; want GRANT SELECT ON shape_6 TO someone"},
		{name: "to read only", setup: rightPostgres + `;GRANT SELECT ON {table} TO {user}`, want: "want GRANT INSERT, UPDATE ON shape_7 TO someone"},
		{name: "no INSERT", setup: rightPostgres + `;GRANT SELECT, UPDATE ON {table} TO {user}`, want: "want GRANT INSERT ON"},
		{name: "no UPDATE", setup: rightPostgres + `;GRANT SELECT, INSERT, UPDATE (name) ON {table} TO {user}`, want: "want GRANT UPDATE ON"},
		{name: "no SELECT", setup: rightPostgres + `;GRANT INSERT, UPDATE, SELECT (name) ON {table} TO {user}`, read: "want GRANT SELECT ON"},
		{name: "another schema", setup: `CREATE TABLE open.{table} (name text)`, read: `it is not in the search_path "$user", public, but in the schema open`},
		{name: "a schema that is not permitted", setup: `CREATE TABLE hidden.{table} (name text)`, read: "but in the schema hidden (without USAGE for someone)"},
		{name: "a name that is not there", setup: shaped("key text PRIMARY KEY, record text NOT NULL"), read: column("name")},
		{name: "a record that is not there", setup: shaped("name text PRIMARY KEY, state text NOT NULL"), read: column("record")},
		{name: "other types", setup: shaped("name integer PRIMARY KEY, record jsonb NOT NULL"), read: column("name and record")},
		{name: "too short", setup: shaped("name varchar(127) PRIMARY KEY, record varchar(255) NOT NULL"), read: column("name and record")},
		{name: "padded", setup: shaped("name char(128) PRIMARY KEY, record text NOT NULL"), read: column("name")},
		{name: "generated", setup: shaped("name text PRIMARY KEY, record text GENERATED ALWAYS AS (name) STORED"), read: column("record")},
		{name: "any case", setup: shaped("name text PRIMARY KEY, record text COLLATE any_case"), read: column("record")},
		{name: "a further column", setup: shaped("name text PRIMARY KEY, record text, team text NOT NULL"), read: "its column team must have a value, and has no default"},
		{name: "no key", setup: shaped("name text, record text"), read: "its primary key is not name alone"},
		{name: "another key", setup: shaped("name text, record text, n int DEFAULT 0, PRIMARY KEY (name, n)"), read: "its primary key is not name alone"},
		{name: "a key that can wait", setup: shaped("name text PRIMARY KEY DEFERRABLE, record text"), read: "its primary key is not name alone"},
		{name: "a key of some rows", setup: shaped("name text, record text") + `;CREATE UNIQUE INDEX ON {table} (name) WHERE record <> ''`, read: "its primary key is not name alone"},
		{name: "a trigger", setup: rightPostgres + granted + `;CREATE TRIGGER a BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION stamp()`, read: "its trigger a can change"},
		{name: "a rule", setup: rightPostgres + granted + `;CREATE RULE r AS ON UPDATE TO {table} DO INSTEAD NOTHING`, read: "its rule r replaces writes"},
		{name: "row-level security", setup: rightPostgres + granted + `;ALTER TABLE {table} ENABLE ROW LEVEL SECURITY`, read: "row-level security hides rows from the role someone"},
		{name: "a materialized view", setup: `CREATE MATERIALIZED VIEW {table} AS SELECT 1`, read: "it is a view"},
	}, admin, &at)

	// The owner is not subject to row-level security.
	owner := *p.at
	shapes(t, []shape{{name: "row-level security of others", setup: `DROP TABLE IF EXISTS {table};` + rightPostgres + `;ALTER TABLE {table} ENABLE ROW LEVEL SECURITY`}}, admin, &owner)
	refuses(t, strings.Replace(p.at.String(), "elect@", "someone@", 1)+"&table=hidden.t", "USAGE on the table's schema")
	refuses(t, strings.Replace(p.at.String(), "elect@", "nobody@", 1), "a user that may connect")
	refuses(t, strings.Replace(p.at.String(), "elect@", "missing@", 1), "a user that may connect")
	none := *p.at
	none.Path = "/none"
	refuses(t, none.String(), "a database that exists")
	admin(`REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC`)
	refuses(t, at.String()+"&table=shape_1", "want GRANT EXECUTE ON FUNCTION pg_control_system() TO someone")

	admin(`GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC`)
	standsBy(t, p.at.String()+"&table=shape_1&options=-cdefault_transaction_read_only%3Don", "the server takes no writes")
}

// standsBy fails the test if a candidate does not log a line, or is refused for good.
func standsBy(t *testing.T, at, line string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	u, log := parse(t, at), &said{}
	e, err := openers[u.Scheme](ctx, driver.Target{URL: u, Name: "e", ID: "a", Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
		ended <- err
	}()
	log.until(t, line)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want it to wait", err)
	}
}

// mariaShapes is postgresShapes for MariaDB.
func mariaShapes(t *testing.T, p *place) {
	db := p.open(t)
	admin := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	at := *p.at
	at.User = url.User("someone")
	for _, s := range []string{"CREATE USER someone@127.0.0.1", "CREATE ROLE team", "GRANT team TO someone@127.0.0.1", "SET DEFAULT ROLE team FOR someone@127.0.0.1"} {
		admin(s)
	}
	const granted = `;GRANT SELECT, INSERT, UPDATE ON {table} TO {user}@127.0.0.1`
	shaped := func(columns string) string { return "CREATE TABLE {table} (" + columns + ") ENGINE=InnoDB" + granted }
	const key = "its primary key is not name alone"
	shapes(t, []shape{
		{name: "as installed", setup: rightMySQL + granted},
		{name: "rights on the columns", setup: rightMySQL + `;GRANT SELECT (name, record), INSERT (name, record), UPDATE (record) ON {table} TO {user}@127.0.0.1`},
		{name: "rights of a role", setup: rightMySQL + `;GRANT SELECT, INSERT, UPDATE ON {table} TO team`},
		{name: "text, and a further column that IGNORE fills", setup: shaped("name VARCHAR(128) COLLATE utf8mb4_bin UNIQUE, record MEDIUMTEXT COLLATE utf8mb4_bin NOT NULL, team TEXT NOT NULL")},
		{name: "no rights", setup: rightMySQL, read: "GRANT SELECT, INSERT, UPDATE ON"},
		{name: "to read only", setup: rightMySQL + `;GRANT SELECT ON {table} TO {user}@127.0.0.1`, want: "want GRANT SELECT, INSERT, UPDATE ON `shape_5` to the user"},
		{name: "no UPDATE", setup: rightMySQL + `;GRANT SELECT, INSERT ON {table} TO {user}@127.0.0.1`, want: "UPDATE command denied to user"},
		{name: "no SELECT", setup: rightMySQL + `;GRANT INSERT, UPDATE ON {table} TO {user}@127.0.0.1`, read: "SELECT command denied to user"},
		{name: "a name that is not there", setup: shaped("id VARBINARY(128) PRIMARY KEY, record VARBINARY(32768)"), read: "Unknown column 'name'"},
		{name: "other types", setup: shaped("name INT PRIMARY KEY, record VARBINARY(32768)"), read: "no column name of type VARBINARY"},
		{name: "too short", setup: shaped("name VARBINARY(127) PRIMARY KEY, record VARBINARY(255)"), read: "no column name and record of type VARBINARY"},
		{name: "any case", setup: shaped("name VARBINARY(128) PRIMARY KEY, record MEDIUMTEXT COLLATE utf8mb4_general_ci"), read: "no column record of type VARBINARY"},
		{name: "no key", setup: shaped("name VARBINARY(128), record VARBINARY(32768)"), read: key},
		{name: "another key", setup: shaped("name VARBINARY(128), n INT, record VARBINARY(32768), PRIMARY KEY (name, n)"), read: key},
		{name: "a key of its beginning", setup: shaped("name VARBINARY(128) NOT NULL, record VARBINARY(32768), UNIQUE (name(8))"), read: key},
		{name: "a trigger that it sees", setup: rightMySQL + granted + `;GRANT TRIGGER ON {table} TO {user}@127.0.0.1;CREATE TRIGGER a BEFORE UPDATE ON {table} FOR EACH ROW SET NEW.record = 'x'`, read: "its trigger a can change"},
		{name: "a view", setup: `CREATE VIEW {table} AS SELECT name, record FROM shape_0` + granted, read: "it is a VIEW"},
	}, admin, &at)
	refuses(t, strings.Replace(p.at.String(), "root@", "missing@", 1), "a user and a database that exist")
	none := *p.at
	none.Path = "/none"
	refuses(t, none.String(), "a user and a database that exist")
	admin("SET GLOBAL read_only = ON")
	at.RawQuery = "table=shape_0"
	standsBy(t, at.String(), "the server takes no writes")
	admin("SET GLOBAL read_only = OFF")
}

// sqliteShapes is postgresShapes for SQLite, which has no rights.
func sqliteShapes(t *testing.T) {
	path := t.TempDir() + "/x.db"
	db, err := sql.Open("sqlite3", "file:"+path+"?_journal_mode=WAL&_busy_timeout=10000")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	shaped := func(columns string) string { return "CREATE TABLE {table} (" + columns + ")" }
	const columns, key = "its columns name and record are not of type TEXT", "its primary key is not name alone"
	shapes(t, []shape{
		{name: "as installed", setup: rightSQLite},
		{name: "other words, and further columns", setup: shaped("id INTEGER PRIMARY KEY, name VARCHAR(9) UNIQUE, record, at TEXT NOT NULL DEFAULT ''")},
		{name: "a name that is not there", setup: shaped("id TEXT PRIMARY KEY, record TEXT"), read: "no such column: name"},
		{name: "other types", setup: shaped("name INTEGER PRIMARY KEY, record TEXT"), read: columns},
		{name: "no key", setup: shaped("name TEXT, record TEXT"), read: key},
		{name: "another key", setup: shaped("name TEXT, n INT, record TEXT, PRIMARY KEY (name, n)"), read: key},
		{name: "any case", setup: shaped("name TEXT COLLATE NOCASE PRIMARY KEY, record TEXT"), read: key},
		{name: "a key of some rows", setup: shaped("name TEXT, record TEXT") + ";CREATE UNIQUE INDEX i ON {table} (name) WHERE record <> ''", read: key},
		{name: "a further column", setup: shaped("name TEXT PRIMARY KEY, record TEXT, team TEXT NOT NULL"), read: "its column team must have a value"},
		{name: "a view", setup: "CREATE VIEW {table} AS SELECT name, record FROM shape_0", read: "it is a view"},
	}, func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}, parse(t, "sqlite:"+path))
	if _, err := db.ExecContext(t.Context(), `CREATE TRIGGER a AFTER UPDATE ON shape_0 BEGIN UPDATE shape_0 SET record = 'x'; END`); err != nil {
		t.Fatal(err)
	}
	refuses(t, "sqlite:"+path+"?table=shape_0", "its trigger a can change")
	if _, err := db.ExecContext(t.Context(), "DROP TRIGGER a"); err != nil {
		t.Fatal(err)
	}
	readOnly, err := sql.Open("sqlite3", "file:"+path+"?mode=ro&_synchronous=FULL")
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	e, err := sqlstore.New(t.Context(), readOnly, sqlstore.SQLite, "e", "a", sqlstore.Config{Table: "shape_0"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Campaign(t.Context(), driver.Candidacy{Exclusive: true}); !driver.IsPermanent(err) || !strings.Contains(err.Error(), "the database takes no writes") {
		t.Errorf("%v; want a permanent error: the database takes no writes", err)
	}
}
