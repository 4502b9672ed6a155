package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/hook"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

// healthFlags are those of elect run about its health.
type healthFlags struct {
	set       *pflag.FlagSet
	command   string
	every     time.Duration
	timeout   time.Duration
	failures  int
	successes int
	allIll    string
}

// healthFlagNames are the names of those flags.
var healthFlagNames = [...]string{"health-command", "health-every", "health-timeout", "health-failures", "health-successes", "when-all-ill"}

func (f *healthFlags) flags(set *pflag.FlagSet) {
	f.set, f.every, f.timeout = set, 5*time.Second, 5*time.Second
	set.StringVar(&f.command, "health-command", "", "`COMMAND` for sh -c that exits with 0 if this candidate can do the work")
	set.Var(cli.Interval(&f.every), "health-every", "`TIME` between two runs of --health-command")
	set.Var(cli.Interval(&f.timeout), "health-timeout", "`TIME` after which --health-command is killed, and has failed")
	set.IntVar(&f.failures, "health-failures", 3, "`NUMBER` of failures in a row by which this candidate is ill; the first run of all decides alone")
	set.IntVar(&f.successes, "health-successes", 2, "`NUMBER` of successes in a row by which it is well again")
	set.StringVar(&f.allIll, "when-all-ill", "lead", "`WHAT` an ill candidate does if nobody leads: lead, after some time, or none")
}

// health is what the flags say. The command is like hooks. supervised means that COMMAND can be ill otherwise, too.
func (f *healthFlags) health(hooks hook.Command, supervised bool) (h elect.Health, err error) {
	switch f.allIll {
	case "lead":
	case "none":
		h.WhenAllIll = elect.AllIllNone
	default:
		return h, exit.Usagef("--when-all-ill %q is unknown; want lead or none", f.allIll)
	}
	if err := notBlank(f.set, "health-command"); err != nil {
		return h, err
	}
	if f.command == "" {
		for _, name := range healthFlagNames {
			if flag := f.set.Lookup(name); (flag.Changed || flag.Value.String() != flag.DefValue) && !(supervised && name == "when-all-ill") {
				return h, exit.Usagef("--%s is given, and no --health-command; want one", name)
			}
		}
		return h, nil
	}
	switch {
	case min(f.every, f.timeout) < time.Millisecond:
		return h, exit.Usagef("--health-every is %v and --health-timeout %v; want at least 1ms, such as 5s", f.every, f.timeout)
	case f.failures <= 0 || f.successes <= 0:
		return h, exit.Usagef("--health-failures is %d and --health-successes %d; want numbers above 0", f.failures, f.successes)
	}
	h.Every, h.Timeout, h.Failures, h.Successes = f.every, f.timeout, f.failures, f.successes
	command := hooks
	command.Name, command.Text = "health", f.command
	h.Check = func(ctx context.Context) error {
		if _, err := command.Run(ctx); err != nil {
			return fmt.Errorf("its health command fails: %w", err)
		}
		return nil
	}
	return h, nil
}
