package main

import (
	"errors"
	"fmt"
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
	"github.com/electd/elect/cmd/elect/internal/cluster"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/cmd/elect/internal/failover"
	"github.com/electd/elect/cmd/elect/internal/stamp"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol"
)

func newBench(openers elect.Openers) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench WHAT",
		Short: "measure takeovers and idle costs on this machine",
		Long:  "Measure elections on this machine. The figures come with the conditions under which\nthey were measured.",
		Args:  cli.VerbOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return exit.Usagef("no verb is given; want elect bench failover, elect bench steady or elect bench group")
		},
		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(newFailover(openers), newSteady(), newGroupBench(openers))
	return cmd
}

const failoverHelp = `Measure takeovers: start candidates, kill the leader, and take the time from just
before the kill to the first instruction of the next leader's command.

The candidates are real elect run processes. On linux/amd64 their command is a program
of some 300 bytes that first reads CLOCK_BOOTTIME. Elsewhere it is elect itself, and
the figures include the start of Go's runtime. A round begins when all other candidates
stand by again. --kill names the kinds:

  child      SIGKILL to the command
  parent     SIGKILL to the elect run that leads
  graceful   the leader is asked to resign, as by elect resign
  freeze     SIGSTOP to the elect run that leads, and SIGCONT when another leads
  machine    SIGKILL to the elect run that leads, its keeper and the command at once
  all        all of them, in turns

freeze and machine are for elections with a lease, as those of stores, on Linux.

Before the rounds bench measures, over --idle, the CPU time that the candidates that
stand by use, and the elect run that leads, by the kernel's own count in nanoseconds.

Without --election it makes a directory in your state directory, on the same disk as
real elections, and removes it. With --election it starts no server, takes the times of
the URL, and leaves an election called bench-PID. With several it measures one after the
other, and shows their medians in one table.
All processes that it has started are dead when it ends.

With --peers N it measures elections among N peers instead, on loopback, with
certificates and the times of --profile. The kinds take turns, round by round:

  elected    SIGKILL to a program that embeds the library and works as soon as it is
             elected, fenced by its token → another one is elected
  child      SIGKILL to the command of elect run → the next command's first instruction
  guarded    SIGKILL to a program under a guardian → another one is active: elected,
             and its lease is proven exclusive
  graceful   a program resigns: its work has returned → another one is active
  parent     SIGKILL to elect run; its keeper kills the command and is the witness →
             the next command's first instruction
  cut        all connections of the leading program are cut → another one is active
  resign     elect resign → the next command's first instruction
  freeze     SIGSTOP to the leading program → another one is active; then SIGCONT
  yielded    a program that works as soon as it is elected resigns: its work has
             returned → another one is elected
  transfer   elect transfer --to: the old command is about to end → the next command's
             first instruction

all does not include one more kind, because a round of it takes many promises:

  rolling    all elect run nodes are restarted by SIGTERM, one after the other, the
             leader last, after a transfer: how long no command was at work, and how
             long an observer saw no leader at other times

A round begins when all nodes are connected and no promise of an earlier incarnation
binds a voter: one promise after a node was restarted. The programs record when they
believed that they led, in freeze and cut without a pause between two checks.
Exit code 1 reports
  - two programs that led at one instant
  - a token that does not rise
  - a command that ran before the previous one had ended
  - in rolling, a time without a leader apart from the transfer

-o json writes one object: election, name, candidates, command, memory_bytes, clock,
go, system, cpus, load_before, load_after, idle {candidates, seconds, mean_percent,
max_percent, leader_percent} and takeovers, a list of {kill, rounds, min_ms, median_ms,
p90_ms, p99_ms, max_ms}, lease_ms and worst_takeover_ms; of several elections a list of
such objects. With --peers: peers, profile, promise_ms, worst_takeover_ms,
security, directory, command, clock, go, system, cpus, load_before, load_after, tenures,
lost, strayed, violations and takeovers, a list of {kill, what, rounds, min_ms,
median_ms, p90_ms, p99_ms, max_ms, stale_ms, beyond_ms (only of rolling), took_ms}.`

func newFailover(openers elect.Openers) *cobra.Command {
	var format cli.Output
	var at []string
	cfg := failover.Config{Idle: 5 * time.Second}
	peers := failover.PeersConfig{Profile: "lan"}
	kill, memory := "all", size(0)
	cmd := &cobra.Command{
		Use:     "failover [flags]",
		Short:   "measure how long a takeover takes",
		Long:    failoverHelp,
		Example: "  elect bench failover\n  elect bench failover --kill child --child-memory 1G --rounds 50\n  elect bench failover --rounds 0 --candidates 200 --idle 20s\n  elect bench failover --rounds 10 --election 'etcd://127.0.0.1/bench?lease=2s&max_hold=1s'\n  elect bench failover --rounds 10 --election redis://10.0.0.1 --election consul://10.0.0.2\n  elect bench failover --peers 3 --profile fast --kill elected,freeze",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var except []string
			if os.Getenv("ELECT_TOKEN") != "" { // the surrounding election must not be measured
				except = append(except, "election")
			}
			if err := cli.FromEnvironment(cmd, except...); err != nil {
				return err
			}
			switch {
			case cfg.Rounds < 0:
				return exit.Usagef("--rounds is %d; want 0 or more", cfg.Rounds)
			case cfg.Candidates < 2 || cfg.Candidates > 1000:
				return exit.Usagef("--candidates is %d; want 2 to 1000", cfg.Candidates)
			}
			var err error
			if peers.Peers != 0 || cmd.Flags().Changed("peers") {
				if err := checkPeers(cmd, &peers); err != nil {
					return err
				}
				if peers.Kills, err = killsNamed(kill, failover.PeerKills(), failover.Rolling); err != nil {
					return err
				}
				peers.Rounds = cfg.Rounds
				return benchPeers(cmd, peers, format)
			}
			if cmd.Flags().Changed("profile") {
				return exit.Usagef("--profile is for --peers; want both or neither")
			}
			// Whether the election has a lease is known when it is open.
			if _, err = killsNamed(kill, failover.Kills(len(at) > 0)); err != nil {
				return err
			}
			cfg.Memory = uint64(memory)
			return benchFailover(cmd, openers, at, kill, cfg, format)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&at, "election", nil, "`URL` of the place of the election, again for others (default: a new directory)")
	f.IntVar(&cfg.Rounds, "rounds", 200, "`N` takeovers of each kind; 0 measures idle candidates only")
	f.StringVar(&kill, "kill", kill, "`KINDS` of takeovers, with commas between them, or all")
	f.Var(&memory, "child-memory", "`SIZE` of the memory that the command touches, such as 512M or 1G")
	f.IntVar(&cfg.Candidates, "candidates", 3, "`N` candidates")
	f.Var(cli.Duration(&cfg.Idle), "idle", "`TIME` to watch idle candidates; 0 does not watch them")
	f.IntVar(&peers.Peers, "peers", 0, "`N` peers, 3 to 9, instead of candidates at a file")
	f.Lookup("peers").DefValue = ""
	f.StringVar(&peers.Profile, "profile", peers.Profile, "`NAME` of the peers' times: lan, fast, wan or calm")
	format.Flag(f)
	return cmd
}

// checkPeers refuses settings that make no sense among peers.
func checkPeers(cmd *cobra.Command, cfg *failover.PeersConfig) error {
	if cfg.Peers < 3 || cfg.Peers > protocol.MaxVoters {
		return exit.Usagef("--peers is %d; want 3 to %d: with fewer no peer can take over", cfg.Peers, protocol.MaxVoters)
	}
	for _, name := range []string{"election", "candidates", "child-memory", "idle"} {
		if cmd.Flags().Changed(name) {
			return exit.Usagef("--%s has no meaning with --peers; want one of them", name)
		}
	}
	return checkProfile(cfg.Profile)
}

func benchFailover(cmd *cobra.Command, openers elect.Openers, at []string, kill string, cfg failover.Config, format cli.Output) (err error) {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if len(at) == 0 {
		dir, err := ownDir()
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		at = []string{(&url.URL{Scheme: "file", OmitHost: true, Path: dir}).String()}
	}
	if cfg.Program, err = cluster.Self(); err != nil {
		return err
	}
	cfg.Fallback = []string{cfg.Program, stampVerb}
	cfg.Progress = func(text string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), "elect: "+text+"\n", args...)
	}
	elections := make([]failover.Config, len(at))
	for i, at := range at { // all are open before the first one is measured
		c, p := cfg, place{election: at, name: "bench-" + strconv.Itoa(os.Getpid())}
		if c.Election, err = p.open(cmd, openers); err != nil {
			return err
		}
		defer c.Election.Close()
		c.URL, c.Shown, c.Name = p.election, p.shown(), p.name
		if c.Kills, err = killsNamed(kill, failover.Kills(c.Election.Limits().Lease > 0)); err != nil {
			return err
		}
		elections[i] = c
	}
	reports := make(failover.Reports, len(at))
	for i, c := range elections {
		if len(at) > 1 {
			c.Progress("%s", c.Shown)
		}
		reports[i], err = failover.Run(ctx, c)
		if ctx.Err() != nil {
			return exit.With(exit.BySignal(syscall.SIGINT), errors.New("interrupted"))
		}
		if err != nil {
			return exit.With(1, err)
		}
	}
	switch {
	case len(at) == 1 && format == "json":
		return cli.WriteJSON(cmd.OutOrStdout(), reports[0])
	case format == "json":
		return cli.WriteJSON(cmd.OutOrStdout(), reports)
	case len(at) == 1:
		return reports[0].Write(cmd.OutOrStdout())
	}
	return reports.Write(cmd.OutOrStdout())
}

// ownDir makes a directory beside this user's elections.
func ownDir() (string, error) {
	state, err := stateDir()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(state), 0o700); err != nil {
		return "", failed.Backend(err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(state), "elect-bench-")
	return dir, failed.Backend(err)
}

// size is the value of a flag: a number of bytes.
type size uint64

func (s *size) String() string {
	if *s == 0 {
		return "0"
	}
	return strconv.FormatUint(uint64(*s), 10)
}

func (s *size) Type() string { return "size" }

func (s *size) Set(text string) error {
	digits := strings.TrimRight(strings.ToUpper(text), "IB")
	shift := 0
	if n := len(digits); n > 0 {
		if i := strings.IndexByte("KMG", digits[n-1]); i >= 0 {
			digits, shift = digits[:n-1], 10*(i+1)
		}
	}
	v, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || v > 1<<40>>shift {
		return errors.New("want a size such as 64M or 1G, at most 1024G")
	}
	*s = size(v << shift)
	return nil
}

// stampVerb is the command of the candidates if no smaller program can be built. It is not for people.
const stampVerb = "bench-stamp"

func newStamp() *cobra.Command {
	return &cobra.Command{
		Use: stampVerb + " BYTES", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "write a record of the time and wait (the command of bench failover)",
		RunE: func(_ *cobra.Command, args []string) error {
			memory, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return exit.Usagef("%q is not a number of bytes", args[0])
			}
			return stamp.Main(memory)
		},
	}
}
