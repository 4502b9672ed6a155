package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer"
)

const memberHelp = `Change the members of an election among peers while it goes on. One node changes at a
time, each time with the consent of a majority. The leader makes the change. Any node
that answers passes the request on to it.

  elect member add ID@HOST:PORT       make it a voter, or with --observer an observer
  elect member remove ID              remove it
  elect member replace ID[@HOST:PORT] give its vote to another disk, or move it

Where the nodes have certificates it needs one with the role administer: elect certs
--role administer makes it. A change that is not safe now is refused with the reason,
and changes nothing. If a change of several steps stops half-way, the command prints
the membership that holds. The same command then goes on from there. A change that is
already made succeeds. Only the removal of an id that is no member is an error.

`

const memberCodes = `The command prints each step to stderr. -o json writes one object on one line:
election, name, changed (false: nothing had to change), steps, membership as in elect
members, and warnings.

Exit codes:
  0   the change is made
  3   there is no leader
  69  it was refused, or the leader did not answer
  75  the outcome is not known, because the leader was lost on the way. elect members
      shows what holds. The command may be repeated
  77  the certificate does not have the role administer`

const memberAddHelp = `Make a node a voter, or with --observer an observer. The node must already run. Its
URL has join=true and lists the node itself:

  elect run --election 'peer://n1@…,n2@…,n3@…,n4@10.0.0.4:7400?join=true' --id n4 -- ./job

It prints that it waits to be added. It first becomes an observer, so that it is
connected and has the membership on disk, and then a voter. To make an observer a voter,
add it. A voter is added only if a majority of the new voters answers without it.

`

const memberRemoveHelp = `Remove a voter or an observer. Its process need not run. If it runs, it is told, does
not disturb the others, and its elect run ends with 69. The leader cannot be removed:
use elect transfer first. A majority of the remaining voters must answer. If the id is
not, or no longer, a member, the command is refused with 69 and a list of the members.
So repeating the command after it has succeeded ends with 69.

`

const memberReplaceHelp = `Give the vote of ID to another data directory: that of the process that runs at
HOST:PORT, or at the old address of ID. Its URL has join=true. Use it if the disk of
ID was lost. The old directory is removed, and then the new one is added, as by elect
member add. If that process has the old directory of ID, ID moves to HOST:PORT.
After an interruption, repeat the command. It goes on from there, even if the old
directory is already removed or the new one is already an observer. A node that its own
URL makes an observer is refused, because it had no vote.

`

func newMember(openers elect.Openers) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "member",
		Short: "change the members: add, remove, replace",
		Long:  memberHelp + memberCodes,
		Example: "  elect member add n4@10.0.0.4:7400 --name scheduler\n" +
			"  elect member remove n1 --name scheduler",
		Args: cli.VerbOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return exit.Silent(exit.Usage)
		},
	}
	cmd.AddCommand(
		newMemberChange(openers, "add ID@HOST:PORT", "make a node a voter, or an observer", memberAddHelp, "  elect member add n4@10.0.0.4:7400 --name scheduler", true),
		newMemberChange(openers, "remove ID", "remove a node", memberRemoveHelp, "  elect member remove n1 --name scheduler", false),
		newMemberChange(openers, "replace ID[@HOST:PORT]", "give a vote to another disk, or move it", memberReplaceHelp, "  elect member replace n3 --name scheduler", false),
	)
	return cmd
}

func newMemberChange(openers elect.Openers, use, short, long, example string, observers bool) *cobra.Command {
	var p place
	var format form
	var observer bool
	verb, what, _ := strings.Cut(use, " ")
	cmd := &cobra.Command{
		Use:     verb + " [flags] " + what + " [NAME]",
		Short:   short,
		Long:    long + memberCodes,
		Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usagef("member %s: want %s", verb, what)
			}
			node, err := parseMember(verb, args[0])
			if err != nil {
				return exit.Usagef("member %s %s: %w; want %s", verb, args[0], err, what)
			}
			if err := p.nameArgument(cmd, args[1:]); err != nil {
				return err
			}
			c, _, err := p.ask(openers, "member")
			if err != nil {
				return err
			}
			defer c.Close()
			tell := func(step string) { fmt.Fprintln(cmd.ErrOrStderr(), "elect: "+step) }
			var done *peer.MemberChange
			switch verb {
			case "add":
				done, err = c.AddMember(cmd.Context(), node, observer, tell)
			case "remove":
				done, err = c.RemoveMember(cmd.Context(), node.ID, tell)
			default:
				done, err = c.ReplaceMember(cmd.Context(), node, tell)
			}
			if err != nil {
				return ofChange(err, p.name)
			}
			if verb == "remove" && !done.Changed {
				return exit.With(exit.Unavailable, fmt.Errorf("%s is no member, and nothing was changed; membership %s has %s", node.ID, done.Membership.Version(), describe(&done.Membership)))
			}
			m := changed{Election: p.shown(), Name: p.name, MemberChange: done}
			for _, w := range done.Warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "elect: "+w)
			}
			return format.write(cmd.OutOrStdout(), m, m.write)
		},
	}
	p.flags(cmd.Flags())
	if observers {
		cmd.Flags().BoolVar(&observer, "observer", false, "make it an observer, which never votes or leads")
	}
	format.flag(cmd.Flags())
	return cmd
}

// parseMember reads ID or ID@HOST:PORT.
func parseMember(verb, text string) (peer.Peer, error) {
	id, addr, found := strings.Cut(text, "@")
	node := peer.Peer{ID: id, Addr: addr}
	if _, err := protocol.ParseNodeID(id); err != nil {
		return node, err
	}
	switch {
	case verb == "add" && !found:
		return node, errors.New("it has no address")
	case verb == "remove" && found:
		return node, errors.New("a node is removed by its id alone")
	case found:
		return node, node.Check()
	}
	return node, nil
}

// ofChange gives the error of a change of membership its exit code.
func ofChange(err error, name string) error {
	switch {
	case errors.Is(err, elect.ErrUnknownOutcome):
		return exit.With(exit.Lost, err)
	case errors.Is(err, peer.ErrRefused):
		return exit.With(exit.Unavailable, err)
	case errors.Is(err, elect.ErrNoLeader):
		return exit.With(exit.NoLeader, fmt.Errorf("nobody leads %s, and a change needs a leader: %w", name, err))
	}
	return failed.Backend(err)
}

// changed is the result of a change of membership. Fields are added, and never renamed or removed.
type changed struct {
	Election string `json:"election"`
	Name     string `json:"name"`
	*peer.MemberChange
}

func (c changed) write(w io.Writer) error {
	m := &c.Membership
	what := "changed"
	if !c.Changed {
		what = "unchanged"
	}
	_, err := fmt.Fprintf(w, "%s: membership %s of %s\n", what, m.Version(), describe(m))
	return err
}

// describe lists the participants in words.
func describe(m *peer.MembershipStatus) string {
	var voters, observers []string
	for _, v := range m.Voters {
		voters = append(voters, v.ID)
	}
	for _, o := range m.Observers {
		observers = append(observers, o.ID)
	}
	text := "the voters " + strings.Join(voters, ", ")
	if len(voters) == 1 {
		text = "the voter " + voters[0]
	}
	if len(observers) > 0 {
		text += "; observers " + strings.Join(observers, ", ")
	}
	return text
}
