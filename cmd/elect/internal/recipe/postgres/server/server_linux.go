package server

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/lib/pq"

	"github.com/electd/elect/internal/spawn"
)

// oldest is the oldest major version that this package works with: its pg_waldump says where the WAL ends.
const oldest = 15

// Server is a PostgreSQL server and its data directory. The caller holds a lock that keeps other processes from making
// a Server of the same directory.
type Server struct {
	bin, data, socket string
	starter           spawn.Starter
	db                *sql.DB // to the server at the socket, as superuser

	mu    sync.Mutex
	cfg   Config
	token uint64      // of the term of this primary; 0 of a standby
	main  *postmaster // of the last start; nil before
	// extent is what was read of the WAL since the server was stopped.
	extent extent

	disarming sync.Mutex // held while what ALTER SYSTEM has written is looked through
}

// New returns a Server for a configuration. It starts none, and changes nothing on the disk, except that it ends an
// exchange of data directories that a crash has interrupted.
func New(cfg Config) (*Server, error) {
	if os.Getuid() == 0 {
		return nil, errors.New("PostgreSQL does not run as root; want another user: setpriv --reuid=postgres --regid=postgres --init-groups elect …")
	}
	cfg, err := complete(cfg)
	if err != nil {
		return nil, err
	}
	s := &Server{bin: cfg.Bin, data: cfg.Data, socket: cfg.Socket, cfg: cfg}
	if err := s.version(); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(cfg.Listen)
	connector, err := pq.NewConnector(conninfo("host", cfg.Socket, "port", port, "user", cfg.Superuser, "dbname", "postgres", "sslmode", "disable",
		"application_name", "elect", "synchronous_commit", "local", "connect_timeout", "10"))
	if err != nil {
		return nil, err
	}
	s.db = sql.OpenDB(connector)
	s.db.SetMaxOpenConns(8)
	s.db.SetMaxIdleConns(2)
	return s, s.recover()
}

// Close closes the connections of a Server that does not run.
func (s *Server) Close() error { s.starter.Close(); return s.db.Close() }

// complete returns a configuration with its defaults, or what is wrong with it.
func complete(cfg Config) (Config, error) {
	cfg.Superuser, cfg.Replication = cmp.Or(cfg.Superuser, "postgres"), cmp.Or(cfg.Replication, "replicator")
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return cfg, fmt.Errorf("the address to listen at is %q; want HOST:PORT", cfg.Listen)
	}
	const longest = 107 // of a unix socket's path, in bytes: sun_path without its end
	if path := filepath.Join(cfg.Socket, ".s.PGSQL."+port); len(path) > longest {
		return cfg, fmt.Errorf("the path of the unix socket has %d bytes: %s; want at most %d: a shorter directory", len(path), path, longest)
	}
	ip := net.ParseIP(host)
	switch {
	case !filepath.IsAbs(cfg.Data) || !filepath.IsAbs(cfg.Socket):
		return cfg, fmt.Errorf("the data directory is %q and that of the socket %q; want absolute paths", cfg.Data, cfg.Socket)
	case cfg.ID == "":
		return cfg, errors.New("the node has no id; want one")
	case len(SlotName(cfg.ID)) > 63:
		return cfg, fmt.Errorf("the id of the node is %q; want one whose slot, %s, has at most 63 bytes", cfg.ID, SlotName(cfg.ID))
	case cfg.Confirm < 1 || cfg.Confirm > len(cfg.Nodes):
		return cfg, fmt.Errorf("%d of %d other nodes confirm a commit; want 1 to all of them", cfg.Confirm, len(cfg.Nodes))
	case cfg.Password == "" && (cfg.Addresses != "" || host != "localhost" && (ip == nil || !ip.IsLoopback())):
		return cfg, fmt.Errorf("there is no password, and the server listens at %s; want a password, or a loopback address", cfg.Listen)
	case strings.ContainsAny(cfg.Password, "\n\r"):
		return cfg, errors.New("the password has more than one line; want one")
	}
	for name, value := range cfg.Parameters {
		if err := CheckParameter(name, value); err != nil {
			return cfg, err
		}
	}
	cfg.Data = filepath.Clean(cfg.Data)
	return cfg, nil
}

var versionText = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// version checks that the programs are there, and new enough.
func (s *Server) version() error {
	for _, name := range []string{"initdb", "pg_basebackup", "pg_controldata", "pg_rewind", "pg_waldump", "postgres"} {
		if _, err := os.Stat(filepath.Join(s.bin, name)); err != nil {
			return fmt.Errorf("bin: %w; want the directory of PostgreSQL's programs, such as /usr/lib/postgresql/%d/bin", err, oldest)
		}
	}
	out, err := s.run(context.Background(), short, nil, "postgres", "--version")
	if err != nil {
		return err
	}
	found := versionText.FindStringSubmatch(out)
	if found == nil {
		return fmt.Errorf("postgres --version says %q; want a version", strings.TrimSpace(out))
	}
	if v, _ := strconv.Atoi(found[1]); v < oldest {
		return fmt.Errorf("PostgreSQL is of version %s; want %d or newer", found[1], oldest)
	}
	return nil
}

func (s *Server) config() Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg
}

// Running reports whether the postmaster is alive.
func (s *Server) Running() bool {
	select {
	case <-s.Done():
		return false
	default:
		return true
	}
}

// Done is closed when the postmaster of the last start has ended, and before the first one. Others of its processes may
// be alive for a moment: see [Server.Stop].
func (s *Server) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main == nil {
		ended := make(chan struct{})
		close(ended)
		return ended
	}
	return s.main.done
}
