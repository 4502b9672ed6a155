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
	rests     elect.Health // Losses, Window, Rest and LongestRest
}

// healthFlagNames are the names of those flags.
var healthFlagNames = [...]string{"health-command", "health-every", "health-timeout", "health-failures", "health-successes", "when-all-ill"}

// restFlagNames are those of the flags about losses and rests.
var restFlagNames = [...]string{"losses", "losses-window", "rest", "longest-rest"}

func (f *healthFlags) flags(set *pflag.FlagSet) {
	f.set, f.every, f.timeout = set, 5*time.Second, 5*time.Second
	set.StringVar(&f.command, "health-command", "", "`COMMAND` for sh -c that exits with 0 if this candidate can do the work")
	set.Var(cli.Interval(&f.every), "health-every", "`TIME` between two runs of --health-command")
	set.Var(cli.Interval(&f.timeout), "health-timeout", "`TIME` after which --health-command is killed, and has failed")
	set.IntVar(&f.failures, "health-failures", 3, "`NUMBER` of failures in a row by which this candidate is ill; the first run of all decides alone")
	set.IntVar(&f.successes, "health-successes", 2, "`NUMBER` of successes in a row by which it is well again")
	set.StringVar(&f.allIll, "when-all-ill", "lead", "`WHAT` an ill candidate does if nobody leads: lead, after some time, or none")
	r := &f.rests
	r.Window, r.Rest, r.LongestRest = 10*time.Minute, time.Minute, 16*time.Minute
	set.IntVar(&r.Losses, "losses", 0, "`NUMBER` of losses of leadership within --losses-window after which this candidate rests while another leads (default: they do not count)")
	set.Lookup("losses").DefValue = ""
	set.Var(cli.Interval(&r.Window), "losses-window", "`TIME` in which --losses count")
	set.Var(cli.Interval(&r.Rest), "rest", "first `TIME` that this candidate rests after an illness as a leader, or too many losses; it doubles")
	set.Var(cli.Interval(&r.LongestRest), "longest-rest", "greatest `TIME` of a rest")
}

// resting is what the flags about losses and rests say.
func (f *healthFlags) resting() (h elect.Health, err error) {
	h = f.rests
	switch {
	case h.Losses < 0 || h.Losses == 0 && f.set.Changed("losses"):
		return h, exit.Usagef("--losses is %d; want a number above 0", h.Losses)
	case h.Losses == 0 && f.set.Changed("losses-window"):
		return h, exit.Usagef("--losses-window has no effect without --losses; want --losses, too")
	case min(h.Window, h.Rest, h.LongestRest) < time.Millisecond:
		return h, exit.Usagef("--losses-window is %v, --rest %v and --longest-rest %v; want at least 1ms, such as 1m", h.Window, h.Rest, h.LongestRest)
	case h.Rest > h.LongestRest:
		return h, exit.Usagef("--rest is %v and --longest-rest %v; want the first at most the second", h.Rest, h.LongestRest)
	case h.Losses == 0:
		h.Window = 0
	}
	return h, nil
}

// health is what the flags say. The command is like hooks. supervised means that COMMAND can be ill otherwise, too.
func (f *healthFlags) health(hooks hook.Command, supervised bool) (h elect.Health, err error) {
	if h, err = f.resting(); err != nil {
		return h, err
	}
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
