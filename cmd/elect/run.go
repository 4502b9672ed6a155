package main

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/cmd/elect/internal/hook"
	"github.com/electd/elect/cmd/elect/internal/runner"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol/quorum"
)

const runHelp = `Run COMMAND while, and only while, this candidate leads. Start the same line as
often as you like: one candidate runs COMMAND, the others stand by and use next to
no CPU. When COMMAND ends or is killed, or its elect run is killed, every process
that COMMAND left is killed. Then the next candidate's COMMAND starts within
milliseconds, with a greater token. docs/keeper.md lists what a keeper cannot kill
in time. If the lease ends before such a process, the exit code is 84.

COMMAND has in its environment
  ELECT_ELECTION      the URL of the election, with its user and without its password
  ELECT_NAME          the name of the election
  ELECT_ID            the id of this candidate
  ELECT_TOKEN         the token, a decimal number that rises from leader to leader
  ELECT_TOKEN_FIXED   the token with 19 digits, for places that compare strings
  ELECT_LEASE         a file that says until when leadership is proven, on Linux and not
                      with --exclusive=false: elect lease check, docs/lease-page.md

When COMMAND ends by itself, elect run releases leadership at once. Then
  --restart on-failure  it ends after exit code 0, and stands again after any other
                        code and after a signal. This is the default.
  --restart always      it stands again.
  --once                it ends with COMMAND's exit code.
After three failures in a row within a second of their start, elect run stands aside
for 1 s, then 2 s, up to 30 s. A failure is an exit code other than 0 or a signal, but
not SIGKILL, which comes from outside. After SIGPIPE elect run ends with 141 unless
--restart is always: the reader of COMMAND's output is gone.

SIGTERM and SIGINT end elect run. While it stands by, it ends at once, with exit
code 0. While COMMAND runs, COMMAND gets the signal, is killed after --grace, and its
exit code is that of elect run. A second such signal kills it at once, unless it is
the same one within 0.1 s, as from timeout(1). SIGHUP,
SIGQUIT, SIGUSR1, SIGUSR2 and SIGWINCH are passed on. At a terminal COMMAND is in the
foreground and gets Ctrl-C, Ctrl-\ and Ctrl-Z itself. If Ctrl-C ends COMMAND, elect
run ends too.

Among peers, --id names the voter of the URL that this candidate is. --profile,
--promise, --heartbeat, --data, --listen, --certs, --insecure, --join, --priority and
--position are also parameters of the URL; the flag overrides the parameter. elect run
prints at its start what the times promise. The first start of an election needs all
voters once. After that a majority is enough. An elect run that ends does not vote any
more. With --once, or if COMMAND ends with 0, too few voters are left sooner or later:
use --restart always. With --exclusive=false no keeper ends COMMAND at the end of the
lease: from then on only its token keeps its writes out. protocol=NAME in the URL
selects a protocol without leases (docs/peers.md). It needs --exclusive=false.

--contain says how COMMAND and all that it starts are held together:
  cgroup  in a cgroup (v2) of their own, below that of elect run. The kernel kills
          them at once. If elect run and its keeper were both killed, the next elect
          run of that name kills what they left. This needs root or a delegated
          cgroup, and Linux 5.14. Exit code 72: stderr says what is missing.
  pid     the keeper is the init of a pid namespace, with a /proc of its own, in which
          COMMAND sees itself alone. The kernel kills all in it when the keeper dies,
          even if elect run was killed, too. There is a cgroup as well where that
          works. This needs CAP_SYS_ADMIN, or user namespaces for an ordinary user, in
          which set-uid programs get no rights. Exit code 72: stderr says what is
          missing.
  sweep   the keeper finds the processes and kills them one by one.
  auto    cgroup where it works, else sweep. This is the default.

--limit bounds what COMMAND and all that it starts may use together. The value is
written to the file NAME.max of their cgroup: memory=2G, pids=100, memory.swap=0. At
its limit of memory the kernel kills all of them. It needs the level cgroup and
cgroups of version 2 that have this controller, delegated if need be (systemd:
Delegate=yes). elect run must be alone in its cgroup, and moves itself to a new one
below it, elect-supervisors. Exit code 72: stderr says what is missing.

--guard network has the kernel drop what COMMAND and all that it starts send over IP
after the lease, even if elect and its keeper are frozen or dead. Without a lease
(file:) the guard closes when the keeper lets go, or when elect and keeper are both
dead. It needs the level cgroup, Linux 5.15, CAP_BPF and CAP_NET_ADMIN; exit code 72
says what is missing. With network,optional a line says so, and COMMAND runs without.
--guard-allow names where packets may still go after the lease, until COMMAND and all
that it has started are dead: an address, or an address and a port of TCP or UDP
(10.0.0.9:514), at most 64. Unix sockets, files and packet sockets are not covered:
docs/containment.md.

--address gives this machine an address while it leads, on Linux. It is added and
announced before COMMAND starts (ARP, IPv6 neighbour discovery), and removed before
COMMAND is stopped and before the lease ends, even if elect is frozen or dead. If elect
and its keeper are killed together, the kernel drops its packets at once, and the next
elect run with that address here removes it. It needs CAP_NET_ADMIN, CAP_NET_RAW and
CAP_BPF; exit code 72 says what is missing. docs/address.md has more.

Root refuses a place and a --data directory that other users can write to (exit code
73), unless --shared-place says that these users are trusted. Links below the place
are not followed.

--priority orders peers: of those that stand by, the one with the greatest priority
is elected first. A leader hands over by itself to a peer with a greater priority
when that peer has been fit for five promises and the leader has led for ten. With
--priority never a peer only votes.

--position says what a peer's position in a log counts for, if COMMAND writes the log
and the other peers copy it:
  ignore   nothing. This is the default.
  prefer   a peer that is behind waits two promises for those that are ahead.
  require  no voter elects a peer that is behind the voter.
--position-command prints the position in one line. It runs every --position-every,
before this peer stands, and when the leader is gone. It is killed after 5 s. While
it fails, the last position counts. Numbers in positions are compared as decimal
numbers. So the position of a PostgreSQL server is not its LSN, but the bytes up to it:
  psql -AtXc "SELECT pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery()
    THEN GREATEST(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())
    ELSE pg_current_wal_lsn() END, '0/0')"
--catch-up-command runs while only its position keeps this peer from leading. It is
killed when there is a leader. Both commands have ELECT_ELECTION, ELECT_NAME and
ELECT_ID in their environment.

--health-command makes this candidate give way while it is ill. It runs every
--health-every, from the start on, and is killed after --health-timeout. After
--health-failures in a row this candidate is ill: it stands aside, and as a leader it
stops COMMAND and hands over. After --health-successes in a row it is well. The first
run of all decides alone. A leader that has given way rests for --rest, and each further
time for twice as long, up to --longest-rest. If nobody leads for 10 s and the time of a
takeover, one that is ill or rests leads after all, for as long, unless --when-all-ill is
none, which does not apply to an ill disk of a peer. The command has ELECT_ELECTION,
ELECT_NAME and ELECT_ID in its environment. All that it leaves is killed; at the level
sweep what has called setsid goes on.

With --losses a candidate that has lost leadership so often within --losses-window, as on
a bad network, rests, too, and is ill for that time. If nobody else leads it stands.

On Linux COMMAND may speak sd_notify(3): it finds a socket in NOTIFY_SOCKET, and with
--watchdog the time in WATCHDOG_USEC. If it does not say WATCHDOG=1 for --watchdog, or
READY=1 within --wait-ready, or says WATCHDOG=trigger, this leader is ill, as by
--health-command. With --wait-ready, the watchdog does not count until READY=1, and
/leader of --http answers 503. --prepare runs while this candidate stands by, and again
when it fails, after 1 s up to 30 s. It is stopped before COMMAND starts: SIGTERM, and
SIGKILL a second later. If elect run itself has NOTIFY_SOCKET, it reports its state to
that service manager, and hides the variable from COMMAND. docs/notify.md has more.

--http serves the state of this candidate and its leader: GET /leader, /follower, /livez,
/readyz, /v1/elections/NAME, /v1/elections/NAME/watch, /metrics for Prometheus,
/openapi.json, and with --http-sidecar / as the leader-elector sidecar of Kubernetes did.
In a group GET /v1/groups/NAME/keys/KEY says who holds any key of it.
The address is on loopback (127.0.0.1:4040) or a Unix socket (unix:PATH) that only this
user can open; any other needs --http-cert and --http-key. On loopback without them the
Host of a request must be localhost, an address of loopback or that of --http. One
process at a time listens on PATH, and holds a lock on PATH.lock. POST …/resign and
…/transfer need the token of --http-token-file, or the Unix socket. With port 0 the
system chooses a port; a line on stderr has it. --listen is the address for peers. If it
cannot listen, elect run ends before it stands, with 69, or 73 where permission is
missing. docs/http.md has more.

elect run writes messages for people to stderr, which COMMAND inherits. --log-time
puts the time before each line. With --log-format json each line is an object with
time, level and msg. An event also has event, election, id, place and any token.
The event elected has contain, the level, and with --guard guard: network or none;
lost has the reason.

Each flag has an environment variable: ELECT_NAME for --name, and so on. If
ELECT_TOKEN is set, this elect run is inside another one. Then it ignores the
inherited ELECT_ELECTION, ELECT_NAME and ELECT_ID and the variables of --exclusive,
of the flags for peers and of --http: they describe the outer election.

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
	var health healthFlags
	var notify notifyFlags
	var server httpFlags
	exclusive := true
	cfg := runner.Config{Openers: openers, Wait: runner.NoLimit, Grace: supervise.DefaultGrace, Stdin: os.Stdin}
	restart := runner.OnFailure.String()
	contain, guard := supervise.Auto.String(), ""
	var allow, addresses []string
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
			if cfg.Restart, err = runner.ParseRestart(restart); err != nil {
				return exit.With(exit.Usage, err)
			}
			if cfg.Contain, err = supervise.ParseLevel(contain); err != nil {
				return exit.With(exit.Usage, err)
			}
			if cfg.Guard, err = runner.ParseGuard(guard); err != nil {
				return exit.With(exit.Usage, err)
			}
			for _, text := range allow {
				to, err := runner.ParseAllow(text)
				if err != nil {
					return exit.With(exit.Usage, err)
				}
				cfg.Allow = append(cfg.Allow, to)
			}
			if len(allow) > 0 && cfg.Guard == runner.Unguarded {
				return exit.Usagef("--guard-allow has no effect without --guard; want --guard network, too")
			}
			if !exclusive && cfg.Guard != runner.Unguarded {
				return exit.Usagef("--guard and --exclusive=false contradict each other: there is no lease at whose end a guard could close; want one of them")
			}
			if len(addresses) == 0 && cmd.Flags().Changed("address") {
				return exit.Usagef("--address is blank; want ADDRESS/BITS@INTERFACE, or the flag left out")
			}
			for _, text := range addresses {
				a, err := supervise.ParseAddress(text)
				if err != nil {
					return exit.With(exit.Usage, err)
				}
				cfg.Addresses = append(cfg.Addresses, a)
			}
			if !exclusive && len(addresses) > 0 {
				return exit.Usagef("--address and --exclusive=false contradict each other: there is no lease at whose end the address would leave; want one of them")
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
			hooks := hook.Command{
				Env:         []string{"ELECT_ELECTION=" + cfg.Shown, "ELECT_NAME=" + cfg.Name, "ELECT_ID=" + cfg.ID},
				Containment: &atomic.Pointer[supervise.Containment]{},
				Observe: func(name string, took time.Duration) {
					if cfg.HTTP != nil {
						cfg.HTTP.Metrics.ObserveHook(name, took)
					}
				},
			}
			cfg.Contained = hooks.Containment.Store
			cfg.Openers = positions.openers(openers, hooks)
			if err := notify.complete(&cfg, hooks); err != nil {
				return err
			}
			if cfg.Health, err = health.health(hooks, cfg.Watchdog > 0 || cfg.WaitReady > 0); err != nil {
				return err
			}
			if cfg.Path, err = lookPath(args[0]); err != nil {
				return err
			}
			if p.isPeer() {
				cfg.Openers, cfg.Introduce = introducing(cfg.Openers)
			}
			cfg.NonExclusive = !exclusive
			cfg.Grace = max(cfg.Grace, 1) // 0 would be the supervisor's default; here it means none
			of := electhttp.Config{Name: cfg.Name, ID: cfg.ID, Election: cfg.Shown}
			if isGroup(cfg.URL) {
				groups := newLookups(openers)
				defer groups.close()
				groups.set([]string{cfg.URL})
				of.Groups = groups
			}
			if cfg.HTTP, err = server.listen(of); err != nil {
				return err
			}
			return runner.Run(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // the arguments after COMMAND belong to COMMAND
	p.flags(f)
	f.Lookup("name").Usage = "`NAME` of the election (default: COMMAND's base name)"
	f.StringVar(&cfg.ID, "id", "", "`ID` of this candidate, which no other has (default: host:pid; among peers required: one of the voters)")
	f.StringVar(&restart, "restart", restart, "`POLICY`, on-failure or always: when to stand again after COMMAND has ended")
	f.BoolVar(&cfg.Once, "once", false, "run COMMAND once and exit with its code; 75 if leadership is lost")
	f.Var(cli.Duration(&cfg.Wait), "wait", "give up standing by after this `TIME`, with exit code 124; 0 tries once (default: no limit)")
	f.Lookup("wait").DefValue = ""
	f.Var(cli.Duration(&cfg.Grace), "grace", "`TIME` between SIGTERM and SIGKILL")
	f.StringVar(&contain, "contain", contain, "`LEVEL` of holding COMMAND and all that it starts together: auto, sweep, cgroup or pid")
	_ = cmd.RegisterFlagCompletionFunc("contain", cobra.FixedCompletions([]string{"auto", "sweep", "cgroup", "pid"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	f.StringVar(&guard, "guard", "", "`WHAT` of COMMAND the kernel stops at the end of the lease, even if elect is frozen or dead: network, or network,optional")
	_ = cmd.RegisterFlagCompletionFunc("guard", cobra.FixedCompletions([]string{"network", "network,optional"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	f.StringSliceVar(&allow, "guard-allow", nil, "`ADDRESS[:PORT]` to which packets may go after the lease; may be given several times, at most 64")
	f.StringSliceVar(&addresses, "address", nil, "`ADDRESS/BITS@INTERFACE` that this machine has while it leads, such as 192.0.2.10/24@eth0; may be given several times, at most 16")
	f.StringSliceVar(&cfg.Limits, "limit", nil, "`NAME=VALUE` of a limit of COMMAND and all that it starts, such as memory=2G; may be given several times")
	f.BoolVar(&exclusive, "exclusive", true, "start COMMAND only when leadership is proven exclusive; =false if its token fences all that it does")
	peers.flags(f)
	positions.flags(f)
	health.flags(f)
	notify.flags(f)
	server.flags(f)
	_ = cmd.RegisterFlagCompletionFunc("when-all-ill", cobra.FixedCompletions([]string{"lead", "none"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	// the flag exists
	_ = cmd.RegisterFlagCompletionFunc("position", cobra.FixedCompletions([]string{"ignore", "prefer", "require"}, cobra.ShellCompDirectiveNoFileComp))
	// the flag exists
	_ = cmd.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(profiles(), cobra.ShellCompDirectiveNoFileComp))
	logFormat.flag(cmd)
	f.BoolVar(&cfg.Time, "log-time", false, "begin each line of text with the time; json always has it")
	f.BoolVarP(&cfg.Verbose, "verbose", "v", false, "log internal events to stderr, too")
	return cmd
}

// logFormat is the value of --log-format.
type logFormat string

func (f *logFormat) String() string { return string(*f) }
func (f *logFormat) Type() string   { return "format" }

// flag adds the flag to a command.
func (f *logFormat) flag(cmd *cobra.Command) {
	cmd.Flags().Var(f, "log-format", "`FORMAT` of the messages on stderr: text, for people, or json, one object a line")
	// the flag exists
	_ = cmd.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

// Set implements pflag.Value.
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
		except = append(except, "election", "name", "id", "exclusive", "limit", "address") // those of the outer run hold
		except = append(except, peerFlagNames[:]...)
		except = append(except, positionFlagNames[:]...)
		except = append(except, healthFlagNames[:]...)
		except = append(except, restFlagNames[:]...)
		except = append(except, notifyFlagNames[:]...)
		except = append(except, httpFlagNames[:]...)
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
