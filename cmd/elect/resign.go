package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/internal/cli/exit"
)

const resignHelp = `Ask the leader of an election to resign, and wait until it has agreed. Its work is
then stopped, within its own --grace, and the next candidate leads. The old leader
stands again when another candidate was elected, or after a second.

A leader that is frozen cannot answer. Then resign ends with 69 after 10 s at most, and
the leader may still resign when it runs again.

In a store the request is recorded beside the leader's token. The leader
obeys it at its next renewal at the latest, and no later leader does. If the term ends
before the answer is read, it is not known whether the leader obeyed or died, and the
command succeeds and says so. A leader of another program, such as etcdctl elect,
cannot be asked: exit code 69.

Among peers with certificates it needs one with the role operate.

It prints the leader that was asked. -o json writes one object on one line: election,
name, id and token, a string.

Exit codes:
  0   the leader has agreed; in a store also: its term has ended
  3   there is no leader
  69  the leader did not answer, or --token is not its token
  77  the certificate does not have the role operate
  85  the leader has led for less than its tenure, a setting of elect agent; --now asks
      it nevertheless`

func newResign(openers elect.Openers) *cobra.Command {
	var p place
	var format form
	var token string
	var now bool
	cmd := &cobra.Command{
		Use:     "resign [flags] [NAME]",
		Short:   "ask the leader to hand over",
		Long:    resignHelp,
		Example: "  elect resign nightly\n  elect resign nightly --token 42    # this leader, and no later one",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.nameArgument(cmd, args); err != nil {
				return err
			}
			only, err := parseToken(token)
			if err != nil {
				return err
			}
			e, err := p.open(cmd, openers)
			if err != nil {
				return err
			}
			defer e.Close()
			leader, err := p.atLeader(cmd, e, only, now, "resign", e.Resign)
			if err != nil {
				return err
			}
			r := resigned{Election: p.shown(), Name: p.name, ID: leader.ID, Token: leader.Token}
			if p.isStore(openers) {
				r.or = ", or its term has ended"
			}
			return format.write(cmd.OutOrStdout(), r, r.write)
		},
	}
	p.flags(cmd.Flags())
	cmd.Flags().StringVar(&token, "token", "", "ask only the leader with this `TOKEN` (default: any leader)")
	nowFlag(cmd.Flags(), &now)
	format.flag(cmd.Flags())
	return cmd
}

// nowFlag is the flag of the verbs that a leader's tenure holds back.
func nowFlag(f *pflag.FlagSet, now *bool) {
	f.BoolVar(now, "now", false, "ask the leader although it has not led for its tenure")
}

type resigned struct {
	Election string      `json:"election"`
	Name     string      `json:"name"`
	ID       string      `json:"id"`
	Token    elect.Token `json:"token"`

	or string // what else may have happened, for people
}

func (r resigned) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s (token %v) has agreed to resign from %s%s\n", r.ID, r.Token, r.Name, r.or)
	return err
}

// parseToken reads --token; 0 is none.
func parseToken(text string) (token elect.Token, err error) {
	if text == "" {
		return 0, nil
	}
	if err := token.UnmarshalText([]byte(text)); err != nil || token == 0 {
		return 0, exit.Usagef("--token %q; want the leader's token, such as 42", text)
	}
	return token, nil
}

// atLeader asks the leader with that token, or any leader if it is 0, to do something, and returns the leader that
// accepted. Without now it asks none before its tenure. An error has its exit code.
func (p *place) atLeader(cmd *cobra.Command, e *elect.Election, only elect.Token, now bool, what string, ask func(context.Context, elect.Token) error) (elect.Leader, error) {
	ctx, cancel := within(cmd, orderTimeout)
	defer cancel()
	for {
		leader, err := e.Leader(ctx)
		switch {
		case err != nil:
		case only != 0 && leader.Token != only:
			err = fmt.Errorf("token %v leads, and not %v; no leader was asked to %s", leader.Token, only, what)
		default:
			if err := electhttp.TooEarly(leader, 0); err != nil && !now {
				return leader, exit.With(exit.TooEarly, fmt.Errorf("%w; want --now, or a later request", err))
			}
			err = ask(ctx, leader.Token)
			if errors.Is(err, driver.ErrSuperseded) && only == 0 && ctx.Err() == nil {
				continue // another candidate was elected in between
			}
		}
		if errors.Is(err, elect.ErrNoLeader) {
			return leader, exit.With(exit.NoLeader, fmt.Errorf("nobody leads %s, so no candidate can %s", p.name, what))
		}
		return leader, failed.Backend(err)
	}
}
