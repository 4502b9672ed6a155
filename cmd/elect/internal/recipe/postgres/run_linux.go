package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/recipe/postgres/server"
	"github.com/electd/elect/electprom"
	"github.com/electd/elect/peer/certs"
)

// RunConfig is what Run needs beside the Settings.
type RunConfig struct {
	Settings *Settings
	Openers  elect.Openers
	Guardian elect.Guardian // kills this process and its server before a lease ends
	Logger   *slog.Logger
	Output   io.Writer // the lines of PostgreSQL; it does not block
}

// Run runs one node until ctx ends. The server is stopped when it returns.
func Run(ctx context.Context, cfg RunConfig) error {
	s := cfg.Settings
	secret, err := readSecret(s.Secret)
	if err != nil {
		return err
	}
	keep, err := openState(s.State, s.Name, s.ID)
	if err != nil {
		return err
	}
	defer keep.Close()
	db, err := newServer(s, cfg.Logger, cfg.Output)
	if err != nil {
		return err
	}
	defer db.Close()
	client, err := NewClient(s, secret)
	if err != nil {
		return err
	}
	others := map[string]remote{}
	for _, id := range s.ids() {
		if id != s.ID {
			others[id] = client.node(id)
		}
	}
	n, err := newNode(s, db, keep, others, cfg.Logger)
	if err != nil {
		return err
	}
	metrics := electprom.New(s.Name)
	n.election, err = cfg.Openers.Open(ctx, s.Election, s.Name, elect.Config{ID: s.ID, Guardian: cfg.Guardian, Logger: cfg.Logger, OnEvent: metrics.OnEvent})
	if err != nil {
		return err
	}
	defer n.election.Close()
	metrics.Attach(n.election)
	defer metrics.Close()
	if err := s.CheckLimits(n.election.Limits()); err != nil {
		return err
	}
	channel := &control{of: n, name: s.Name, secret: secret, ids: s.ids()}
	var secure *tls.Config
	if s.Certs != "" {
		if channel.certs, err = certs.LoadDir(s.Certs, s.ID); err != nil {
			return err
		}
		secure = channel.certs.Server()
	}
	l, err := net.Listen("tcp", s.node(s.ID).Control)
	if err != nil {
		return err
	}
	defer serve(l, channel, secure, cfg.Logger)()
	if s.HTTP != "" {
		l, err := net.Listen("tcp", s.HTTP)
		if err != nil {
			return err
		}
		defer serve(l, &probes{of: n, metrics: metricsOf(n, metrics)}, nil, cfg.Logger)()
	}
	return n.run(ctx)
}

// newServer makes the server of a node.
func newServer(s *Settings, log *slog.Logger, out io.Writer) (*server.Server, error) {
	bin := s.Bin
	if bin == "" {
		path, err := exec.LookPath("postgres")
		if err != nil {
			return nil, fmt.Errorf("bin: %w; want the directory of PostgreSQL's programs, such as /usr/lib/postgresql/15/bin", err)
		}
		bin = filepath.Dir(path)
	}
	password, err := readSecret(s.Password)
	if err != nil {
		return nil, err
	}
	cfg := server.Config{
		Bin: bin, Data: s.Data, Socket: cmp.Or(s.Socket, s.State), Listen: s.node(s.ID).Postgres, ID: s.ID, Confirm: s.Confirm,
		Superuser: s.Superuser, Replication: s.Replication, Password: password, Parameters: s.Parameters, HBA: s.HBA, Logger: log, Output: out,
	}
	for _, e := range s.Nodes {
		if e.ID != s.ID {
			cfg.Nodes = append(cfg.Nodes, server.Upstream{ID: e.ID, Address: e.Postgres})
		}
	}
	return server.New(cfg)
}
