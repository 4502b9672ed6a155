package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/exit"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/peer"
)

const historyHelp = `Show the changes of leadership in an election among peers, the newest last. Every
node keeps those that it has seen, with the time of its own wall clock, and they
survive restarts; what all of them tell is put together.

Exit codes: 0 there is an answer; 69 nobody can be asked. Nodes that did not answer
are named on stderr.

-o json writes an array of objects on one line:
  at      when, RFC 3339
  event   elected, active (its lease is proven), lost or follows
  leader  whom it is about
  token   its token, as a string
  reason  why, where there is something to say`

func newHistory(openers elect.Openers) *cobra.Command {
	var p place
	var format output
	cmd := &cobra.Command{
		Use:     "history [flags] [NAME]",
		Short:   "show the changes of leadership",
		Long:    historyHelp,
		Example: "  elect history --election 'peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400?certs=/etc/elect/certs' scheduler",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.nameArgument(cmd, args); err != nil {
				return err
			}
			c, _, err := p.ask(openers, "history")
			if err != nil {
				return err
			}
			defer c.Close()
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), askTimeout, errNoAnswer)
			defer cancel()
			events, silent := c.History(ctx)
			if silent != nil && !errors.Is(silent, driver.ErrUnreachable) || silent != nil && len(events) == 0 {
				return exit.OfBackend(silent)
			}
			if silent != nil { // some have answered, and others may know more
				fmt.Fprintf(cmd.ErrOrStderr(), "elect: %s\n", oneLine(silent.Error()))
			}
			if format == "json" {
				return writeJSON(cmd.OutOrStdout(), append([]peer.Event{}, events...))
			}
			return writeHistory(cmd.OutOrStdout(), events)
		},
	}
	p.flags(cmd.Flags())
	format.flag(cmd.Flags())
	return cmd
}

func writeHistory(w io.Writer, events []peer.Event) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "AT\tEVENT\tLEADER\tTOKEN\tREASON")
	for _, e := range events {
		fmt.Fprintf(t, "%s\t%s\t%s\t%v\t%s\n", timestamp(e.At), e.Event, cmp.Or(string(e.Leader), nobody), e.Token, or(e.Reason))
	}
	return t.Flush()
}
