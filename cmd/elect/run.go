package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/cmd/elect/internal/runner"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol/quorum"
)

const runHelp = `Run COMMAND while, and only while, this candidate leads. Start the same line as
often as you like: one of them runs COMMAND, the others stand by and use next to
no CPU. When COMMAND ends or is killed, or the elect above it is, every process
that COMMAND left is killed, and the next candidate's COMMAND starts within
milliseconds, with a greater token. docs/keeper.md says what no keeper can kill
in time; where a lease ends first, exit code 84 says so.

COMMAND finds in its environment
  ELECT_ELECTION      the election's URL, without credentials
  ELECT_NAME          the election's name
  ELECT_ID            this candidate's id
  ELECT_TOKEN         the token, a decimal number that rises from leader to leader
  ELECT_TOKEN_FIXED   the same with 19 digits, for places that compare strings

When COMMAND ends by itself, leadership is given up at once. With --restart
on-failure this elect ends after exit code 0, and stands again after any other
code and after a signal; with --restart always it stands again in any case; with
--once it ends in any case, with COMMAND's exit code. After three failures in a
row within a second of their start, by exit code or by signal, it stands aside
for 1 s, then 2 s, up to 30 s. SIGKILL is not counted: others send it. After
SIGPIPE it ends with 141, unless --restart is always: who read COMMAND's output
has gone, and would not come back.

SIGTERM and SIGINT end it: at once with 0 while it stands by; else they are
passed on to COMMAND, which is killed after --grace, and its exit code is passed
on. A second one kills at once. SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGWINCH
are passed on. At a terminal COMMAND is in the foreground, and Ctrl-C, Ctrl-\ and
Ctrl-Z are its own; if it ends by Ctrl-C, so does elect.

Among peers, --id says which of the voters of the URL this one is. --profile,
--promise, --heartbeat, --data, --listen, --certs, --insecure, --join, --priority and
--position are parameters of the URL, too, and the flag wins. What the times promise is said at the start. The
first start of an election needs all its voters once, and from then on a majority.
An elect run that ends takes its vote along: with --once, and with a COMMAND that
ends with 0, fewer voters stay than are needed, sooner or later. There want
--restart always. With --exclusive=false no keeper ends COMMAND at the end of the
lease: what it does then is held back by its token alone. protocol=NAME in the URL
elects by a protocol without leases (docs/peers.md), and needs --exclusive=false.

--contain cgroup puts COMMAND into a cgroup (v2) of its own, in that of elect run: the
kernel kills all in it at once, and the next elect run of that name kills what is in
it if both supervisors were killed. It needs root or a delegated cgroup, and Linux
5.14; exit code 72 says what is missing. With sweep the keeper looks for the
processes and kills them one by one. auto, the default, is cgroup where it works.

--guard network has the kernel drop what COMMAND and all that it starts send over IP
after the lease, even if elect and its keeper are frozen or dead. Without a lease
(file:) the guard closes when the keeper lets go, or when elect and keeper are both
dead. It needs the level cgroup, Linux 5.15, CAP_BPF and CAP_NET_ADMIN; exit code 72
says what is missing. With network,optional a line says so, and COMMAND runs without.
Unix sockets, files and packet sockets are not covered: docs/containment.md.

Root refuses a place, and a --data, that other users can write to, with 73, unless
--shared-place says that they are trusted. No link below the place is followed.

--priority says how gladly a peer leads: of those that stand by the greatest comes
first, and a leader hands over by itself to a greater one that has been fit for
five promises, after ten of its own. never is for one that votes and never leads.

--position prefer or require has a peer's position count, in a log that COMMAND
writes and the others copy. --position-command prints it in one line; it is run
every --position-every, before this peer stands and when its leader has gone, and
killed after 5 s; while it fails the last position counts. Numbers in positions
are compared as decimal numbers, so that of a PostgreSQL server is not its LSN
but the bytes up to it:
  psql -AtXc "SELECT pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery()
    THEN GREATEST(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())
    ELSE pg_current_wal_lsn() END, '0/0')"
With prefer, one that is behind waits for a while for those that are ahead; with
require it is not elected by anybody who is ahead of it. --catch-up-command is run
for one that only its position keeps from leading, and killed when somebody leads.
These commands find ELECT_ELECTION, ELECT_NAME and ELECT_ID in their environment.

What elect says on stderr is for people. --log-time puts the time before each line.
With --log-format json each line is an object with time, level and msg; what happens
has event, election, id, place and, where there is one, token, too. COMMAND's own
stderr is the same file.

Each flag has a variable: ELECT_NAME for --name, and so on. Inside an elect run,
where ELECT_TOKEN is set, the inherited ELECT_ELECTION, ELECT_NAME and ELECT_ID,
and those of --exclusive and of the flags for peers, are about the election
outside, and are ignored.

Exit codes: COMMAND's own, 128+n if signal n killed it, and those of
"elect help exit-codes".`

const runExample = `  elect run -- ./scheduler
  elect run --election file:/var/lib/elect --name nightly --restart always -- ./nightly.sh
  elect run --election 'peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400' \
            --certs /etc/elect/certs --id n1 -- ./scheduler
  elect run --once --wait 0 -- ./report      # in a crontab, one of several on this machine`

func newRun(openers elect.Openers) *cobra.Command {
	var p place
	var peers peerFlags
	var positions positionFlags
	exclusive := true
	cfg := runner.Config{Openers: openers, Wait: runner.NoLimit, Grace: supervise.DefaultGrace}
	restart := supervise.OnFailure.String()
	contain, guard := supervise.Auto.String(), ""
	logFormat := logFormat("text")
	cmd := &cobra.Command{
		Use:     "run [flags] -- COMMAND [ARG…]",
		Short:   "run COMMAND while, and only while, leading",
		Long:    runHelp,
		Example: runExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := runSettings(cmd, &cfg); err != nil {
				return err
			}
			var err error
			if cfg.Restart, err = supervise.ParseRestart(restart); err != nil {
				return exit.With(exit.Usage, err)
			}
			if cfg.Contain, err = supervise.ParseLevel(contain); err != nil {
				return exit.With(exit.Usage, err)
			}
			if cfg.Guard, err = runner.ParseGuard(guard); err != nil {
				return exit.With(exit.Usage, err)
			}
			if !exclusive && cfg.Guard != runner.Unguarded {
				return exit.Usagef("--guard and --exclusive=false contradict each other: there is no lease at whose end a guard could close; want one of them")
			}
			if len(args) == 0 || args[0] == "" {
				return exit.Usagef("no command to run; want elect run [flags] -- COMMAND [ARG…]")
			}
			if p.name == "" && !cmd.Flags().Changed("name") {
				if p.name = filepath.Base(args[0]); driver.CheckName(p.name) != nil {
					return exit.Usagef("the command %q cannot name an election; want --name, such as --name nightly", args[0])
				}
			}
			if err := driver.CheckName(p.name); err != nil {
				return exit.With(exit.Usage, err)
			}
			if err := p.resolve(openers); err != nil {
				return err
			}
			if err := peers.merge(&p); err != nil {
				return err
			}
			if err := positions.check(&p); err != nil {
				return err
			}
			given := cfg.ID != "" || cmd.Flags().Changed("id")
			if !given {
				cfg.ID = elect.DefaultID()
			}
			if err := driver.CheckID(cfg.ID); err != nil {
				return exit.With(exit.Usage, err)
			}
			if p.isPeer() {
				plan, err := p.candidate(cfg.ID, given)
				if err != nil {
					return err
				}
				if exclusive && plan.Lease == 0 {
					return exit.Usagef("protocol=%s proves no lease, so that COMMAND may run twice at the same time; want protocol=%s, or --exclusive=false if all that COMMAND does is fenced by its token", plan.Protocol, quorum.Name)
				}
			}
			cfg.JSON = logFormat == "json"
			cfg.URL, cfg.Shown, cfg.Name, cfg.Args = p.election, p.shown(), p.name, args
			cfg.Openers = positions.openers(openers, []string{"ELECT_ELECTION=" + cfg.Shown, "ELECT_NAME=" + cfg.Name, "ELECT_ID=" + cfg.ID})
			if cfg.Path, err = lookPath(args[0]); err != nil {
				return err
			}
			if p.isPeer() {
				cfg.Openers, cfg.Introduce = introducing(cfg.Openers)
			}
			cfg.NonExclusive = !exclusive
			cfg.Grace = max(cfg.Grace, 1) // 0 would be the supervisor's default; here it means none
			return runner.Run(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // the arguments after COMMAND belong to COMMAND
	p.flags(f)
	f.Lookup("name").Usage = "`NAME` of the election (default: COMMAND's base name)"
	f.StringVar(&cfg.ID, "id", "", "`ID` of this candidate, different from the others' (default: host:pid; peers: want one of the voters)")
	f.StringVar(&restart, "restart", restart, "stand again after COMMAND ended: on-failure or always")
	f.Lookup("restart").Usage = "`POLICY`, on-failure or always: when to stand again after COMMAND ended"
	f.BoolVar(&cfg.Once, "once", false, "run COMMAND once and exit with its code; 75 if leadership is lost")
	f.Var(cli.Duration(&cfg.Wait), "wait", "give up standing by after this `TIME`, with exit code 124; 0 tries once (default: never)")
	f.Lookup("wait").DefValue = ""
	f.Var(cli.Duration(&cfg.Grace), "grace", "`TIME` between SIGTERM and SIGKILL")
	f.StringVar(&contain, "contain", contain, "`LEVEL` at which COMMAND and all that it starts are held together: auto, sweep or cgroup")
	_ = cmd.RegisterFlagCompletionFunc("contain", cobra.FixedCompletions([]string{"auto", "sweep", "cgroup"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	f.StringVar(&guard, "guard", "", "`WHAT` of COMMAND the kernel stops at the end of the lease, whoever is frozen or dead: network, or network,optional")
	_ = cmd.RegisterFlagCompletionFunc("guard", cobra.FixedCompletions([]string{"network", "network,optional"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	f.BoolVar(&exclusive, "exclusive", true, "start COMMAND only when leadership is proven exclusive; =false when all it does is fenced by its token")
	peers.flags(f)
	positions.flags(f)
	// the flag exists
	_ = cmd.RegisterFlagCompletionFunc("position", cobra.FixedCompletions([]string{"ignore", "prefer", "require"}, cobra.ShellCompDirectiveNoFileComp))
	// the flag exists
	_ = cmd.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(profiles(), cobra.ShellCompDirectiveNoFileComp))
	f.Var(&logFormat, "log-format", "`FORMAT` of what elect says on stderr: text, for people, or json, an object a line")
	// the flag exists
	_ = cmd.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	f.BoolVar(&cfg.Time, "log-time", false, "begin each line of text with the time; json has it in any case")
	f.BoolVarP(&cfg.Verbose, "verbose", "v", false, "log what happens inside, to stderr")
	return cmd
}

// logFormat is the value of --log-format.
type logFormat string

func (f *logFormat) String() string { return string(*f) }
func (f *logFormat) Type() string   { return "format" }
func (f *logFormat) Set(text string) error {
	if text != "text" && text != "json" {
		return exit.Usagef("want text or json")
	}
	*f = logFormat(text)
	return nil
}

// runSettings takes from the environment what no flag sets. A flag overrules a variable that contradicts it.
func runSettings(cmd *cobra.Command, cfg *runner.Config) error {
	f := cmd.Flags()
	var except []string
	if os.Getenv("ELECT_TOKEN") != "" {
		except = append(except, "election", "name", "id", "exclusive")
		except = append(except, peerFlagNames[:]...)
		except = append(except, positionFlagNames[:]...)
	}
	once, restart := f.Changed("once"), f.Changed("restart")
	switch {
	case once && restart && cfg.Once:
		return exit.Usagef("--once and --restart contradict each other: --once never stands again; want one of them")
	case once:
		except = append(except, "restart")
	case restart:
		except = append(except, "once")
	}
	if err := cli.FromEnvironment(cmd, except...); err != nil {
		return err
	}
	if !once && !restart && cfg.Once && os.Getenv("ELECT_RESTART") != "" {
		return exit.Usagef("ELECT_ONCE and ELECT_RESTART contradict each other; want one of them")
	}
	return nil
}

// lookPath finds the command, and returns its visible errors before standing: a candidate that cannot run it must not
// win.
func lookPath(name string) (string, error) {
	path, err := supervise.LookPath(name)
	if err == nil {
		err = executable(path)
	}
	if refused, ok := errors.AsType[*supervise.StartError](err); ok {
		return "", exit.With(refused.ExitCode(), refused)
	}
	return path, err
}
