package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

const transferHelp = `Ask the leader of an election to hand over to the candidate --to, or to the best
candidate, and wait until another candidate leads, for --wait at most. The leader's
work must stop within that time. No candidate leads before it has stopped.

The leader refuses a candidate that cannot take over: one that does not stand by, is
paused, or has not answered lately. It prints the reason and goes on leading. If the
candidate already leads, the command succeeds and changes nothing. If the candidate
fails later, or its position stays behind for two promises, another one may lead. The
answer has the one that leads. Priorities still count: a peer with a greater priority
gets leadership back after ten promises, unless it is paused (elect pause).

In a group the coordinator is asked, as by elect group move: with --to the key is
pinned there; without it the coordinator chooses.

Among peers with certificates it needs one with the role operate.

-o json writes one object on one line: election, name, from and to. from and to have
id and token, a string. They are equal if the candidate already led.

Exit codes:
  0   the candidate leads
  3   there was no leader
  69  the leader did not answer or refused; --token is not the leader's; another
      candidate than --to leads; no other candidate leads after --wait; or the back
      end cannot choose the next leader
  77  the certificate does not have the role operate
  85  the leader has led for less than its tenure, a setting of elect agent; --now asks
      it nevertheless`

// transferWait is the default of --wait: three times the default of --grace.
const transferWait = 30 * time.Second

func newTransfer(openers elect.Openers) *cobra.Command {
	var p place
	var format form
	var to, token string
	var now bool
	wait := transferWait
	cmd := &cobra.Command{
		Use:     "transfer [flags] [NAME]",
		Short:   "ask the leader to hand over to a candidate",
		Long:    transferHelp,
		Example: "  elect transfer scheduler --to n2\n  elect transfer scheduler           # to the best candidate",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.nameArgument(cmd, args); err != nil {
				return err
			}
			only, err := parseToken(token)
			if err != nil {
				return err
			}
			if to != "" || cmd.Flags().Changed("to") {
				if err := driver.CheckID(to); err != nil {
					return exit.Usagef("--to: %w", err)
				}
			}
			if err := p.amongPeers(openers, "transfer"); err != nil {
				return err
			}
			e, err := p.open(cmd, openers)
			if err != nil {
				return err
			}
			defer e.Close()
			if !slices.Contains(e.Limits().Abilities, elect.AbilityTransfer) {
				return exit.With(exit.Unavailable, errors.New("transfer: this back end cannot choose the next leader; elect resign hands over to any candidate that stands by"))
			}
			if done := p.leadsAlready(cmd, e, only, to); done != nil {
				return format.write(cmd.OutOrStdout(), done, done.write)
			}
			old, err := p.atLeader(cmd, e, only, now, "hand over", func(ctx context.Context, token elect.Token) error { return e.Transfer(ctx, token, to) })
			if err != nil {
				return err
			}
			next, err := successor(cmd.Context(), e, old, wait)
			if err != nil {
				return exit.With(exit.Unavailable, fmt.Errorf("%s (token %v) has agreed to hand over, and %w", old.ID, old.Token, err))
			}
			t := transferred{Election: p.shown(), Name: p.name, From: party{old.ID, old.Token}, To: party{next.ID, next.Token}}
			if err := format.write(cmd.OutOrStdout(), t, t.write); err != nil {
				return err
			}
			if to != "" && next.ID != to {
				return exit.With(exit.Unavailable, fmt.Errorf("%s was to take over, and %s leads", to, next.ID))
			}
			return nil
		},
	}
	p.flags(cmd.Flags())
	cmd.Flags().StringVar(&to, "to", "", "`ID` of the next leader (default: the best candidate, as the leader sees it)")
	cmd.Flags().StringVar(&token, "token", "", "ask only the leader with this `TOKEN` (default: any leader)")
	cmd.Flags().Var(cli.Duration(&wait), "wait", "`TIME` to wait for the successor after the leader has agreed")
	nowFlag(cmd.Flags(), &now)
	format.flag(cmd.Flags())
	return cmd
}

// leadsAlready is the answer if the named candidate leads already; nil if it does not, or if the leader has to decide
// that.
func (p *place) leadsAlready(cmd *cobra.Command, e *elect.Election, only elect.Token, to string) *transferred {
	if to == "" {
		return nil
	}
	ctx, cancel := within(cmd, orderTimeout)
	defer cancel()
	l, err := e.Leader(ctx)
	if err != nil || l.ID != to || l.NoLease || only != 0 && l.Token != only {
		return nil // the leader is asked, and reports the error
	}
	return &transferred{Election: p.shown(), Name: p.name, From: party{l.ID, l.Token}, To: party{l.ID, l.Token}}
}

// successor waits until there is a leader with a greater token than old.
func successor(ctx context.Context, e *elect.Election, old elect.Leader, wait time.Duration) (elect.Leader, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("no other candidate leads after %v", wait))
	defer cancel()
	for s, err := range e.Watch(ctx) {
		switch {
		case err != nil && ctx.Err() != nil:
			return elect.Leader{}, context.Cause(ctx)
		case err != nil:
			return elect.Leader{}, fmt.Errorf("the next leader is not known: %w", err)
		case s.Leader != nil && !s.Stale && s.Leader.Token > old.Token && s.Leader.ID == old.ID:
			return elect.Leader{}, fmt.Errorf("leads again with token %v, because no candidate took over", s.Leader.Token)
		case s.Leader != nil && !s.Stale && s.Leader.Token > old.Token:
			return *s.Leader, nil
		}
	}
	return elect.Leader{}, context.Cause(ctx)
}

// transferred is the output of transfer.
type transferred struct {
	Election string `json:"election"`
	Name     string `json:"name"`
	From     party  `json:"from"`
	To       party  `json:"to"`
}

// party is a leader in the output.
type party struct {
	ID    string      `json:"id"`
	Token elect.Token `json:"token"`
}

func (t transferred) write(w io.Writer) error {
	if t.From == t.To {
		_, err := fmt.Fprintf(w, "%s leads %s already (token %v)\n", t.To.ID, t.Name, t.To.Token)
		return err
	}
	_, err := fmt.Fprintf(w, "%s leads %s (token %v); %s (token %v) has handed over\n", t.To.ID, t.Name, t.To.Token, t.From.ID, t.From.Token)
	return err
}
