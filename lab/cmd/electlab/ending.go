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

// answer is stdout as the verbs of sim and trace write it. It keeps its first
// error, and the verb goes on: what a run has shown is not lost with it.
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

// ending is how a verb ends: with the code of what it has shown, and else with
// that of the first of the errors. All of them are told.
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

// interruptible is a context that the signals to end a process end. The second one
// ends the process.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// byInterrupt is how a verb ends that was told to.
func byInterrupt() error { return exit.With(exit.BySignal(syscall.SIGINT), errInterrupted) }
