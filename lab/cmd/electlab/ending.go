package main

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

// answer is stdout as the verbs of sim and trace write it. It keeps its first error, and the verb
// goes on, so that the result of a run is not lost.
type answer struct {
	out io.Writer
	err error
}

func (a *answer) Write(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	n, err := a.out.Write(p)
	if err != nil {
		a.err = exit.With(exit.CannotCreate, err)
	}
	return n, err
}

// ending ends a verb: with the exit code of its result, or else with that of the first error. All
// errors are reported.
func ending(cmd *cobra.Command, code int, errs ...error) error {
	for _, err := range errs {
		if err == nil {
			continue
		}
		of, _ := exit.Of(err)
		if code == exit.OK {
			code = of
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "electlab: %s\n", cli.OneLine(err.Error()))
	}
	return exit.Silent(code)
}

// interruptible is a context that SIGINT or SIGTERM ends. The second signal ends the process.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// byInterrupt is the end of a verb that was interrupted.
func byInterrupt() error { return exit.With(exit.BySignal(syscall.SIGINT), errInterrupted) }
