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

const memberHelp = `Change who takes part in an election among peers, while it goes on: one node at a
time, each time with the consent of a majority. The leader does it; any node that
answers passes it on.

  elect member add ID@HOST:PORT       make it a voter, or with --observer an observer
  elect member remove ID              take it out
  elect member replace ID[@HOST:PORT] give its vote to another disk, or move it

Where the nodes have certificates it needs one with the role administer: elect certs
--role administer makes it. A change that is not safe now is refused with the reason,
and nothing changes. If a change of several steps ends half-way, the command says what
holds, and the same command goes on from there. A change that is already made is no
error, except the removal of an id that is no member.

`

const memberCodes = `It says what it does while it does it, on stderr. -o json writes one object on one
line: election, name, changed (false: it was so already), steps, membership as elect
members has it, and warnings.

Exit codes: 0 it is so; 3 nobody leads; 69 it was refused, or the leader did not
answer; 75 the outcome is not known, because the leader was lost on the way: elect
members shows what holds, and the command may be repeated; 77 the certificate has not
the role administer.`

const memberAddHelp = `Make a node a voter, or with --observer an observer. It must run before, with
join=true in its URL, in which it is listed itself:

  elect run --election 'peer://n1@…,n2@…,n3@…,n4@10.0.0.4:7400?join=true' --id n4 -- ./job

It waits then, and says so. It becomes an observer first, so that it is connected and
has the membership on its disk, and then a voter. An observer is made a voter by adding
it. To add a voter, a majority of the voters that there will be must answer without it.

`

const memberRemoveHelp = `Take a voter or an observer out. Its process need not run. If it does, it is told, does
not disturb the others, and elect run ends with 69. The leader cannot be removed: let
it hand over first, with elect transfer. A majority of the voters that are left must
answer. An id that is no member, or no member any more, is refused with 69 and a list
of the members. So is the same command when it is repeated after it was done.

`

const memberReplaceHelp = `Give the vote of ID to another data directory: that of the process that runs at
HOST:PORT, or where ID was before, with join=true in its URL. Use it when the disk of
ID was lost. The old directory is removed, and then the new one is added, as by
elect member add. If that process has the directory of ID, ID moves to HOST:PORT.
After an interruption, repeat the command: it goes on from there, also if the old
directory is removed already or the new one is an observer. A node that is an observer
by its own URL is refused, because it had no vote.

`

func newMember(openers elect.Openers) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "member",
		Short: "change who takes part: add, remove, replace",
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
		newMemberChange(openers, "remove ID", "take a node out", memberRemoveHelp, "  elect member remove n1 --name scheduler", false),
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
	case errors.Is(err, peer.ErrUnknown):
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
		what = "it was so already"
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
