package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/config"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/cmd/elect/internal/recipe/redis"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/internal/redact"
)

const recipeRedisHelp = `Keep one master among a few Redis servers, as Redis Sentinel does, and tell clients by
Sentinel's protocol who it is. Three electors, beside the servers or away from them,
each have this file, with their own id and state:

  name: mymaster
  election: peer://e1@10.0.0.1:7400,e2@10.0.0.2:7400,e3@10.0.0.3:7400?certs=/etc/elect/certs
  id: e1
  state: /var/lib/elect/redis
  secret-file: /etc/elect/redis.secret
  electors:
    - {id: e1, address: 10.0.0.1:26379}
    - {id: e2, address: 10.0.0.2:26379}
    - {id: e3, address: 10.0.0.3:26379}
  servers:
    - {id: r1, address: 10.0.0.1:6379}
    - {id: r2, address: 10.0.0.2:6379}
    - {id: r3, address: 10.0.0.3:6379}

Redis clients that know Sentinel work as they are: they ask any elector, on port 26379,
for mymaster. docs/redis-failover.md leads from empty machines to a tested failover, and
says what is lost when Redis loses a master.`

func newRecipeRedis(openers elect.Openers) *cobra.Command {
	cmd := &cobra.Command{
		Use: "redis", Short: "keep one master among Redis servers: run, status, failover, validate, schema",
		Long: recipeRedisHelp, Args: cli.VerbOnly,
		Example: "  elect recipe redis run --config /etc/elect/redis.yaml\n  elect recipe redis failover --config /etc/elect/redis.yaml --to r2",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return exit.Silent(exit.Usage)
		},
	}
	cmd.AddCommand(
		newRecipeRedisRun(openers), newRecipeRedisStatus(openers), newRecipeRedisFailover(openers),
		newRecipeRedisValidate(openers), newRecipeRedisSchema(),
	)
	return cmd
}

// redisConfig adds the flag with the configuration, and returns what reads it.
func redisConfig(cmd *cobra.Command, openers elect.Openers) func() (*redis.Config, error) {
	path := cmd.Flags().String("config", "", "`FILE` with the configuration, in YAML (required)")
	return func() (*redis.Config, error) {
		if err := cli.FromEnvironment(cmd); err != nil {
			return nil, err
		}
		if *path == "" {
			return nil, exit.Usagef("there is no configuration; want --config FILE, such as /etc/elect/redis.yaml")
		}
		text, _, err := readFile("--config", *path)
		if err != nil {
			return nil, err
		}
		cfg, doc, err := redis.Read(*path, text)
		if err == nil {
			err = checkRedisElection(openers, cfg, doc)
		}
		if err != nil {
			return nil, usageLines(cmd, err)
		}
		return cfg, nil
	}
}

// checkRedisElection checks the election of a configuration as far as that is possible without opening it.
func checkRedisElection(openers elect.Openers, cfg *redis.Config, doc *config.Document) error {
	p := place{election: cfg.Election, name: cfg.Name}
	if err := p.configured(openers, cfg.ID, "peer://e1@10.0.0.1:7400,…", "two electors may act at the same time; want protocol="+quorum.Name); err != nil {
		return doc.Errorf("election", "%s", inFile(err))
	}
	cfg.Election = p.election
	return nil
}

const recipeRedisRunHelp = `Be an elector: watch the servers, serve Sentinel's protocol, and act while leading. SIGTERM
and SIGINT end it; another elector then acts.

SIGHUP reads the file again, and puts down-after, quorum and unfenced into force. If
anything else has changed, or the file is wrong, a line says so, and nothing changes.

--http serves the paths that elect run --http does: /leader is 200 at the elector that
acts, /readyz where one is known; /metrics has the master and the servers, too.`

func newRecipeRedisRun(openers elect.Openers) *cobra.Command {
	var logs logFlags
	cmd := &cobra.Command{
		Use: "run --config FILE", Short: "be an elector, until a signal", Args: cli.NoArgs,
		Long:    recipeRedisRunHelp,
		Example: "  elect recipe redis run --config /etc/elect/redis.yaml",
	}
	read := redisConfig(cmd, openers)
	var server httpFlags
	server.flags(cmd.Flags())
	cmd.Flags().Lookup("http-sidecar").Hidden = true // nobody comes from there
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := read()
		if err != nil {
			return err
		}
		say := logs.open()
		defer say.Close()
		log := say.Steps(logs.verbose)
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		e, err := redis.New(cfg, redis.Options{Logger: log})
		if err != nil {
			return failed.Opening(err)
		}
		face, err := server.listen(electhttp.Config{Name: cfg.Name, ID: cfg.ID, Election: shownElection(cfg.Election)}, e.Metrics())
		if err != nil {
			return errors.Join(err, e.Close())
		}
		of := elect.Config{ID: cfg.ID, Logger: log}
		if face != nil {
			of.OnEvent = func(ev elect.Event) {
				face.Handler.OnEvent(ev)
				face.Metrics.OnEvent(ev)
			}
		}
		election, err := openers.Open(ctx, cfg.Election, cfg.Name, of)
		if err != nil {
			return errors.Join(failed.Opening(err), e.Close())
		}
		defer election.Close()
		if face != nil {
			if err := face.Handler.Attach(election); err != nil {
				return errors.Join(err, e.Close())
			}
			face.Metrics.Attach(election)
			defer face.Metrics.Close()
			defer face.Serve(log)()
			log.Info("serving HTTP", "at", face.Shown)
		}
		again := make(chan os.Signal, 1)
		signal.Notify(again, syscall.SIGHUP)
		defer signal.Stop(again)
		go reloadRedis(ctx, again, e, read, log)
		if err := e.Run(ctx, election); ctx.Err() == nil {
			return failed.Backend(err)
		}
		return nil
	}
	logs.flags(cmd)
	return cmd
}

// shownElection is a URL without its secrets; empty if it cannot be read.
func shownElection(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return redact.URL(u)
}

// reloadRedis reads the configuration at each signal, until ctx ends.
func reloadRedis(ctx context.Context, again <-chan os.Signal, e *redis.Elector, read func() (*redis.Config, error), log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
		}
		cfg, err := read()
		if err == nil {
			err = e.Reload(cfg)
		}
		if err != nil {
			log.Error("the configuration was not read again, and nothing has changed", "error", err)
			continue
		}
		log.Info("the configuration was read again", "down-after", cfg.DownAfter, "quorum", cfg.Quorum, "unfenced", cfg.Unfenced)
	}
}

func newRecipeRedisValidate(openers elect.Openers) *cobra.Command {
	cmd := &cobra.Command{
		Use: "validate --config FILE", Short: "check a configuration, and start nothing", Args: cli.NoArgs,
		Long: "Check a configuration, and start nothing. Each error has a line on stderr with the file, the line, the\ncolumn and the field, and what would be right. The exit code is then 64.",
	}
	read := redisConfig(cmd, openers)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := read()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is right; electors: %d, servers: %d, quorum: %d, min-replicas-to-write: %d\n", cmd.Flag("config").Value, len(cfg.Electors), len(cfg.Servers), cfg.Quorum, cfg.ToWrite)
		return err
	}
	return cmd
}

func newRecipeRedisSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "print the JSON schema of the configuration", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(redis.Schema())
			return err
		},
	}
}

func newRecipeRedisFailover(openers elect.Openers) *cobra.Command {
	to := ""
	cmd := &cobra.Command{
		Use: "failover --config FILE [--to SERVER]", Short: "hand over to another server, without a loss", Args: cli.NoArgs,
		Long: `Have the acting elector hand over to another server, or to the best one, by FAILOVER of
Redis 6.2: the master takes no more writes, waits until the replica has all of them, and
becomes its replica. If the replica is too far behind, the master goes on, and the exit
code is 69. If the master does not answer, --to forces a failover to that server, which
loses what that server has not.`,
		Example: "  elect recipe redis failover --config /etc/elect/redis.yaml --to r2",
	}
	read := redisConfig(cmd, openers)
	cmd.Flags().StringVar(&to, "to", "", "`SERVER` that is to be master, by its id (default: the best replica)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := read()
		if err != nil {
			return err
		}
		if to != "" && !slices.ContainsFunc(cfg.Servers, func(s redis.ServerEntry) bool { return s.ID == to }) {
			return exit.Usagef("--to %q is not in servers; want one of them", to)
		}
		c, err := redis.NewClient(cfg)
		if err != nil {
			return failed.Opening(err)
		}
		return failed.Backend(c.Failover(cmd.Context(), to))
	}
	return cmd
}

const recipeRedisStatusHelp = `Ask all electors what they know, and show the answer of one that acts, or of one that
has heard of the newest master.

Exit codes:
  0   clients are told a master, and this elector finds it up
  3   there is none, or it is down
  69  no elector answers

-o json writes one object on one line:
  name              of the master
  id                of the elector that has answered
  master            the id of the server that clients are told; omitted if none
  token             of the term in which that was decided, a string
  epoch             how many masters there were
  acting            the elector that acts; omitted if none was heard of lately
  waiting           why the acting elector does nothing; omitted if it has no reason
  silent            true: it does not tell clients the master; else omitted
  electors          how many there are
  electors_reached  how many of them answer this one
  servers           a list: id, address, role (master, replica, unknown), down (why it is
                    taken to be down: gone, silent, ill; omitted if it is up), link (of a
                    replica, to the master), offset, priority, error
-o yaml writes the same on several lines.`

func newRecipeRedisStatus(openers elect.Openers) *cobra.Command {
	var format form
	cmd := &cobra.Command{
		Use: "status --config FILE", Short: "show the master, the servers and the electors", Args: cli.NoArgs,
		Long: recipeRedisStatusHelp, Example: "  elect recipe redis status --config /etc/elect/redis.yaml",
	}
	read := redisConfig(cmd, openers)
	format.flag(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := read()
		if err != nil {
			return err
		}
		c, err := redis.NewClient(cfg)
		if err != nil {
			return failed.Opening(err)
		}
		s, err := newestRedisStatus(cmd.Context(), cfg, c)
		if err != nil {
			return exit.With(exit.Unavailable, err)
		}
		if err := format.write(cmd.OutOrStdout(), s, func(w io.Writer) error { return writeRedisStatus(w, &s) }); err != nil {
			return err
		}
		for _, v := range s.Servers {
			if v.ID == s.Master && v.Down == "" && v.Role == "master" {
				return nil
			}
		}
		return exit.Silent(exit.NoLeader)
	}
	return cmd
}

// newestRedisStatus asks all electors at once.
func newestRedisStatus(ctx context.Context, cfg *redis.Config, c *redis.Client) (best redis.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []error
	for _, e := range cfg.Electors {
		wg.Go(func() {
			s, err := c.Status(ctx, e.Address)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("elector %s: %w", e.ID, err))
			case best.ID == "", s.Acting == s.ID, s.Epoch > best.Epoch && best.Acting != best.ID:
				best = s
			}
		})
	}
	wg.Wait()
	if best.ID == "" {
		return best, errors.Join(errs...)
	}
	return best, nil
}

func writeRedisStatus(w io.Writer, s *redis.Status) error {
	fmt.Fprintf(w, "%s: master %s, token %s, acting %s (seen by %s; electors: %d of %d answer)\n", s.Name, dash(s.Master), dash(s.Token), dash(s.Acting), s.ID, s.Reached, s.Electors)
	if s.Waiting != "" {
		fmt.Fprintf(w, "waiting: %s\n", s.Waiting)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVER\tADDRESS\tROLE\tLINK\tOFFSET\tPRIORITY\tTROUBLE")
	for _, v := range s.Servers {
		link := map[bool]string{true: "up", false: "down"}[v.Link]
		if v.Role != "replica" {
			link = "-"
		}
		trouble := v.Down
		if v.Error != "" {
			trouble = strings.TrimPrefix(trouble+": "+v.Error, ": ")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", v.ID, v.Address, v.Role, link, v.Offset, v.Priority, dash(trouble))
	}
	return t.Flush()
}
