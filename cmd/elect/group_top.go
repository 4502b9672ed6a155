package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/cmd/elect/internal/top"
	"github.com/electd/elect/group"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

func groupTop() groupVerb {
	every := time.Second
	return groupVerb{
		use: "top", watches: true, short: "show the members, their keys and alerts on one screen, live",
		long: `Show a group on one screen: its coordinator with its token, how many keys there are,
how many of them nobody holds and how many are on their way, moves a second, and for each
member its state, its keys, its share of those that are held, and SLACK, for how long the
coordinator keeps its keys without another renewal. The alerts are those of
deploy/prometheus for groups, judged by what was seen since the start.

Keys: q ends it; arrows, j, k and page keys select; s sorts by name, keys or state.

With -o json or yaml, and if it is not on a terminal, it shows the present state once,
and ends.

-o json writes one object on one line:
  time         when it was written, RFC 3339
  election, group, coordinator, token, covering, keys, held, moving, moves
               as elect group status -o json has them
  unowned      keys that nobody holds
  members      a list, as elect group members -o json has it, and
    slack_ms   for how long the coordinator keeps the keys without another renewal
  alerts       a list: alert, severity, election, name (of the group), text, since
-o yaml writes the same on several lines.`,
		example: "  elect group top --election group+file:/var/lib/myjob",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().Var(cli.Duration(&every), "every", "`TIME` between two questions")
		},
		check: func([]string) error {
			if every < leastEvery || every > mostEvery {
				return exit.Usagef("--every is %v; want %v to 1h", every, leastEvery)
			}
			return nil
		},
		run: func(ctx context.Context, cmd *cobra.Command, c *group.Client, p *place, f form, _ []string) error {
			model := top.NewGroup(p.shown())
			if f != "table" || !onTerminal() {
				s, left, err := askGroup(ctx, c)
				if err != nil {
					return failed.Backend(err)
				}
				now := time.Now()
				model.Apply(s, left, now, nil)
				model.Judge(now)
				return f.write(cmd.OutOrStdout(), model.Document(now), func(w io.Writer) error { return model.Write(w) })
			}
			l := newLiveness()
			ctx, cancel := context.WithCancel(ctx)
			defer l.work.Wait()
			defer cancel()
			l.start(func() {
				tick := time.NewTicker(every)
				defer tick.Stop()
				for ctx.Err() == nil {
					s, left, err := askGroup(ctx, c)
					at := time.Now()
					l.put(ctx, func() { model.Apply(s, left, at, err) })
					select {
					case <-tick.C:
					case <-ctx.Done():
					}
				}
			})
			return l.show(ctx, model, every, os.Stdin, os.Stdout)
		},
	}
}

// askGroup asks for what elect group top shows.
func askGroup(ctx context.Context, c *group.Client) (s group.Status, left map[string]time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, orderTimeout, fmt.Errorf("no answer within %v", orderTimeout))
	defer cancel()
	if s, err = c.Status(ctx); err == nil {
		left, err = c.Slack(ctx)
	}
	return s, left, err
}
