package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/cmd/elect/internal/lines"
	"github.com/electd/elect/cmd/elect/internal/recipe/postgres"
	"github.com/electd/elect/internal/cli/exit"
)

// runPostgres runs a node. The program is guarded: whatever becomes of it, its PostgreSQL is dead before its lease ends.
func runPostgres(cmd *cobra.Command, openers elect.Openers, path string, s *postgres.Settings, logs *logFlags) error {
	// Before anything else this process becomes two. The other one, which waits, writes little.
	var handler slog.Handler = slog.NewTextHandler(os.Stderr, nil)
	if logs.format == "json" {
		handler = slog.NewJSONHandler(os.Stderr, nil)
	}
	guardian, err := supervise.Guard(supervise.GuardConfig{Logger: slog.New(handler), Grace: s.Grace + 10*time.Second})
	if err != nil {
		return exit.With(1, err)
	}
	say := logs.open()
	defer say.Close()
	output := io.Writer(say)
	if logs.format == "json" {
		output = objects{say}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	defer signal.Stop(again)
	err = postgres.Run(ctx, postgres.RunConfig{
		Settings: s, Openers: openers, Guardian: guardian, Logger: say.Steps(logs.verbose).With("node", s.ID), Output: output,
		Again: again, Reload: func() (*postgres.Settings, error) { return loadPostgres(openers, path) },
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return failed.Opening(err)
}

// objects writes the lines of PostgreSQL as those of this program, where these are objects.
type objects struct{ say *lines.Writer }

// Write takes one whole line.
func (o objects) Write(line []byte) (int, error) {
	o.say.Event(slog.LevelInfo, strings.TrimSuffix(string(line), "\n"), slog.String("from", "postgres"))
	return len(line), nil
}
