package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/spf13/pflag"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/hook"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/peer"
)

// positionFlags are the commands of elect run that tell a peer's position.
type positionFlags struct {
	set     *pflag.FlagSet
	command string
	every   time.Duration
	catchUp string
}

const (
	// everyPosition is the default interval between two runs of the command; each is a process.
	everyPosition = time.Second
	// positionLimit is how long one run may take.
	positionLimit = 5 * time.Second
)

// positionFlagNames are the names of those flags.
var positionFlagNames = [...]string{"position-command", "position-every", "catch-up-command"}

func (f *positionFlags) flags(set *pflag.FlagSet) {
	f.set, f.every = set, everyPosition
	set.StringVar(&f.command, "position-command", "", "`COMMAND` for sh -c that prints this peer's position in one line")
	set.Var(cli.Duration(&f.every), "position-every", "`TIME` between two runs of --position-command")
	set.StringVar(&f.catchUp, "catch-up-command", "", "`COMMAND` for sh -c that catches up from the peer ELECT_CATCH_UP_FROM to ELECT_CATCH_UP_POSITION")
}

// check refuses flags without effect. The policy is that of the URL, with its flags.
func (f *positionFlags) check(p *place) error {
	given := ""
	for _, name := range positionFlagNames {
		if flag := f.set.Lookup(name); flag.Changed || flag.Value.String() != flag.DefValue {
			given = "--" + name
			break
		}
	}
	if given == "" {
		return nil
	}
	if !p.isPeer() {
		return exit.Usagef("%s is about elections among peers; leave it out, or want --election peer://n1@HOST:PORT,…", given)
	}
	_, cfg, err := p.peers()
	switch {
	case err != nil:
		return err
	case cfg.Position == "" || cfg.Position == string(quorum.IgnorePosition):
		return exit.Usagef("%s is given, and positions count for nothing; want --position prefer or --position require, too", given)
	case f.command == "":
		return exit.Usagef("%s is given, and no --position-command; want one that prints this peer's position", given)
	case f.every == 0:
		return exit.Usagef("--position-every is 0; want a time such as 1s")
	}
	return nil
}

// openers are the given ones, with these commands, which are like hooks, for peers.
func (f *positionFlags) openers(openers elect.Openers, hooks hook.Command) elect.Openers {
	if f.command == "" {
		return openers
	}
	with := maps.Clone(openers)
	with[peerScheme] = func(ctx context.Context, t driver.Target) (driver.Elector, error) {
		return openPeerWith(ctx, t, func(c *peer.Config) { f.complete(c, hooks) })
	}
	return with
}

// complete sets functions that run the commands.
func (f *positionFlags) complete(c *peer.Config, hooks hook.Command) {
	position := hooks
	position.Name, position.Text, position.Limit = "position", f.command, positionLimit
	c.LocateEvery = f.every
	c.Locate = func(ctx context.Context) (string, error) {
		at, err := position.Line(ctx)
		if err != nil {
			return "", fmt.Errorf("its position command fails: %w", err)
		}
		return at, nil
	}
	if f.catchUp == "" {
		return
	}
	catchUp, log := hooks, c.Logger
	catchUp.Name, catchUp.Text = "catch-up", f.catchUp
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c.CatchUp = func(ctx context.Context, from string, at string) error {
		out, err := catchUp.Run(ctx, "ELECT_CATCH_UP_FROM="+string(from), "ELECT_CATCH_UP_POSITION="+at)
		if said := cli.OneLine(out); said != "" {
			log.Info("the catch-up command has ended", "says", said)
		}
		return err
	}
}
