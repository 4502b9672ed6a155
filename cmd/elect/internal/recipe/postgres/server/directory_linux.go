package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lib/pq"
)

// A new data directory is made beside the old one, and takes its place in steps. A crash after any of them leaves one of
// these states, from which recover goes on:
//
//	partial                 it is being made: removed by the next attempt
//	whole, [data]           it is durable: removed, or the exchange is done again
//	whole, former           takes the place
//	data, former            former is removed
func (s *Server) partial() string { return s.data + ".partial" }
func (s *Server) whole() string   { return s.data + ".whole" }
func (s *Server) former() string  { return s.data + ".former" }

// recover ends an exchange.
func (s *Server) recover() error {
	if _, err := os.Lstat(s.data); errors.Is(err, fs.ErrNotExist) {
		for _, from := range []string{s.whole(), s.former()} {
			switch err := os.Rename(from, s.data); {
			case err == nil:
				return syncDir(filepath.Dir(s.data))
			case !errors.Is(err, fs.ErrNotExist):
				return err
			}
		}
		return nil
	}
	return errors.Join(os.RemoveAll(s.whole()), os.RemoveAll(s.former()))
}

// exchange puts the partial directory, which is durable, in the place of the data directory.
func (s *Server) exchange() error {
	defer s.forgetWAL()
	parent := filepath.Dir(s.data)
	if err := errors.Join(os.RemoveAll(s.whole()), os.RemoveAll(s.former())); err != nil {
		return err
	}
	if err := os.Rename(s.partial(), s.whole()); err != nil {
		return err
	}
	if err := syncDir(parent); err != nil {
		return err
	}
	if err := os.Rename(s.data, s.former()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; want a data directory that can be renamed, such as a directory below a mount point", err)
	}
	if err := os.Rename(s.whole(), s.data); err != nil {
		return err
	}
	if err := syncDir(parent); err != nil {
		return err
	}
	return os.RemoveAll(s.former())
}

// forgetWAL forgets what was read of WAL that is another one now.
func (s *Server) forgetWAL() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.extent = extent{}
}

// Empty reports whether there is no cluster in the data directory. Other files there are an error.
func (s *Server) Empty() (bool, error) {
	if err := s.recover(); err != nil {
		return false, err
	}
	names, err := os.ReadDir(s.data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	case len(names) == 0:
		return true, nil
	}
	if _, err := os.Stat(filepath.Join(s.data, "global", "pg_control")); err != nil {
		return false, fmt.Errorf("the data directory is neither empty nor that of a PostgreSQL: %w", err)
	}
	return false, nil
}

// Init makes a cluster in an empty directory, with checksums, the roles, and the schema elect. It is left stopped. If it
// fails the directory is empty.
func (s *Server) Init(ctx context.Context) error {
	if empty, err := s.Empty(); err != nil || !empty {
		return errors.Join(err, errors.New("there is a data directory already; want an empty one"))
	}
	cfg := s.config()
	if err := os.RemoveAll(s.partial()); err != nil {
		return err
	}
	defer os.RemoveAll(s.partial())
	if _, err := s.run(ctx, medium, nil, "initdb", "-D", s.partial(), "-U", cfg.Superuser, "--data-checksums",
		"-E", "UTF8", "--locale=C", "--auth=reject", "--no-instructions"); err != nil {
		return err
	}
	password := "NULL"
	if cfg.Password != "" {
		password = pq.QuoteLiteral(cfg.Password)
	}
	// What pg_rewind needs is in its documentation.
	statements := []string{
		"ALTER ROLE %[2]s PASSWORD %[3]s",
		"CREATE ROLE %[1]s LOGIN REPLICATION PASSWORD %[3]s",
		"GRANT pg_checkpoint TO %[1]s",
		"GRANT EXECUTE ON FUNCTION pg_catalog.pg_ls_dir(text, boolean, boolean), pg_catalog.pg_stat_file(text, boolean), " +
			"pg_catalog.pg_read_binary_file(text), pg_catalog.pg_read_binary_file(text, bigint, bigint, boolean) TO %[1]s",
		"CREATE SCHEMA elect",
		"GRANT USAGE ON SCHEMA elect TO PUBLIC",
		"CREATE TABLE elect.terms (token bigint PRIMARY KEY, id text NOT NULL, timeline bigint NOT NULL, at timestamptz NOT NULL)",
		"GRANT SELECT ON elect.terms TO PUBLIC",
		"CREATE TABLE elect.probe (one boolean PRIMARY KEY CHECK (one), at timestamptz NOT NULL)",
	}
	in := strings.ReplaceAll(fmt.Sprintf(strings.Join(statements, ";\n\n")+";\n\n", pq.QuoteIdentifier(cfg.Replication), pq.QuoteIdentifier(cfg.Superuser), password), "\r", "")
	// A statement that fails does not end the program, so the last one is looked for.
	out, err := s.feed(ctx, medium, nil, in+"SELECT count(*) AS made FROM elect.probe;\n\n", "postgres", "--single", "-j", "-D", s.partial(), "-c", "log_min_messages=error", "postgres")
	if err != nil {
		return err
	}
	if !strings.Contains(out, `made = "0"`) {
		return errors.New("the roles and tables of elect were not made; want what PostgreSQL misses, by its log")
	}
	return s.exchange()
}

// source is a connection string to another node's database.
func (s *Server) source(from Upstream) string {
	return conninfo(append(s.upstream(from), "dbname", "postgres", "application_name", "elect")...)
}

// secret is the environment with which a program finds the password.
func (s *Server) secret() []string {
	if password := s.config().Password; password != "" {
		return []string{"PGPASSWORD=" + password}
	}
	return nil
}

// Rewind makes a stopped server, which may have crashed, one that can follow a primary: by pg_rewind. It is left
// stopped. When the primary has answered, change is called: if it fails, nothing has changed. After a later error the
// directory may have to be rebuilt.
func (s *Server) Rewind(ctx context.Context, from Upstream, change func() error) error {
	if s.Running() {
		return errors.New("PostgreSQL runs; want it stopped before it is rewound")
	}
	if err := s.sweep(ctx); err != nil {
		return err
	}
	// Until the first checkpoint after a promotion pg_rewind takes the source to be on its old timeline.
	if err := s.settle(ctx, from); err != nil {
		return fmt.Errorf("a checkpoint of %s: %w", from.ID, err)
	}
	if err := change(); err != nil {
		return err
	}
	// If it has crashed, pg_rewind has it recover alone first, which cannot be done as a standby.
	if err := errors.Join(remove(filepath.Join(s.data, "standby.signal")), s.configure(s.config(), 0)); err != nil {
		return err
	}
	defer s.forgetWAL()
	_, err := s.run(ctx, ample, s.secret(), "pg_rewind", "-D", s.data, "--source-server", s.source(from), "--config-file", filepath.Join(s.data, confFile))
	return err
}

// settle has the primary make a checkpoint.
func (s *Server) settle(ctx context.Context, from Upstream) error {
	pairs := append([]string{"dbname", "postgres", "user", s.config().Replication, "application_name", "elect"}, s.upstream(from)[:4]...)
	pairs = append(pairs, "connect_timeout", "3", "sslmode", "prefer")
	if p := s.config().Password; p != "" {
		pairs = append(pairs, "password", p)
	}
	db, err := sql.Open("postgres", conninfo(pairs...))
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	_, err = ask(ctx, func(ctx context.Context) (struct{}, error) {
		_, err := db.ExecContext(ctx, "CHECKPOINT")
		return struct{}{}, err
	})
	return err
}

// Rebuild replaces the data directory of a stopped server by a copy of a running one. It is left stopped. The old
// directory is kept until the copy is whole, so there must be room for both. Then replace is called: if it fails, the old
// directory stays.
func (s *Server) Rebuild(ctx context.Context, from Upstream, replace func() error) error {
	if s.Running() {
		return errors.New("PostgreSQL runs; want it stopped before it is rebuilt")
	}
	if err := s.sweep(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(s.partial()); err != nil {
		return err
	}
	if _, err := s.run(ctx, ample, s.secret(), "pg_basebackup", "-D", s.partial(), "-d", s.source(from), "-X", "stream", "-c", "fast"); err != nil {
		return errors.Join(err, os.RemoveAll(s.partial()))
	}
	if err := replace(); err != nil {
		return errors.Join(err, os.RemoveAll(s.partial()))
	}
	return s.exchange()
}
