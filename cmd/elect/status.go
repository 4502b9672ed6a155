package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

const statusHelp = `Show the leader of an election, since when it leads, and its token. The name is an
argument or that of --name. Below an elect run the default is its election. Without a
name, all elections that were held at the place are shown.

Among peers with certificates it needs one, of any role.

Exit codes:
  0   there is a leader; without a name: of one election at least
  3   there is no leader
  69  the back end cannot tell

-o json writes one object on one line, or without a name an array of objects:
  election  the URL, without its password
  name      the name of the election
  leader    null, or an object:
              id        the id of the leader
              token     its token, as a string of decimal digits
              since     when it was elected, by its own wall clock, RFC 3339
              metadata  what it says about itself; omitted if there is none. Of elect
                        run: contain, the level in force, and with --guard also
                        guard, which is network, or none where it is not possible
              no_lease  true: its protocol has no leases, and another node may
                        believe that it leads; else omitted
  stale     true: the back end did not answer, and leader is the last one known
  cause     why nothing better is known; omitted if there is nothing to say
  warnings  for one election among peers: certificates of nodes and of this client
            that expire soon; omitted if there are none. They are also on stderr
  private   true: the place is in your home or state directory, and elections of
            the same name of other users are different ones; else omitted
-o yaml writes the same on several lines.`

func newStatus(openers elect.Openers) *cobra.Command {
	var p place
	var format form
	cmd := &cobra.Command{
		Use:     "status [flags] [NAME]",
		Short:   "show the leader, since when it leads, its token",
		Long:    statusHelp,
		Example: "  elect status nightly\n  elect status --election file:/var/lib/elect nightly -o json\n  elect status",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.nameArgument(cmd, args); err != nil {
				return err
			}
			if p.name == "" && !cmd.Flags().Changed("name") {
				return statusOfAll(cmd, openers, p, format)
			}
			warnings := p.certificates(cmd, openers)
			s, err := p.state(cmd, openers)
			if err != nil {
				return err
			}
			v := p.view(s)
			v.Warnings = <-warnings
			for _, w := range v.Warnings {
				fmt.Fprintf(cmd.ErrOrStderr(), "elect: %s\n", w)
			}
			if err := format.write(cmd.OutOrStdout(), v, func(w io.Writer) error { return p.writeTable(w, v) }); err != nil {
				return err
			}
			return p.verdict(s)
		},
	}
	p.flags(cmd.Flags())
	format.flag(cmd.Flags())
	return cmd
}

// warnLimit bounds how long a status waits for the nodes' warnings about certificates.
const warnLimit = time.Second

// certificates asks nodes for their warnings about certificates, in the background; for elections other than those
// among peers it does nothing.
func (p *place) certificates(cmd *cobra.Command, openers elect.Openers) <-chan []string {
	told := make(chan []string, 1)
	if !p.isPeer() {
		close(told)
		return told
	}
	c, _, err := p.ask(openers, "status")
	if err != nil || c.Certificate() == nil { // the error is reported when the election is opened
		close(told)
		return told
	}
	go func() {
		defer c.Close()
		ctx, cancel := within(cmd, warnLimit)
		defer cancel()
		warnings := slices.Clone(c.Certificate().Warnings)
		for _, r := range c.Statuses(ctx) {
			if r.Status != nil && r.Status.Certificate != nil {
				for _, w := range r.Status.Certificate.Warnings {
					warnings = append(warnings, fmt.Sprintf("%s: %s", r.Peer.ID, cli.OneLine(w)))
				}
			}
		}
		told <- warnings
	}()
	return told
}

// statusOfAll shows the elections of a place.
func statusOfAll(cmd *cobra.Command, openers elect.Openers, p place, format form) error {
	if err := p.resolveURL(openers); err != nil {
		return err
	}
	names, err := p.names()
	switch {
	case errors.Is(err, elect.ErrUnsupported):
		if u, err := elect.ParseURL(p.election); err != nil || openers[u.Scheme] == nil {
			p.name = "any"
			_, err := p.open(cmd, openers) // its error says what is wrong with the URL
			return err
		}
		if isGroup(p.election) {
			return exit.Usagef("elect status shows one election of the group at %s; want a name, such as elect status nightly, or elect group keys", p.shown())
		}
		return exit.Usagef("the elections at %s cannot be listed; want a name, such as elect status nightly", p.shown())
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return failed.Opening(err)
	}
	var unknown error
	views, led, verdict := []view{}, false, p.nobody(names, err)
	for _, p.name = range names {
		s, err := p.state(cmd, openers)
		if err != nil {
			return err
		}
		views, led = append(views, p.view(s)), led || s.Leader != nil
		if s.Stale {
			unknown = p.verdict(s)
		}
	}
	err = format.write(cmd.OutOrStdout(), views, func(w io.Writer) error { return p.writeTable(w, views...) })
	switch {
	case err != nil:
		return err
	case unknown != nil:
		return unknown
	case led:
		return nil
	}
	return verdict
}

// state opens the election and observes it once.
func (p *place) state(cmd *cobra.Command, openers elect.Openers) (elect.State, error) {
	e, err := p.open(cmd, openers)
	if err != nil {
		return elect.State{}, err
	}
	defer e.Close()
	for s, err := range e.Watch(cmd.Context()) {
		return s, failed.Backend(err)
	}
	return elect.State{}, failed.Backend(elect.ErrClosed)
}

// verdict returns the error of a state, for the exit code.
func (p *place) verdict(s elect.State) error {
	switch {
	case s.Stale:
		return exit.With(exit.Unavailable, fmt.Errorf("cannot tell who leads %s: %w", p.name, cmp.Or(s.Cause, errors.New("the back end did not answer"))))
	case s.Leader == nil && s.Cause != nil:
		return exit.With(exit.NoLeader, s.Cause)
	case s.Leader == nil:
		names, err := p.names()
		return p.nobody(names, err)
	}
	return nil
}

// nobody is the exit code without a leader, with a hint if the place or the name may be wrong: names and err are
// those of [place.names].
func (p *place) nobody(names []string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exit.With(exit.NoLeader, fmt.Errorf("no election was held at %s: the directory does not exist", p.shown()))
	case err == nil && len(names) == 0:
		return exit.With(exit.NoLeader, fmt.Errorf("no election was held at %s", p.shown()))
	case err == nil && p.name != "" && !slices.Contains(names, p.name):
		return exit.With(exit.NoLeader, fmt.Errorf("no election of the name %s was held at %s", p.name, p.shown()))
	}
	return exit.Silent(exit.NoLeader)
}

// writeTable writes the states, and a note if the place belongs to this user alone: a user who shares a machine with
// others may look for another user's leader here.
func (p *place) writeTable(w io.Writer, views ...view) error {
	if err := writeTable(w, views...); err != nil || !p.private() {
		return err
	}
	_, err := fmt.Fprintf(w, "at %s, which is private to %s: other users' elections of these names are different ones\n", p.shown(), userName())
	return err
}

// userName is this user, for people.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("user %d", os.Geteuid())
}

func writeTable(w io.Writer, views ...view) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tLEADER\tTOKEN\tSINCE")
	for _, v := range views {
		switch l := v.Leader; {
		case l == nil:
			fmt.Fprintf(t, "%s\t%s\t-\t-\n", v.Name, v.nobody())
		case l.Since.IsZero():
			fmt.Fprintf(t, "%s\t%s\t%v\t-\n", v.Name, leaderText(l), l.Token)
		default:
			ago := max(time.Since(l.Since), 0).Round(time.Second)
			fmt.Fprintf(t, "%s\t%s\t%v\t%s (%v ago)\n", v.Name, leaderText(l), l.Token, timestamp(l.Since), ago)
		}
	}
	return t.Flush()
}

const nobody = "(nobody)"

// nobody is the text in place of a leader, for people.
func (v *view) nobody() string {
	if v.Stale {
		return "(not known)"
	}
	return nobody
}
