package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/peer"
)

const historyHelp = `Show the changes of leadership in an election among peers, the newest last. Every
node keeps the changes that it has seen, over restarts, too. history merges the answers
of all nodes, and orders the changes by token, which is the order of the leaders.
Among peers with certificates it needs one, of any role.

AT is by the wall clock of the node that reports the change; clocks may differ. If a
leader was frozen, AT is when its lease ended, although it noticed that later. A leader
that was killed reports no end: see the next line.

Exit codes: 0 a node has answered; 69 no node can be asked. Nodes that did not answer
are named on stderr.

-o json writes an array of objects on one line:
  at      when, by the wall clock of the node that reports it, RFC 3339
  event   elected, active (its lease is proven), lost, follows; paused or resumed
  leader  the leader; for paused and resumed the node itself
  token   its token, as a string
  reason  why, if there is something to say; for lost it begins with the word of
          metrics and logs: expired, superseded, resigned, …
-o yaml writes the same on several lines.`

func newHistory(openers elect.Openers) *cobra.Command {
	var p place
	var format form
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
			ctx, cancel := within(cmd, askTimeout)
			defer cancel()
			events, silent := c.History(ctx)
			if silent != nil && !errors.Is(silent, driver.ErrUnreachable) || silent != nil && len(events) == 0 {
				return failed.Backend(silent)
			}
			if silent != nil { // some nodes have answered; the others may know more
				fmt.Fprintf(cmd.ErrOrStderr(), "elect: %s\n", cli.OneLine(silent.Error()))
			}
			events = append([]peer.Event{}, events...) // [] and not null
			return format.write(cmd.OutOrStdout(), events, func(w io.Writer) error { return writeHistory(w, events) })
		},
	}
	p.flags(cmd.Flags())
	format.flag(cmd.Flags())
	return cmd
}

func writeHistory(w io.Writer, events []peer.Event) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "AT\tEVENT\tLEADER\tTOKEN\tREASON")
	for i, e := range events {
		reason := joined(e.Reason, told(events, i))
		fmt.Fprintf(t, "%s\t%s\t%s\t%v\t%s\n", timestamp(e.At), e.Event, cmp.Or(e.Leader, nobody), e.Token, or(reason))
	}
	return t.Flush()
}

// The events for which the table has a remark.
const (
	elected = "elected"
	active  = "active"
	lost    = "lost"
)

// told explains what may puzzle a reader about one of the events, which are ordered by token: an end that seems to
// come after the next leader's beginning, and an end that no node has noted.
func told(events []peer.Event, i int) string {
	e := events[i]
	switch e.Event {
	case lost:
		for _, next := range events[i+1:] {
			if next.Token > e.Token && next.Event == active && next.At.Before(e.At) {
				return fmt.Sprintf("noticed late, or clocks differ: %s was active before", next.Leader)
			}
		}
	case elected:
		for _, last := range slices.Backward(events[:i]) {
			if last.Token == e.Token {
				continue
			}
			if ended := slices.ContainsFunc(events[:i], func(o peer.Event) bool { return o.Token == last.Token && o.Event == lost }); !ended && e.Reason == "" {
				return fmt.Sprintf("%s reported no end", last.Leader)
			}
			return ""
		}
	}
	return ""
}

// joined joins the texts that are not empty.
func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), "; ")
}
