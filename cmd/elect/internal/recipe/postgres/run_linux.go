package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sync"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/config"
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

	// Reload returns the Settings of a configuration that was read again, each time that something comes from Again.
	Again  <-chan os.Signal
	Reload func() (*Settings, error)
}

// Run runs one node until ctx ends. The server is stopped when it returns.
func Run(ctx context.Context, cfg RunConfig) error {
	s := cfg.Settings
	secret, err := s.secret()
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
	channel := &control{of: n, name: s.cluster(), secret: secret, ids: s.ids()}
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
	ctx, cancel := context.WithCancelCause(ctx)
	var reloads sync.WaitGroup
	defer reloads.Wait()
	defer cancel(nil)
	reloads.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-cfg.Again:
				if err := reload(ctx, n, db, cfg); err != nil {
					cfg.Logger.Error("nothing has changed", "error", err)
				}
			}
		}
	})
	return n.run(ctx)
}

// reload puts changed parameters and lines of pg_hba.conf into force.
func reload(ctx context.Context, n *Node, db *server.Server, cfg RunConfig) error {
	next, err := cfg.Reload()
	if err != nil {
		return err
	}
	same := *next
	same.Parameters, same.HBA = cfg.Settings.Parameters, cfg.Settings.HBA
	if !reflect.DeepEqual(&same, cfg.Settings) {
		return errors.New("other settings than parameters and hba have changed, which are read at the start only; want a restart of this node, or the former settings")
	}
	of, err := serverConfig(next, cfg.Logger, cfg.Output)
	if err != nil {
		return err
	}
	var restart []string
	err = n.change(ctx, func() (err error) {
		restart, err = db.Reload(ctx, of)
		return err
	})
	if err == nil && len(restart) > 0 {
		cfg.Logger.Warn("some parameters need a restart of the server: want elect recipe postgres switchover, and a restart of this node", "parameters", restart)
	}
	if err == nil {
		cfg.Logger.Info("the parameters are in force")
	}
	return err
}

// newServer makes the server of a node.
func newServer(s *Settings, log *slog.Logger, out io.Writer) (*server.Server, error) {
	cfg, err := serverConfig(s, log, out)
	if err != nil {
		return nil, err
	}
	return server.New(cfg)
}

// serverConfig is the configuration of that server.
func serverConfig(s *Settings, log *slog.Logger, out io.Writer) (cfg server.Config, err error) {
	bin := s.Bin
	if bin == "" {
		path, err := exec.LookPath("postgres")
		if err != nil {
			return cfg, fmt.Errorf("bin: %w; want the directory of PostgreSQL's programs, such as /usr/lib/postgresql/15/bin", err)
		}
		bin = filepath.Dir(path)
	}
	password, err := config.ReadSecret("password-file", s.Password, 1)
	if err != nil {
		return cfg, err
	}
	cfg = server.Config{
		Bin: bin, Data: s.Data, Socket: cmp.Or(s.Socket, s.State), Listen: s.node(s.ID).Postgres, Addresses: s.Listen, ID: s.ID, Confirm: s.Confirm,
		Superuser: s.Superuser, Replication: s.Replication, Password: password, Parameters: s.Parameters, HBA: s.HBA, Logger: log, Output: out,
	}
	for _, e := range s.Nodes {
		if e.ID != s.ID {
			cfg.Nodes = append(cfg.Nodes, server.Upstream{ID: e.ID, Address: e.Postgres})
		}
	}
	return cfg, nil
}
