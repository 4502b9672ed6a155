package main

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/cmd/elect/internal/groupbench"
	"github.com/electd/elect/cmd/elect/internal/localpeers"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/group"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/redact"
)

const groupBenchHelp = `Measure many elections at once: bench starts three members of a group on this machine,
has them lead all keys, and brings some of them down.

  join         all members are told to lead the keys → all keys are led
  idle         what all processes cost over --idle, while nothing happens
  member       SIGKILL to a member that does not coordinate → its keys are led again
  power        SIGKILL to all processes of such a member at once, as if its machine had
               died → its keys are led again: within the promise and some 300 ms. Only
               of shards: elections have no keeper, and member is the same
  coordinator  SIGKILL to the member that coordinates → its keys are led again
  leave        a member leaves in good order: each key from the end of its work → it is
               led again
  move         --moves single keys are moved, one after the other: the same. Placement
               evens the load out with other keys, which are counted as interrupted
  joins        a fourth member joins → it leads its share, a quarter of the keys. Only of
               shards. It includes 2 s for which placement waits

--use says how the keys are led, and several, with commas between them, take turns:

  shards       by Group.Serve of package group: each member wants all keys, and has a
               guardian, whose keeper tells the coordinator when the member is dead
  elections    by a candidate each, of Group.Elector: of two members for each key. There
               is no keeper, and the keys of the dead wait for the end of the promise

--beside URL has as many elections, with two candidates each, in a store, in turns with
the others: elect's own elections, as at etcd://127.0.0.1/bench?lease=5s, or those of
etcd's client, in one session for each process, as at
native+etcd://127.0.0.1:2379/bench?lease=5s. There, too, is no keeper. A key is not
moved there: its leader gives it up.

The coordinator is elected at --election, which is a new directory by default. With
--peers the members elect it among themselves, with certificates and the times of a
profile. Elsewhere the members' connections are without TLS. Members that come or go
move keys after 2 s, not after 10. --promise is that of the groups: a machine that does
other work beside needs a longer one for many elections, whose terms end otherwise.

The members record when each term begins and ends. Exit code 1 reports two that led one
key at one instant, and a token that does not rise. All processes that were started are
dead when bench ends.

-o json writes one object: members, rounds, clock, promise_ms (if given), the conditions,
and systems, a list of {use, at, keys, join {rounds, half_ms, all_ms, worst_ms}, idle {seconds, cpu_percent,
resident_bytes, share_bytes}, memory {coordinator_bytes_per_key, member_bytes_per_key},
kinds, violations}. kinds is a list of {kind, keys, rounds, half_ms, all_ms, worst_ms,
interrupted}. half_ms and all_ms are medians of the rounds, worst_ms is the greatest.`

// groupNodeVerb is the program that elect bench group measures. It is not for people.
const groupNodeVerb = "bench-group-node"

func newGroupBench(openers elect.Openers) *cobra.Command {
	var format cli.Output
	var p place
	var beside []string
	var profile string
	cfg := groupbench.Config{Node: groupNodeVerb, Keys: []int{10, 1000}, Rounds: 5, Moves: 20, Idle: time.Minute}
	use := string(groupbench.Shards)
	cmd := &cobra.Command{
		Use:     "group [flags]",
		Short:   "measure many elections at once: the keys of a group, and elections in a store beside them",
		Long:    groupBenchHelp,
		Example: "  elect bench group --keys 10,100000 --idle 2m\n  elect bench group --keys 10000 --use elections --beside 'native+etcd://127.0.0.1:2379/bench?lease=5s'",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.FromEnvironment(cmd, "election"); err != nil {
				return err
			}
			switch {
			case cfg.Rounds < 0:
				return exit.Usagef("--rounds is %d; want 0 or more", cfg.Rounds)
			case cfg.Promise < 0 || cfg.Promise > 0 && cfg.Promise < 100*time.Millisecond:
				return exit.Usagef("--promise is %v; want at least 100ms, or 0 for the default", cfg.Promise)
			case cfg.Moves < 0:
				return exit.Usagef("--moves is %d; want 0 or more", cfg.Moves)
			case profile != "" && cmd.Flags().Changed("election"):
				return exit.Usagef("--peers and --election are given; want one of them: among whom the coordinator is elected, or where")
			}
			for _, n := range cfg.Keys {
				if n < groupbench.Nodes || n > group.MaxKeys {
					return exit.Usagef("--keys has %d; want %d to %d", n, groupbench.Nodes, group.MaxKeys)
				}
			}
			if profile != "" {
				if err := checkProfile(profile); err != nil {
					return err
				}
			}
			places := groupPlaces{profile: profile, election: p.election}
			for u := range strings.SplitSeq(use, ",") {
				if u := groupbench.Use(u); u == groupbench.Shards || u == groupbench.Elections {
					cfg.Systems = append(cfg.Systems, places.group(u, &p))
					continue
				}
				return exit.Usagef("--use %q; want shards, elections, or both with a comma between them", u)
			}
			for _, b := range beside {
				s, err := besideSystem(b, openers)
				if err != nil {
					return err
				}
				cfg.Systems = append(cfg.Systems, s)
			}
			return onPeers(cmd, func(ctx context.Context, program, dir string, progress func(string, ...any)) error {
				cfg.Program, cfg.Progress, places.dir = program, progress, dir
				defer places.close()
				report, err := groupbench.Run(ctx, cfg)
				if ctx.Err() != nil {
					return err
				}
				return errors.Join(err, places.err, show(cmd, format, report, report.Write))
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.election, "election", "", "`URL` of the place where the coordinator is elected (default: a new directory)")
	f.StringVar(&profile, "peers", "", "elect the coordinator among the members, with the times of the `PROFILE`: lan, fast, wan or calm")
	f.IntSliceVar(&cfg.Keys, "keys", cfg.Keys, "`N` keys, or several numbers with commas between them")
	f.StringVar(&use, "use", use, "`HOW` the keys of the group are led: shards, elections, or both")
	f.StringArrayVar(&beside, "beside", nil, "`URL` of a store for as many elections, again for others")
	f.IntVar(&cfg.Rounds, "rounds", cfg.Rounds, "`N` rounds; 0 measures joining and idle members only")
	f.IntVar(&cfg.Moves, "moves", cfg.Moves, "`N` keys that are moved in a round")
	f.Var(cli.Duration(&cfg.Idle), "idle", "`TIME` to watch idle members; 0 does not watch them")
	f.Var(cli.Duration(&cfg.Promise), "promise", "`TIME` for which the coordinator keeps the keys of a silent member; 0 is the default of groups")
	format.Flag(f)
	return cmd
}

// groupPlaces makes the places of groups, one for each system and number of keys.
type groupPlaces struct {
	dir, profile, election string
	peers                  []*localpeers.Peers
	err                    error
}

// group is a system that is a group. Each setup has a place of its own, which its first node makes.
func (g *groupPlaces) group(use groupbench.Use, p *place) groupbench.System {
	s := groupbench.System{Use: use, Group: true, Shown: "file:"}
	switch {
	case g.profile != "":
		s.Shown = "peers, " + g.profile
	case g.election != "":
		s.Shown = p.shown()
	}
	s.Place = func() (groupbench.Place, error) {
		n := strconv.Itoa(len(g.peers) + 1)
		dir := filepath.Join(g.dir, n)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		if g.profile == "" {
			g.peers = append(g.peers, nil)
			at := g.election
			if at == "" {
				at = (&url.URL{Scheme: "file", OmitHost: true, Path: dir}).String()
			}
			args := []string{"--election", strings.TrimPrefix(at, "group+"), "--name", "bench-" + strconv.Itoa(os.Getpid()) + "-" + n}
			return func(string) []string { return args }, nil
		}
		local, err := localpeers.New(localpeers.Config{Dir: dir, Profile: g.profile, Voters: groupbench.Nodes})
		if err != nil {
			return nil, err
		}
		g.peers = append(g.peers, local)
		return func(id string) []string {
			return []string{"--election", local.URL(id), "--name", "bench"}
		}, nil
	}
	return s
}

func (g *groupPlaces) close() {
	for _, p := range g.peers {
		if p != nil {
			g.err = errors.Join(g.err, p.Close())
		}
	}
}

// besideSystem is a system of elections in a store.
func besideSystem(at string, openers elect.Openers) (s groupbench.System, err error) {
	u, err := elect.ParseURL(at)
	if err != nil {
		return s, exit.Usagef("--beside does not parse as a URL; want one such as etcd://127.0.0.1/bench")
	}
	s = groupbench.System{Use: groupbench.Elections, Shown: redact.Without(u).String()}
	if u.Scheme == groupbench.NativeScheme {
		s.Use = groupbench.Native
		if _, err := groupbench.ParseNative(at); err != nil {
			return s, exit.With(exit.Usage, err)
		}
	} else if openers[u.Scheme] == nil || isGroup(u.Scheme) || u.Scheme == peerScheme {
		return s, exit.Usagef("--beside has the scheme %q; want that of a store, such as etcd, or %s", u.Scheme, groupbench.NativeScheme)
	}
	n := 0
	s.Place = func() (groupbench.Place, error) {
		n++ // elections of another number of keys are others
		args := []string{"--beside", at, "--name", strings.Join([]string{"bench", strconv.Itoa(os.Getpid()), strconv.Itoa(n)}, "-")}
		return func(string) []string { return args }, nil
	}
	return s, nil
}

func newGroupNode(openers elect.Openers) *cobra.Command {
	var p place
	var beside, use string
	var cfg groupbench.NodeConfig
	cmd := &cobra.Command{
		Use: groupNodeVerb, Hidden: true, Args: cli.NoArgs,
		Short: "lead many keys and record what happens (the node of bench group)",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Use, cfg.In, cfg.Out = groupbench.Use(use), os.Stdin, os.Stdout
			log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
			if cfg.Use == groupbench.Shards { // before anything else: this process becomes two
				guardian, err := supervise.Guard(supervise.GuardConfig{Logger: log})
				if err != nil {
					return exit.With(1, err)
				}
				cfg.Guardian = guardian
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			context.AfterFunc(ctx, func() { _ = os.Stdin.Close() })
			switch {
			case beside == "":
				e, err := openers.Open(ctx, p.election, p.name, elect.Config{ID: cfg.ID, Guardian: cfg.Guardian, Logger: log})
				if err != nil {
					return failed.Opening(err)
				}
				cfg.Election = e // which the group owns
			case cfg.Use == groupbench.Native:
				var err error
				if cfg.Endpoint, err = groupbench.ParseNative(beside); err != nil {
					return err
				}
				cfg.Endpoint.Beneath(p.name)
			default:
				u, err := elect.ParseURL(beside)
				if err != nil {
					return err
				}
				cfg.Open = func(ctx context.Context, name string) (driver.Elector, error) {
					return openers[u.Scheme](ctx, driver.Target{URL: u, Name: p.name + "-" + name, ID: cfg.ID, Logger: log})
				}
			}
			if err := groupbench.RunNode(ctx, cfg); err != nil && ctx.Err() == nil {
				return exit.With(1, err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	p.flags(f)
	f.StringVar(&beside, "beside", "", "`URL` of a store")
	f.StringVar(&use, "use", "", "`HOW` the keys are led")
	f.StringVar(&cfg.ID, "id", "", "`ID` of the node")
	f.IntVar(&cfg.Index, "index", 0, "`N` of the node, from 0")
	f.IntVar(&cfg.Nodes, "nodes", 0, "`N` nodes in all")
	f.IntVar(&cfg.Keys, "keys", 0, "`N` keys")
	f.Var(cli.Duration(&cfg.Promise), "promise", "`TIME` of the group's promise")
	return cmd
}
