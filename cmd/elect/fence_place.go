package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/cmd/elect/internal/marks"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

// fencePlaceHelp describes the values of --at.
const fencePlaceHelp = `--at or ELECT_AT gives the place, a URL:

  postgres://USER@HOST/DATABASE   a table of marks; with tables, also triggers on them
  mysql://USER@HOST/DATABASE      the same for MySQL and MariaDB, without triggers
  redis://HOST:6379/0             keys with {RESOURCE} in their name
  http://HOST:PORT                a guard in front of an HTTP server, such as elect fence
                                  proxy; for status and claim
  unix:PATH                       the same, by its socket for claims
  file:DIR with a RESOURCE        a directory of marks for such a guard; not for claim,
                                  which goes to the guard
  file:FILE without a RESOURCE    one file that leaders replace as a whole

Give a password in ELECT_AT and not on the command line. For PostgreSQL, PGPASSWORD and
~/.pgpass work, too. It is never shown. The parameter fence_table=NAME selects another
table of marks than elect_fence. Root refuses a place that other users can write to,
unless --shared-place says that they are trusted (file:DIR?shared-place=true).`

// fencePatience is how long a place may take to answer, in addition to the wait of a claim.
const fencePatience = 20 * time.Second

// fencePlace is shared by the verbs of elect fence.
type fencePlace struct {
	at  string
	cfg marks.Config
}

func (p *fencePlace) flags(f *pflag.FlagSet) {
	f.StringVar(&p.at, "at", "", "`URL` of the place of the mark")
	f.BoolVar(&p.cfg.SharedPlace, sharedPlace, false, sharedPlaceUsage)
}

// do opens the place and runs do there, with the named resource, or "".
func (p *fencePlace) do(cmd *cobra.Command, name string, do func(ctx context.Context, place marks.Place, resource fence.Resource) error) error {
	var resource fence.Resource
	if name != "" {
		var err error
		if resource, err = fence.ParseResource(name); err != nil {
			return exit.With(exit.Usage, err)
		}
	}
	if p.at == "" {
		return exit.Usagef("no place of the mark is given; want --at URL, such as --at postgres://app@db/orders, or ELECT_AT")
	}
	place, err := marks.Open(p.at, p.cfg)
	if err != nil {
		return ofFence(err)
	}
	defer place.Close()
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	limit := p.cfg.Wait + fencePatience
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s has not answered within %v", marks.Shown(p.at), limit))
	defer cancel()
	return ofFence(do(ctx, place, resource))
}

// ofFence gives an error of a place its exit code.
func ofFence(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fence.ErrStale):
		return exit.With(exit.Lost, err)
	case errors.Is(err, marks.ErrURL), errors.Is(err, fence.ErrToken), errors.Is(err, fence.ErrMissing), errors.Is(err, fence.ErrUnclaimed):
		return exit.With(exit.Usage, err)
	}
	return failed.Backend(err)
}

// oneOrNone returns the resource of the arguments, if any.
func oneOrNone(cmd *cobra.Command, args []string) (string, error) {
	switch {
	case len(args) > 1:
		return "", exit.Usagef("%s takes one resource, and %q was given, too", cmd.CommandPath(), args[1])
	case len(args) == 1 && args[0] == "":
		return "", exit.Usagef("%s: an empty name; want that of a resource, or none", cmd.CommandPath())
	case len(args) == 1:
		return args[0], nil
	}
	return "", nil
}

// withTables returns the resource and the tables of the arguments.
func withTables(cmd *cobra.Command, args []string) (string, []string, error) {
	if len(args) == 0 {
		return "", nil, nil
	}
	name, err := oneOrNone(cmd, args[:1])
	return name, args[1:], err
}

// called is the resource for people, or the file if that is guarded itself.
func (p *fencePlace) called(resource fence.Resource) string {
	if resource == "" {
		return marks.Shown(p.at)
	}
	return string(resource)
}

// warnOf writes the warnings about a place.
func warnOf(warnings []string) {
	for _, w := range warnings {
		_, _ = io.WriteString(os.Stderr, "elect: warning: "+cli.OneLine(w)+"\n")
	}
}
