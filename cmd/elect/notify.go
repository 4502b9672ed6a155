package main

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"github.com/electd/elect/cmd/elect/internal/hook"
	"github.com/electd/elect/cmd/elect/internal/runner"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

// notifyFlags are the flags of elect run for sd_notify(3) and for --prepare.
type notifyFlags struct {
	set            *pflag.FlagSet
	watchdog, wait time.Duration
	prepare        string
}

// notifyFlagNames are the names of these flags.
var notifyFlagNames = [...]string{"watchdog", "wait-ready", "prepare"}

func (f *notifyFlags) flags(set *pflag.FlagSet) {
	f.set = set
	set.Var(cli.Duration(&f.watchdog), "watchdog", "`TIME` after which a COMMAND that has not said WATCHDOG=1 is ill (default: never)")
	set.Var(cli.Duration(&f.wait), "wait-ready", "`TIME` within which COMMAND must say READY=1, or is ill; until then it is starting (default: it need not)")
	set.Lookup("watchdog").DefValue, set.Lookup("wait-ready").DefValue = "", ""
	set.StringVar(&f.prepare, "prepare", "", "`COMMAND` for sh -c that runs while this candidate stands by")
}

// complete checks the flags, and sets what they say. The command is like hooks.
func (f *notifyFlags) complete(cfg *runner.Config, hooks hook.Command) error {
	if err := notBlank(f.set, "prepare"); err != nil {
		return err
	}
	if f.watchdog > 0 && f.watchdog < time.Millisecond {
		return exit.Usagef("--watchdog is %v; want at least 1ms, such as 10s", f.watchdog)
	}
	cfg.Watchdog, cfg.WaitReady = f.watchdog, f.wait
	if f.prepare != "" {
		prepare := hooks
		prepare.Name, prepare.Text, prepare.Join = "prepare", f.prepare, true
		cfg.Prepare = func(ctx context.Context) error {
			_, err := prepare.Run(ctx)
			return err
		}
	}
	return nil
}
