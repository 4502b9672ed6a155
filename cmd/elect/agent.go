package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // for transfers at a time of day, also where the system has none

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/cmd/elect/internal/config"
	"github.com/electd/elect/cmd/elect/internal/runner"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	safe "github.com/electd/elect/internal/place"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/peer"
)

const agentHelp = `Stand in several elections in one process, as a YAML file says: each with a command
that runs while, and only while, this candidate leads, with hooks at the steps of a
term, with both or with neither; with one HTTP server and one page of metrics for all.

  elections:
    - name: scheduler
      election: peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400?certs=/etc/elect/certs
      id: n1
      command: [/usr/local/bin/scheduler]
      hooks:
        gate: /usr/local/bin/may-stand
        fence: {run: /usr/local/bin/isolate-previous, limit: 30s}
        activate: /usr/local/bin/mount-data
        demote: /usr/local/bin/unmount-data
  http: {listen: 127.0.0.1:4040}

A command runs as under elect run: elect run --help. The hooks of a term run in this
order: gate, again and again, also while it stands by; fence, which makes sure that the
previous leader does nothing more, and without whose success leadership is given back;
activate; the command; on-elected. At the end: cut; the end of the command; demote,
before the lease ends; on-lost. Each is killed with all that it has started when its
limit is over. docs/agent.md says what follows when one fails.

With transfer: {at: '02:30', days: [sun]} a leader hands over at that time of day, in
UTC or in its zone, among peers and in groups. With tenure: 10m neither transfer, nor a
request over HTTP, nor a greater priority of a peer ends a term before that.

SIGHUP reads the file again. An election that has not changed goes on, and keeps its
leadership; one that has changed is ended and begun anew. If the file is wrong, nothing
changes. The settings of http, state and watchdog are read at the start only. SIGTERM
and SIGINT end all elections; a second one kills their commands.

"elect agent maintenance" has all elections of this agent stand aside, until it is off.
"elect agent validate" checks a file, and "elect agent schema" prints the JSON schema of
such files, for editors.`

func newAgent(openers elect.Openers) *cobra.Command {
	path, format := "", logFormat("text")
	logTime, verbose := false, false
	cmd := &cobra.Command{
		Use:     "agent --config FILE",
		Short:   "stand in several elections, with commands and hooks",
		Long:    agentHelp,
		Example: "  elect agent --config /etc/elect/agent.yaml\n  elect agent validate --config /etc/elect/agent.yaml",
		Args:    cli.VerbOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			return runAgent(cmd, openers, path, runner.AgentConfig{JSON: format == "json", Time: logTime, Verbose: verbose})
		},
	}
	from := func(cmd *cobra.Command) *cobra.Command {
		cmd.Flags().StringVar(&path, "config", "", "`FILE` with the configuration, in YAML (required)")
		return cmd
	}
	from(cmd)
	format.flag(cmd)
	cmd.Flags().BoolVar(&logTime, "log-time", false, "begin each line of text with the time; json always has it")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "log internal events to stderr, too")
	cmd.AddCommand(
		from(&cobra.Command{
			Use: "validate --config FILE", Short: "check a configuration, and start nothing", Args: cli.NoArgs,
			Long: "Check a configuration, and start nothing: its form, URLs, ids and times, and whether its commands\nare there. Each error has a line on stderr with the file, the line, the column and the field, and what\nwould be right. The exit code is then 64.",
			RunE: func(cmd *cobra.Command, _ []string) error {
				if err := cli.FromEnvironment(cmd); err != nil {
					return err
				}
				_, entries, err := loadAgent(openers, path, nil, runner.AgentConfig{})
				if err != nil {
					return usageLines(cmd, err)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is right; elections: %d\n", path, len(entries))
				return err
			},
		}),
		newAgentStonith(openers, from, &path),
		newAgentMaintenance(openers, from, &path),
		&cobra.Command{
			Use: "schema", Short: "print the JSON schema of the configuration", Args: cli.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := cmd.OutOrStdout().Write(config.Schema())
				return err
			},
		},
	)
	return cmd
}

func stonithArgs(_ *cobra.Command, args []string) error {
	if len(args) != 3 {
		return exit.Usagef("agent stonith: %d arguments; want ELECTION, ID and ACTION, such as nightly n1 status", len(args))
	}
	return nil
}

func newAgentStonith(openers elect.Openers, from func(*cobra.Command) *cobra.Command, path *string) *cobra.Command {
	return from(&cobra.Command{
		Use: "stonith --config FILE ELECTION ID ACTION", Short: "run the fence agent of an election for one candidate's machine", Args: stonithArgs,
		Long: "Run the fence agent of an election for the machine of one candidate, to try its options: with the\nactions monitor, status, metadata, on, off and reboot, as far as the fence agent knows them. The output\nand the exit code are those of the fence agent.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			_, entries, err := loadAgent(openers, *path, nil, runner.AgentConfig{})
			if err != nil {
				return usageLines(cmd, err)
			}
			for _, e := range entries {
				if e.Config.Name != args[0] {
					continue
				}
				if e.Config.Stonith == nil {
					return exit.Usagef("the election %s has no stonith in %s; want an election that has", args[0], *path)
				}
				input, err := e.Config.Stonith.Input(args[2], args[1])
				if err != nil {
					return exit.With(exit.Usage, err)
				}
				agent := exec.CommandContext(cmd.Context(), e.Config.Stonith.Agent)
				agent.Stdin, agent.Stdout, agent.Stderr = strings.NewReader(input), cmd.OutOrStdout(), cmd.ErrOrStderr()
				err = agent.Run()
				if ended, ok := errors.AsType[*exec.ExitError](err); ok {
					return exit.Silent(ended.ExitCode())
				}
				return err
			}
			return exit.Usagef("there is no election %s in %s; want a name that is there", args[0], *path)
		},
	})
}

// usageLines writes each of several errors in a line of its own.
func usageLines(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*exit.Error](err); ok {
		return e
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(cmd.ErrOrStderr(), "elect: %s\n", strings.TrimSpace(line))
	}
	return exit.Silent(exit.Usage)
}

func runAgent(cmd *cobra.Command, openers elect.Openers, path string, cfg runner.AgentConfig) error {
	file, _, err := loadAgent(openers, path, nil, cfg)
	if err != nil {
		return usageLines(cmd, err)
	}
	dir, err := agentState(file)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Lock(); err != nil {
		return exit.With(exit.CannotCreate, fmt.Errorf("another elect agent uses %s: %w; want another state directory for each agent", dir.Path(), err))
	}
	cfg.State, cfg.Registry = dir, prometheus.NewRegistry()
	var shared electhttp.Config
	groups := newLookups(openers)
	defer groups.close()
	if cfg.HTTP, shared, err = listenAgent(file, cfg.Registry, groups); err != nil {
		return err
	}
	if d := file.Watchdog; d != nil {
		cfg.Device, cfg.Timeout = d.Device, d.Timeout
	}
	first := true
	cfg.Load = func() ([]runner.Entry, error) {
		next, entries, err := loadAgent(openers, path, dir, cfg)
		if err != nil {
			return nil, err
		}
		if !first && (next.HTTP != file.HTTP || next.State != file.State || !reflect.DeepEqual(next.Watchdog, file.Watchdog)) {
			return nil, errors.New("the settings of http, state or watchdog have changed, which are read at the start only; want a restart of the agent, or the former settings")
		}
		first = false
		var urls []string
		for i := range entries {
			e := &entries[i]
			of := e.HTTP
			e.HTTP = shared
			e.HTTP.Name, e.HTTP.ID, e.HTTP.Election, e.HTTP.Tenure = of.Name, of.ID, of.Election, of.Tenure
			urls = append(urls, e.Config.URL)
		}
		groups.set(urls)
		return entries, nil
	}
	if err := runner.RunAgent(cmd.Context(), cfg); err != nil {
		return usageLines(cmd, err)
	}
	return nil
}

// agentState opens the state directory.
func agentState(f *config.File) (*safe.Dir, error) {
	path := f.State
	if path == "" {
		home, err := stateHome()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(home, "elect-agent")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	dir, err := safe.At{Path: path}.Make()
	if err != nil {
		return nil, exit.With(exit.CannotCreate, fmt.Errorf("the state directory: %w", err))
	}
	return dir, nil
}

// listenAgent begins to listen. It returns what the Handlers of all elections have in common.
func listenAgent(f *config.File, registry *prometheus.Registry, groups http.Handler) (*runner.HTTP, electhttp.Config, error) {
	shared := electhttp.Config{Groups: groups}
	h := f.HTTP
	if h == (config.HTTP{}) {
		return nil, shared, nil
	}
	s := &runner.HTTP{}
	if h.Cert != "" {
		pair, err := keyPair("http.cert", h.Cert, "http.key", h.Key)
		if err != nil {
			return nil, shared, err
		}
		s.Certificate = &pair
	}
	var err error
	if shared.Token, err = readToken("http.token-file", h.TokenFile); err != nil {
		return nil, shared, err
	}
	shared.Trusted = strings.HasPrefix(h.Listen, "unix:")
	_, shared.Watchers = runner.HTTPLimits()
	if !shared.Trusted && h.Cert == "" {
		host, _, _ := net.SplitHostPort(h.Listen) // listenHTTP refuses what is wrong
		shared.Hosts = []string{host}
	}
	s.Group = electhttp.NewGroup(electhttp.GroupConfig{Hosts: shared.Hosts, Metrics: metricsHandler(registry), Token: shared.Token, Trusted: shared.Trusted, Groups: groups})
	s.Listener, s.Shown, err = listenHTTP("http.listen", h.Listen, s.Certificate != nil, "http.cert and http.key")
	return s, shared, err
}

// loadAgent reads a configuration, and checks all that can be checked without opening an election.
func loadAgent(openers elect.Openers, path string, dir *safe.Dir, cfg runner.AgentConfig) (*config.File, []runner.Entry, error) {
	if path == "" {
		return nil, nil, exit.Usagef("there is no configuration; want --config FILE, such as /etc/elect/agent.yaml")
	}
	text, _, err := readFile("--config", path)
	if err != nil {
		return nil, nil, err
	}
	f, err := config.Read(path, text)
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	if (f.HTTP.Cert == "") != (f.HTTP.Key == "") {
		errs = append(errs, f.Errorf("http", "cert and key belong together; want both, or none"))
	}
	if h := f.HTTP; h.Listen != "" && !strings.HasPrefix(h.Listen, "unix:") {
		if _, err := addressTCP("it is", h.Listen, h.Cert != "", "http.cert and http.key"); err != nil {
			errs = append(errs, f.Errorf("http.listen", "%v", err))
		}
	}
	if d := f.Watchdog; d != nil && d.Timeout%time.Second != 0 {
		errs = append(errs, f.Errorf("watchdog.timeout", "%v is not whole seconds; want some, such as 10s", d.Timeout))
	}
	var entries []runner.Entry
	names := map[string]int{}
	for i := range f.Elections {
		b := builder{f: f, at: fmt.Sprintf("elections[%d]", i), e: f.Elections[i], openers: openers}
		entry, ok := b.entry()
		if first, twice := names[b.e.Name]; twice {
			b.wrong("name", "%q is that of elections[%d], too; want different names", b.e.Name, first)
			ok = false
		}
		names[b.e.Name] = i
		errs = append(errs, b.errs...)
		if ok {
			entry.Config.State, entry.Config.JSON, entry.Config.Time, entry.Config.Verbose = dir, cfg.JSON, cfg.Time, cfg.Verbose
			entries = append(entries, entry)
		}
	}
	if errs != nil {
		return nil, nil, errors.Join(errs...)
	}
	return f, entries, nil
}

// builder makes the configuration of one election.
type builder struct {
	f       *config.File
	at      string
	e       config.Election
	openers elect.Openers
	errs    []error
}

func (b *builder) wrong(field, format string, args ...any) {
	b.errs = append(b.errs, b.f.Errorf(b.at+"."+field, format, args...))
}

// check notes an error of a field.
func (b *builder) check(field string, err error) {
	if err != nil {
		b.wrong(field, "%s", inFile(err))
	}
}

// entry returns the election, and false if something is wrong.
func (b *builder) entry() (runner.Entry, bool) {
	e := &b.e
	cfg := runner.Config{
		Openers: b.openers, Name: e.Name, Args: e.Command, Limits: e.Limits, Drain: e.Drain, Wait: runner.NoLimit, NonExclusive: e.NonExclusive,
		Watchdog: e.Watchdog, WaitReady: e.WaitReady, Grace: cmp.Or(e.Grace, supervise.DefaultGrace),
	}
	cfg.ID = e.ID
	if cfg.ID == "" {
		cfg.ID = b.f.ID
	}
	if cfg.ID == "" {
		cfg.ID, _, _ = strings.Cut(elect.DefaultID(), ":") // not the process: its next life is the same candidate
	}
	b.check("id", driver.CheckID(cfg.ID))
	p := place{election: e.Election, name: e.Name}
	b.check("name", driver.CheckName(e.Name))
	if b.errs == nil {
		leaseless := "the work may run twice at the same time; want protocol=" + quorum.Name + ", or non-exclusive: true if all that it does is fenced by its token"
		if e.NonExclusive {
			leaseless = ""
		}
		b.check("election", p.configured(b.openers, cfg.ID, "file:/var/lib/elect", leaseless))
	}
	cfg.URL, cfg.Shown = p.election, p.shown()
	var err error
	cfg.Restart = runner.Always
	if e.Restart == runner.OnFailure.String() {
		cfg.Restart = runner.OnFailure
	}
	if e.Contain != "" {
		cfg.Contain, err = supervise.ParseLevel(e.Contain)
		b.check("contain", err)
	}
	cfg.Guard, err = runner.ParseGuard(strings.Replace(e.Guard, "-", ",", 1))
	b.check("guard", err)
	for i, text := range e.GuardAllow {
		to, err := runner.ParseAllow(text)
		b.check(fmt.Sprintf("guard-allow[%d]", i), err)
		cfg.Allow = append(cfg.Allow, to)
	}
	used := map[netip.Addr]bool{}
	for i, text := range e.Address {
		a, err := supervise.ParseAddress(text)
		field := fmt.Sprintf("address[%d]", i)
		b.check(field, err)
		if used[a.Prefix.Addr()] {
			b.wrong(field, "%v is listed twice; want it once", a.Prefix.Addr())
		}
		used[a.Prefix.Addr()] = true
		cfg.Addresses = append(cfg.Addresses, a)
	}
	if len(e.GuardAllow) > 0 && e.Guard == "" {
		b.wrong("guard-allow", "it has no effect without guard; want guard: network, too")
	}
	for _, of := range []struct {
		field string
		set   bool
	}{
		{"address", len(e.Address) > 0}, {"guard", e.Guard != ""}, {"stonith", e.Stonith != nil},
		{"hooks.fence", e.Hooks.Fence.Run != ""}, {"hooks.activate", e.Hooks.Activate.Run != ""}, {"hooks.demote", e.Hooks.Demote.Run != ""},
	} {
		if of.set && e.NonExclusive {
			b.wrong(of.field, "it needs a lease, and with non-exclusive there is none; want one of the two")
		}
	}
	for i, limit := range e.Limits {
		if name, value, ok := strings.Cut(limit, "="); !ok || name == "" || value == "" {
			b.wrong(fmt.Sprintf("limits[%d]", i), "%q is no limit; want NAME=VALUE, such as memory=2G", limit)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Environment)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.HasPrefix(name, "ELECT_") {
			b.wrong("environment."+name, "%q is no name for a variable here; want one without =, that does not begin with ELECT_", name)
		}
		cfg.Env = append(cfg.Env, name+"="+e.Environment[name])
	}
	b.command(&cfg)
	b.hooks(&cfg)
	b.tenure(&cfg)
	source := *e
	source.ID = cmp.Or(e.ID, b.f.ID)
	return runner.Entry{Source: source, Config: cfg, HTTP: electhttp.Config{Name: cfg.Name, ID: cfg.ID, Election: cfg.Shown, Tenure: e.Tenure}}, b.errs == nil
}

// tenure sets when leadership is given up unforced.
func (b *builder) tenure(cfg *runner.Config) {
	e := &b.e
	cfg.Tenure = e.Tenure
	u, err := elect.ParseURL(cfg.URL)
	if err != nil {
		return // it was told
	}
	among := u.Scheme == peerScheme
	if among {
		protocol := u.Query().Get("protocol")
		among = protocol == "" || protocol == quorum.Name
	}
	if among && e.Tenure > 0 {
		switch {
		case e.Tenure > 24*time.Hour:
			b.wrong("tenure", "it is %v; want at most 24h among peers", e.Tenure)
		case u.Query().Has("tenure"):
			b.wrong("tenure", "the URL of the election has one, too; want it once")
		case u.RawQuery == "":
			cfg.URL += "?tenure=" + e.Tenure.String()
		default:
			cfg.URL += "&tenure=" + e.Tenure.String()
		}
	}
	of := e.Transfer
	if of == nil {
		return
	}
	if !among && !strings.HasPrefix(u.Scheme, "group+") {
		b.wrong("transfer", "the back end %s: cannot choose the next leader; want peers with protocol=%s, a group, or no transfer", u.Scheme, quorum.Name)
	}
	at, err := time.Parse("15:04", of.At)
	b.check("transfer.at", err)
	s := &runner.Schedule{Hour: at.Hour(), Minute: at.Minute(), To: of.To}
	for _, day := range of.Days {
		s.Days = append(s.Days, time.Weekday(slices.Index([]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}, day)))
	}
	if s.Zone, err = time.LoadLocation(of.Zone); err != nil || of.Zone == "Local" {
		b.wrong("transfer.zone", "%q is no time zone; want one such as Europe/Berlin or UTC", of.Zone)
	}
	if of.To != "" {
		b.check("transfer.to", driver.CheckID(of.To))
		if p := (place{election: e.Election, name: e.Name}); among && b.errs == nil {
			voters, _, _ := p.peers() // an error was told
			if !slices.ContainsFunc(voters, func(v peer.Peer) bool { return v.ID == of.To }) {
				b.wrong("transfer.to", "%s is no voter of this election; want one", of.To)
			}
		}
	}
	cfg.Transfer = s
}

// rests sets how long this candidate stands aside after trouble.
func (b *builder) rests(cfg *runner.Config) {
	e := &b.e
	cfg.Health.Losses, cfg.Health.Window, cfg.Health.Rest, cfg.Health.LongestRest = e.Losses, e.LossesWindow, e.Rest, e.LongestRest
	if e.Losses == 0 && e.LossesWindow != 0 {
		b.wrong("losses-window", "it has no effect without losses; want losses: 3, or such a number, too")
	}
	if e.LongestRest != 0 && e.Rest > e.LongestRest {
		b.wrong("rest", "it is %v, and longest-rest %v; want the first at most the second", e.Rest, e.LongestRest)
	}
}

func (b *builder) command(cfg *runner.Config) {
	e := &b.e
	if b.f.Has(b.at+".command") && len(e.Command) == 0 {
		b.wrong("command", "it is empty; want a program and its arguments, or the field left out")
		return
	}
	if len(e.Command) == 0 {
		cfg.Args = []string{"the term"}
		for _, field := range []string{"restart", "limits", "guard", "watchdog", "wait-ready"} {
			if b.f.Has(b.at + "." + field) {
				b.wrong(field, "it is about the command, and there is none; want a command, too")
			}
		}
		return
	}
	var err error
	cfg.Path, err = lookPath(e.Command[0])
	b.check("command[0]", err)
}

func (b *builder) stonith(cfg *runner.Config) {
	of := b.e.Stonith
	if of == nil {
		return
	}
	path, err := lookPath(of.Agent)
	b.check("stonith.agent", err)
	cfg.Stonith = &runner.Stonith{Agent: path, Action: cmp.Or(of.Action, "off"), Options: of.Options, Nodes: of.Nodes, Limit: cmp.Or(of.Limit, time.Minute), Retries: of.Retries}
	if of.Unless != "" {
		cfg.Stonith.Unless = runner.Hook{Run: of.Unless, Limit: min(cfg.Stonith.Limit, 10*time.Second)}
	}
	for id := range of.Nodes {
		if _, err := cfg.Stonith.Input(cfg.Stonith.Action, id); err != nil {
			b.check("stonith.nodes."+id, err)
		}
	}
	p := place{election: b.e.Election, name: b.e.Name}
	if !p.isPeer() {
		return
	}
	voters, _, _ := p.peers() // an error was told
	for _, v := range voters {
		if v.ID != cfg.ID && of.Nodes[v.ID] == nil {
			b.wrong("stonith.nodes", "the voter %s is not there; want its options, too", v.ID)
		}
	}
}

func (b *builder) hooks(cfg *runner.Config) {
	h := &b.e.Hooks
	hook := func(of config.Hook, limit time.Duration) runner.Hook {
		return runner.Hook{Run: of.Run, Limit: cmp.Or(of.Limit, limit), Retries: of.Retries}
	}
	cfg.Hooks = runner.Hooks{
		Fence: hook(h.Fence, time.Minute), Activate: hook(h.Activate, 30*time.Second), Elected: hook(h.OnElected, 30*time.Second),
		Cut: hook(h.Cut, 5*time.Second), Demote: hook(h.Demote, 30*time.Second), Lost: hook(h.OnLost, 30*time.Second),
	}
	if h.Activate.Run != "" && h.Demote.Run == "" {
		b.wrong("hooks.activate", "nothing undoes it; want the hook demote, too, which may be: true")
	}
	b.stonith(cfg)
	b.rests(cfg)
	g := h.Gate
	if g.Run == "" {
		return
	}
	cfg.Gate = runner.Hook{Run: g.Run, Limit: cmp.Or(g.Limit, 5*time.Second)}
	of := &cfg.Health
	of.Every, of.Timeout, of.Failures, of.Successes = g.Every, cfg.Gate.Limit, g.Failures, g.Successes
	if g.WhenAllIll == "none" {
		cfg.Health.WhenAllIll = elect.AllIllNone
	}
}
