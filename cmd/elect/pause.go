package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/peer"
)

const pauseHelp = `Pause nodes of an election among peers: a paused node does not stand until it is
resumed. --node names a voter and may be given several times. --all means all voters
that answer. A paused node still votes, and stays paused after a restart. A leader that
is paused gives up leadership: its work is stopped, within its own --grace, and the
next candidate leads. If all voters are paused there is no leader, and elect status
says so.

Where the nodes have certificates it needs one with the role operate. pause returns
when the nodes have saved it. With --all, or if every voter is paused then, it also
waits until there is no leader, for 10 s at most, and prints what it has seen. elect
members and elect history show which nodes are paused, since when and by whom.

`

const resumeHelp = `Resume paused nodes: they may stand again. --node names a voter and may be given
several times. --all means all voters that answer. A node that is not paused stays as
it is. Where the nodes have certificates it needs one with the role operate.

`

const pauseCodes = `-o json writes one object on one line: election, name and nodes, a list of objects with
id, paused (null if the node did not do it) and error (only then). If pause has waited
until there is no leader, the object also has leader: null, or the id of the last
leader seen.

Exit codes:
  0   all nodes of --node have done it, or with --all those that answered; stderr names
      the others
  69  a node of --node has not done it, or no node has
  77  the certificate does not have the role operate`

func newPause(openers elect.Openers) *cobra.Command {
	return pausing(openers, true, "pause", "keep nodes from standing until they are resumed", pauseHelp+pauseCodes,
		"  elect pause scheduler --node n2      # before its machine is serviced\n  elect resume scheduler --node n2\n  elect pause scheduler --all          # no leader at all")
}

func newResume(openers elect.Openers) *cobra.Command {
	return pausing(openers, false, "resume", "let paused nodes stand again", resumeHelp+pauseCodes,
		"  elect resume scheduler --all")
}

func pausing(openers elect.Openers, on bool, verb, short, long, example string) *cobra.Command {
	var p place
	var format form
	var nodes []string
	var all bool
	cmd := &cobra.Command{
		Use:     verb + " [flags] [NAME]",
		Short:   short,
		Long:    long,
		Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.nameArgument(cmd, args); err != nil {
				return err
			}
			switch {
			case all && len(nodes) > 0:
				return exit.Usagef("%s: --all and --node contradict each other; want one of them", verb)
			case !all && len(nodes) == 0:
				return exit.Usagef("%s: no node is given; want --node ID, or --all for every voter", verb)
			}
			c, _, err := p.ask(openers, verb)
			if err != nil {
				return err
			}
			defer c.Close()
			ctx, cancel := within(cmd, orderTimeout)
			defer cancel()
			which, err := p.pausable(peer.Newest(c.Members(ctx)), nodes)
			if err != nil {
				return err
			}
			r := setPaused(ctx, c, which, on)
			r.Election, r.Name = p.shown(), p.name
			if on && slices.ContainsFunc(r.Nodes, func(n pausedNode) bool { return n.err == nil }) && (all || allPaused(c.Members(ctx))) {
				r.awaitNobody(cmd, c)
			}
			if err := format.write(cmd.OutOrStdout(), r, r.write); err != nil {
				return err
			}
			return r.verdict(cmd.ErrOrStderr(), len(nodes) > 0)
		},
	}
	p.flags(cmd.Flags())
	cmd.Flags().StringSliceVar(&nodes, "node", nil, "`ID` of a voter; may be given several times")
	cmd.Flags().BoolVar(&all, "all", false, "all voters that answer")
	format.flag(cmd.Flags())
	return cmd
}

// allPaused reports whether every voter is known to be paused: then there is no leader.
func allPaused(nodes []peer.NodeResult) bool {
	newest := peer.Newest(nodes)
	if newest == nil {
		return false
	}
	for _, v := range newest.Voters {
		if !slices.ContainsFunc(nodes, func(r peer.NodeResult) bool { return r.Peer.ID == v.ID && r.Status != nil && r.Status.Paused }) {
			return false
		}
	}
	return true
}

// pausable are the selected nodes: those named, or all voters of the newest membership, or those of the URL if no
// node reports one.
func (p *place) pausable(newest *peer.MembershipStatus, named []string) ([]string, error) {
	listed, cfg, err := p.peers()
	if err != nil {
		return nil, err
	}
	var voters, observers []string
	if newest != nil {
		for _, v := range newest.Voters {
			voters = append(voters, v.ID)
		}
		for _, o := range newest.Observers {
			observers = append(observers, o.ID)
		}
	} else {
		for _, v := range listed {
			voters = append(voters, v.ID)
		}
		for _, o := range cfg.Observers {
			observers = append(observers, o.ID)
		}
	}
	if len(named) == 0 {
		return voters, nil
	}
	var which []string
	for _, n := range named {
		switch {
		case slices.Contains(observers, n):
			return nil, exit.Usagef("--node %s: an observer never stands; want some of the voters: %s", n, strings.Join(voters, ", "))
		case !slices.Contains(voters, n):
			return nil, exit.Usagef("--node %q is no voter of this election; want some of: %s", n, strings.Join(voters, ", "))
		case !slices.Contains(which, n):
			which = append(which, n)
		}
	}
	return which, nil
}

// paused is the output of pause and resume. Fields are added, and never renamed or removed.
type paused struct {
	Election string       `json:"election"`
	Name     string       `json:"name"`
	Nodes    []pausedNode `json:"nodes"`
	Leader   any          `json:"leader,omitempty"` // after a wait until there is no leader: an id, or null

	on   bool
	then string // the present leader, for people
}

type pausedNode struct {
	ID     string `json:"id"`
	Paused *bool  `json:"paused"` // null where it is not known
	Error  string `json:"error,omitempty"`

	err error
}

// setPaused asks all nodes at the same time.
func setPaused(ctx context.Context, c *peer.Client, which []string, on bool) *paused {
	r := &paused{Nodes: make([]pausedNode, len(which)), on: on}
	ask := c.Resume
	if on {
		ask = c.Pause
	}
	var asking sync.WaitGroup
	for i, id := range which {
		asking.Go(func() {
			n := pausedNode{ID: id, Paused: &on}
			if n.err = ask(ctx, id); n.err != nil {
				n.Paused, n.Error = nil, cli.OneLine(n.err.Error())
			}
			r.Nodes[i] = n
		})
	}
	asking.Wait()
	return r
}

func (r *paused) write(w io.Writer) error {
	is := "is resumed"
	if r.on {
		is = "is paused"
	}
	for _, n := range r.Nodes {
		if n.err == nil {
			if _, err := fmt.Fprintf(w, "%s %s\n", n.ID, is); err != nil {
				return err
			}
		}
	}
	if r.then == "" {
		return nil
	}
	_, err := fmt.Fprintln(w, r.then)
	return err
}

// awaitNobody waits until no leader is seen, and records what it saw.
func (r *paused) awaitNobody(cmd *cobra.Command, c *peer.Client) {
	ctx, cancel := within(cmd, orderTimeout)
	defer cancel()
	r.Leader, r.then = json.RawMessage("null"), fmt.Sprintf("the leader of %s was not seen within %v", r.Name, orderTimeout)
	for s, err := range c.Watch(ctx) {
		switch {
		case err != nil || s.Stale:
		case s.Leader != nil:
			r.Leader, r.then = s.Leader.ID, fmt.Sprintf("%s still leads %s after %v: its work has not ended yet, or it is not paused", s.Leader.ID, r.Name, orderTimeout)
		default:
			r.Leader, r.then = json.RawMessage("null"), fmt.Sprintf("nobody leads %s now", r.Name)
			return
		}
	}
}

// verdict names on stderr the nodes that did not comply.
func (r *paused) verdict(stderr io.Writer, named bool) error {
	var failed []string
	for _, n := range r.Nodes {
		if n.err != nil {
			failed = append(failed, fmt.Sprintf("%s: %s", n.ID, n.Error))
		}
	}
	switch {
	case len(failed) == 0:
		return nil
	case named || len(failed) == len(r.Nodes):
		code := exit.Unavailable
		if slices.ContainsFunc(r.Nodes, func(n pausedNode) bool { return errors.Is(n.err, peer.ErrNotPermitted) }) {
			code = exit.NotPermitted
		}
		return exit.With(code, errors.New(strings.Join(failed, "; ")))
	}
	fmt.Fprintf(stderr, "elect: not done by %s\n", strings.Join(failed, "; "))
	return nil
}
