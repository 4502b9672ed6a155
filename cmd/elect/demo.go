package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/electd/elect/cmd/elect/internal/cluster"
	"github.com/electd/elect/cmd/elect/internal/demo"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

const demoHelp = `Show what elect does: three nodes on this machine elect a leader, which runs a job that
must never run twice at a time, and you break them.

Each node is an elect run of its own, with a certificate, on loopback. The job writes to
a log. At a terminal you see the leader, its token, and how its lease runs down and is
renewed. Keys kill, pause and cut off nodes; ? lists the keys. Without a terminal, or
with --plain, a script does this in about 20 seconds and reports it line by line. At the
end demo reads the log and prints how often two jobs ran at once.

--web shows the same as a page for a browser, with the lanes, the log and the buttons of
electlab page, and prints its address. What you see is real: it can be wound back, and
several pages may watch. Only this machine can connect, and only with the address in full,
which has a secret in it.

demo needs no network and works in a temporary directory. It leaves nothing behind
unless --keep is given, which also prints how to go on by hand.

elect demo zombie takes a second and shows something else: a leader that writes after
its lease has ended, and the token that stops it.

Exit codes: 0 all went as it should; 1 it did not; 130 after Ctrl-C.`

func newDemo() *cobra.Command {
	cfg := demo.Config{JobVerb: jobVerb, SweepVerb: sweepVerb, Profile: "lan", Pause: 1500 * time.Millisecond}
	plain, web, addr := false, false, "127.0.0.1:0"
	cmd := &cobra.Command{
		Use:   "demo [flags]",
		Short: "show three nodes, a job that must not run twice at a time, and keys to break them",
		Long:  demoHelp,
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.FromEnvironment(cmd, "profile"); err != nil { // ELECT_PROFILE is for real elections
				return err
			}
			if !slices.Contains(profiles(), cfg.Profile) {
				return exit.Usagef("--profile %q; want lan, fast, wan or calm", cfg.Profile)
			}
			switch {
			case web && plain:
				return exit.Usagef("--web and --plain contradict each other; want one of them")
			case !web && cmd.Flags().Changed("listen"):
				return exit.Usagef("--listen has no effect without --web; want --web, too")
			}
			var err error
			if cfg.Program, err = cluster.Self(); err != nil {
				return err
			}
			cfg.Command = typed(cfg.Program)
			cfg.Out, cfg.Colour, cfg.ASCII = cmd.OutOrStdout(), cli.Colour(os.Stdout), !unicode()
			play := demo.Script
			switch {
			case web:
				play = demo.Web
				if cfg.Listener, err = listenLoopback(addr); err != nil {
					return err
				}
			case !plain && onTerminal():
				cfg.Terminal, play = os.Stdout, demo.Live
			}
			return playDemo(cmd.Context(), cfg, play)
		},
	}
	cmd.AddCommand(newZombie())
	f := cmd.Flags()
	f.BoolVar(&plain, "plain", false, "run the script without a picture, at a terminal, too")
	f.BoolVar(&web, "web", false, "show it as a page for a browser, until Ctrl-C")
	f.StringVar(&addr, "listen", addr, "`HOST:PORT` of loopback to serve the page of --web on; port 0 is any that is free")
	f.BoolVar(&cfg.Keep, "keep", false, "keep the directory, and print how to go on by hand")
	f.StringVar(&cfg.Profile, "profile", cfg.Profile, "the nodes' `PROFILE`: lan, fast, wan or calm")
	f.Var(cli.Duration(&cfg.Pause), "pause", "`TIME` between two steps of the script")
	return cmd
}

// listenLoopback listens where only this machine can connect.
func listenLoopback(addr string) (net.Listener, error) {
	to, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, exit.Usagef("--listen %q: %w; want HOST:PORT, such as 127.0.0.1:4040", addr, err)
	}
	if !to.IP.IsLoopback() {
		return nil, exit.Usagef("--listen %s is not on loopback; want 127.0.0.1:PORT", addr)
	}
	l, err := net.ListenTCP("tcp", to)
	if err != nil {
		return nil, exit.With(1, fmt.Errorf("--listen: %w", err))
	}
	return l, nil
}

// built matches the places where go run puts a program: a directory that is removed when the program ends, and from
// the second time on one of its cache.
var built = regexp.MustCompile(`/go-build[0-9]+/b[0-9]+/exe/[^/]+$|/[0-9a-f]{64}-d/[^/]+$`)

// typed is how a person would call this program.
func typed(program string) string {
	if built.MatchString(filepath.ToSlash(program)) {
		return "go run ./cmd/elect"
	}
	return "elect"
}

// playDemo plays until the demo is over or a signal ends it.
func playDemo(ctx context.Context, cfg demo.Config, play func(context.Context, demo.Config) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	var ended stoppedBy
	go func() {
		select {
		case sig := <-signals:
			cancel(stoppedBy{sig.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	err := play(ctx, cfg)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, demo.ErrInterrupted):
		return exit.Silent(exit.BySignal(syscall.SIGINT))
	case errors.As(err, &ended) && cfg.Listener != nil && ended.signal == syscall.SIGINT: // as the page's address says
		return exit.Silent(exit.BySignal(ended.signal))
	case errors.As(err, &ended):
		return exit.With(exit.BySignal(ended.signal), errors.New("interrupted"))
	}
	return exit.With(1, err)
}

// stoppedBy is the signal that ended the demo.
type stoppedBy struct{ signal syscall.Signal }

func (s stoppedBy) Error() string { return "ended by signal: " + s.signal.String() }

// onTerminal reports whether a person can see and type, on a terminal that can show a picture.
func onTerminal() bool {
	return os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != "" && term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
}

// unicode reports whether the terminal can show more than ASCII: it can unless the locale names another character
// set.
func unicode() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(os.Getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}

// The verbs of the processes that the demo starts beside elect run. They are not for people.
const (
	jobVerb   = "demo-job"
	sweepVerb = "demo-sweep"
)

func newJob() *cobra.Command {
	return &cobra.Command{
		Use: jobVerb + " LOG", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "append to a log until killed (the job of demo)",
		RunE:  func(_ *cobra.Command, args []string) error { return exit.With(1, demo.Job(args[0])) },
	}
}

func newSweep() *cobra.Command {
	return &cobra.Command{
		Use: sweepVerb + " DIR", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "clean up after demo was killed",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := demo.Sweep(args[0]); err != nil {
				return exit.With(1, err)
			}
			return nil
		},
	}
}
