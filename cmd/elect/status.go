package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/exit"
)

const statusHelp = `Show who leads an election, since when and with which token. The name is given as
an argument or by --name. Below an elect run it is that of its election.

Exit codes: 0 somebody leads; 3 nobody does; 69 the back end cannot tell.

-o json writes one object on one line:
  election  the URL, without credentials
  name      the election's name
  leader    null, or an object:
              id        who leads
              token     its token, as a string of decimal digits
              since     when it was elected by its own wall clock, RFC 3339
              metadata  what it says about itself; left out when there is none
  stale     true: the back end did not answer, and leader is who was last known
  cause     why nothing better is known; left out when there is nothing to say`

func newStatus(openers elect.Openers) *cobra.Command {
	var p place
	var format output
	cmd := &cobra.Command{
		Use:     "status [flags] [NAME]",
		Short:   "show who leads, since when, with which token",
		Long:    statusHelp,
		Example: "  elect status nightly\n  elect status --election file:/var/lib/elect nightly -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.nameArgument(cmd, args); err != nil {
				return err
			}
			e, err := p.open(cmd, openers)
			if err != nil {
				return err
			}
			defer e.Close()
			for s, err := range e.Watch(cmd.Context()) {
				if err != nil {
					return exit.OfBackend(err)
				}
				return showStatus(cmd.OutOrStdout(), p.view(s), s, format)
			}
			return exit.OfBackend(elect.ErrClosed)
		},
	}
	p.flags(cmd.Flags())
	format.flag(cmd.Flags())
	return cmd
}

func showStatus(w io.Writer, v view, s elect.State, format output) error {
	if format == "json" {
		if err := writeJSON(w, v); err != nil {
			return err
		}
	} else {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "NAME\tLEADER\tTOKEN\tSINCE")
		switch l := v.Leader; {
		case l == nil:
			fmt.Fprintf(t, "%s\t%s\t-\t-\n", v.Name, nobody)
		case l.Since.IsZero():
			fmt.Fprintf(t, "%s\t%s\t%v\t-\n", v.Name, l.ID, l.Token)
		default:
			ago := max(time.Since(l.Since), 0).Round(time.Second)
			fmt.Fprintf(t, "%s\t%s\t%v\t%s (%v ago)\n", v.Name, l.ID, l.Token, timestamp(l.Since), ago)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	switch {
	case s.Stale:
		return exit.With(exit.Unavailable, fmt.Errorf("cannot tell who leads: %w", cmp.Or(s.Cause, errors.New("the back end did not answer"))))
	case s.Leader == nil && s.Cause != nil:
		return exit.With(exit.NoLeader, s.Cause)
	case s.Leader == nil:
		return exit.Silent(exit.NoLeader)
	}
	return nil
}

const nobody = "(nobody)"
