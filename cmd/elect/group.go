package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/group"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

const groupHelp = `Show and change a group: many keys, which its coordinator hands to its members.

  elect group status            the coordinator, and how many members and keys there are
  elect group members           the members, and how many keys each of them holds
  elect group keys [KEY]        all keys, or one, and who holds them
  elect group plan              what the coordinator would move next, and why
  elect group move KEY --to ID  move a key to a member
  elect group drain ID          empty a member; --off lets it have keys again
  elect group watch             the status, and each change
  elect group top               the members, their keys and alerts on one screen, live

--election is the URL of the group, such as group+file:/var/lib/myjob, or that of its
coordinator's election; the group's name is its parameter group-name. The command asks
the coordinator. It is no member, and no candidate.

`

const groupCodes = `Exit codes:
  0   done
  3   there is no coordinator, or nobody holds the key
  64  the command line is wrong, such as a key that is too long
  69  the coordinator did not answer, or refused, and said why`

// groupVerb is a verb of elect group, which asks one client.
type groupVerb struct {
	use, short, long, example string
	args                      int // that it needs; one more is allowed if may
	may                       bool
	flags                     func(*cobra.Command)
	check                     func(args []string) error
	run                       func(ctx context.Context, cmd *cobra.Command, c *group.Client, p *place, f form, args []string) error
	watches                   bool // it goes on until it is interrupted
}

func newGroup(openers elect.Openers) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "group",
		Short:   "show and change a group of keys: status, members, keys, plan, move, drain, watch, top",
		Long:    groupHelp + groupCodes,
		Example: "  elect group status --election group+file:/var/lib/myjob\n  elect group drain m1 --wait 1m",
		Args:    cli.VerbOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return exit.Silent(exit.Usage)
		},
	}
	for _, v := range []groupVerb{groupStatus(), groupMembers(), groupKeys(), groupPlan(), groupMove(), groupDrain(), groupWatch(), groupTop()} {
		cmd.AddCommand(v.command(openers))
	}
	return cmd
}

func (v groupVerb) command(openers elect.Openers) *cobra.Command {
	var p place
	var format form
	verb, what, _ := strings.Cut(v.use, " ")
	cmd := &cobra.Command{
		Use: strings.TrimSpace(verb + " [flags] " + what), Short: v.short, Long: v.long + "\n\n" + groupCodes, Example: v.example,
		RunE: func(cmd *cobra.Command, args []string) error {
			most := v.args
			if v.may {
				most++
			}
			if len(args) < v.args || len(args) > most {
				return exit.Usagef("group %s: %d arguments; want %s", verb, len(args), strings.TrimSpace("elect group "+v.use))
			}
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			if v.check != nil {
				if err := v.check(args); err != nil {
					return err
				}
			}
			c, err := p.openGroup(cmd, openers)
			if err != nil {
				return err
			}
			defer c.Close()
			ctx, cancel := within(cmd, orderTimeout)
			if v.watches {
				cancel()
				ctx, cancel = signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			}
			defer cancel()
			return v.run(ctx, cmd, c, &p, format, args)
		},
	}
	cmd.Flags().StringVar(&p.election, "election", "", "`URL` of the group, or of its coordinator's election (default: file: in your state directory)")
	if v.flags != nil {
		v.flags(cmd)
	}
	format.flag(cmd.Flags())
	return cmd
}

// openGroup resolves the place, and opens a client of the group that is there.
func (p *place) openGroup(cmd *cobra.Command, openers elect.Openers) (*group.Client, error) {
	if err := p.resolveURL(openers); err != nil {
		return nil, err
	}
	return openGroupURL(cmd.Context(), openers, p.election)
}

// openGroupURL opens a client of the group that a URL names.
func openGroupURL(ctx context.Context, openers elect.Openers, of string) (*group.Client, error) {
	u, err := elect.ParseURL(of)
	if err != nil {
		return nil, exit.Usagef("the election URL does not parse; want one such as group+file:/var/lib/myjob")
	}
	scheme := strings.TrimPrefix(u.Scheme, groupPrefix)
	inner := openers[scheme]
	if inner == nil {
		return nil, exit.Usagef("the election URL has the unknown scheme %q; want one such as group+file:/var/lib/myjob", u.Scheme)
	}
	c, err := group.OpenClient(ctx, inner, u, groupCertsOf(scheme))
	return c, failed.Opening(err)
}

// groupView is the status as -o json shows it. Fields are added, and never renamed or removed.
type groupView struct {
	Time     time.Time `json:"time,omitzero"` // watch only
	Election string    `json:"election"`
	group.Status
}

func (v *groupView) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GROUP\tCOORDINATOR\tTOKEN\tMEMBERS\tKEYS\tHELD\tMOVING")
	fmt.Fprintf(t, "%s\t%s%s\t%v\t%d\t%d\t%d\t%d\n", v.Group, v.Coordinator, v.covering(), v.Token, len(v.Members), v.Keys, v.Held, v.Moving)
	return t.Flush()
}

// covering is what people read of a coordinator that is new.
func (v *groupView) covering() string {
	if v.Covering {
		return " (new)"
	}
	return ""
}

const groupStatusFields = `-o json writes one object on one line:
  election     the URL
  group        its name
  coordinator  the id of that member
  token        of its term, a string
  covering     true: it is new, and waits for members that may hold keys before it
               hands out free ones; else omitted
  members      a list, as elect group members -o json has it
  keys         how many keys the coordinator knows
  held         how many of them are held
  moving       how many are on their way to another member
  moves        how many moves the coordinator has begun since it joined the group
  version      rises with each change, under one token
-o yaml writes the same on several lines.`

func groupStatus() groupVerb {
	return groupVerb{
		use: "status", short: "show the coordinator, and how many members and keys there are",
		long:    "Show who coordinates a group, and how many members and keys it has.\n\n" + groupStatusFields,
		example: "  elect group status --election group+file:/var/lib/myjob",
		run: func(ctx context.Context, cmd *cobra.Command, c *group.Client, p *place, f form, _ []string) error {
			s, err := c.Status(ctx)
			if err != nil {
				return failed.Backend(err)
			}
			v := groupView{Election: p.shown(), Status: s}
			return f.write(cmd.OutOrStdout(), v, v.write)
		},
	}
}

func groupMembers() groupVerb {
	return groupVerb{
		use: "members", short: "show the members, and how many keys each of them holds",
		long: `Show the members of a group as its coordinator sees them.

-o json writes a list of objects on one line:
  id        of the member
  address   where its connection comes from; omitted without one
  attached  it is connected
  admitted  it can get keys
  draining  it is to be emptied; omitted if not
  weight    its share of the keys in proportion to the others' weights
  zone      where it runs; omitted if not said
  keys      how many it holds
-o yaml writes the same on several lines.`,
		example: "  elect group members --election group+file:/var/lib/myjob",
		run: func(ctx context.Context, cmd *cobra.Command, c *group.Client, _ *place, f form, _ []string) error {
			s, err := c.Status(ctx)
			if err != nil {
				return failed.Backend(err)
			}
			return f.write(cmd.OutOrStdout(), s.Members, func(w io.Writer) error {
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(t, "MEMBER\tKEYS\tWEIGHT\tZONE\tSTATE\tADDRESS")
				for _, m := range s.Members {
					state := "ready"
					switch {
					case !m.Attached:
						state = "not connected"
					case m.Draining:
						state = "draining"
					case !m.Admitted:
						state = "not admitted yet"
					}
					if m.ID == s.Coordinator {
						state += ", coordinator"
					}
					fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\n", m.ID, m.Keys, m.Weight, dash(m.Zone), state, dash(m.Address))
				}
				return t.Flush()
			})
		},
	}
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func groupKeys() groupVerb {
	return groupVerb{
		use: "keys [KEY]", may: true, short: "show all keys, or one, and who holds them",
		long: `Show the keys that the coordinator of a group knows, or one of them, which has to be
known. The coordinator knows a key while a member holds it or wants it.

-o json writes a list of objects on one line:
  key      its name
  holder   the member that holds it; omitted if nobody does
  token    of the holder, a string; with holder only
  next     the member that it is on its way to; omitted if it stays
  pinned   true: it was moved to a member by name, and stays there; else omitted
  overrun  true: work of an earlier holder still runs; else omitted
-o yaml writes the same on several lines.`,
		example: "  elect group keys --election group+file:/var/lib/myjob\n  elect group keys nightly -o json",
		check:   checkKey,
		run: func(ctx context.Context, cmd *cobra.Command, c *group.Client, _ *place, f form, args []string) error {
			only := strings.Join(args, "")
			all, err := c.Keys(ctx, only)
			if err != nil {
				return failed.Backend(err)
			}
			if only != "" && len(all) == 0 {
				return exit.With(exit.NoLeader, fmt.Errorf("the coordinator knows no key %q; want one that is held, or that a member wants: see elect group keys", only))
			}
			return f.write(cmd.OutOrStdout(), all, func(w io.Writer) error {
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(t, "KEY\tHOLDER\tTOKEN\tNEXT")
				for _, k := range all {
					holder, token := nobody, "-"
					if k.Holder != "" {
						holder, token = k.Holder, fmt.Sprint(k.Token)
					}
					if k.Pinned {
						holder += " (pinned)"
					}
					if k.Overrun {
						holder += " (overrun)"
					}
					fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", k.Key, holder, token, dash(k.Next))
				}
				return t.Flush()
			})
		},
	}
}

// checkKey refuses a first argument that is no name of a key.
func checkKey(args []string) error {
	if len(args) == 0 {
		return nil
	}
	if err := driver.CheckName(args[0]); err != nil {
		return exit.Usagef("the key: %w", err)
	}
	return nil
}

func groupPlan() groupVerb {
	return groupVerb{
		use: "plan", short: "show what the coordinator would move next, and why",
		long: `Ask the coordinator of a group which keys it would move, and why, and which keys it can
give to no member. The command changes nothing: the coordinator begins the moves under
now by itself. Those under later wait until no member has come or gone for a while, or
for the limits of the placement, and may change until then.

-o json writes one object on one line:
  now      a list of moves that begin now: key, from (omitted if nobody holds it),
           to, reason, cause (a word)
  later    a list of moves that wait
  idle     a list of keys that can be given to nobody: key, reason
  omitted  how many more there are: each list has 10,000 entries at most; omitted if
           there are no more
-o yaml writes the same on several lines.`,
		example: "  elect group plan --election group+file:/var/lib/myjob",
		run: func(ctx context.Context, cmd *cobra.Command, c *group.Client, _ *place, f form, _ []string) error {
			plan, err := c.Plan(ctx)
			if err != nil {
				return failed.Backend(err)
			}
			return f.write(cmd.OutOrStdout(), plan, func(w io.Writer) error { return writePlan(w, &plan) })
		},
	}
}

func writePlan(w io.Writer, plan *group.Plan) error {
	if len(plan.Now)+len(plan.Later)+len(plan.Idle) == 0 {
		_, err := fmt.Fprintln(w, "every key is where it should be")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tFROM\tTO\tWHEN\tWHY")
	for i, m := range slices.Concat(plan.Now, plan.Later) {
		when := "now"
		if i >= len(plan.Now) {
			when = "later"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", m.Key, dash(m.From), m.To, when, m.Reason)
	}
	for _, i := range plan.Idle {
		fmt.Fprintf(t, "%s\t-\t-\tnever\t%s\n", i.Key, i.Reason)
	}
	if plan.Omitted > 0 {
		fmt.Fprintf(t, "and %d more\n", plan.Omitted)
	}
	return t.Flush()
}

func groupMove() groupVerb {
	var to string
	var unpin bool
	wait := transferWait
	return groupVerb{
		use: "move KEY", args: 1, short: "move a key to a member",
		long: `Move a key that is held to the member --to, and wait until that holds it, for --wait at
most. Its holder's work is stopped first, and has to return. The coordinator refuses a
move that is not possible, and says why: nobody holds the key, or the member does not
want it or is being drained.

The key is pinned then: placement does not move it away, and evens the load out with
other keys. The pin ends when the member gives the key up, dies, is drained or loses its
claim, when the key is moved elsewhere, or with --unpin, which moves nothing by itself.
A new coordinator learns of it from the member.

-o json writes one object on one line: key, from and to. from and to have id and token,
a string. With --unpin it is key and pinned.`,
		example: "  elect group move nightly --to m2 --election group+file:/var/lib/myjob\n  elect group move nightly --unpin",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&to, "to", "", "`ID` of the member")
			cmd.Flags().BoolVar(&unpin, "unpin", false, "let placement move a key again that was moved to a member")
			cmd.Flags().Var(cli.Duration(&wait), "wait", "`TIME` to wait until the member holds the key")
		},
		check: func(args []string) error {
			if unpin && to != "" {
				return exit.Usagef("group move: --to and --unpin are given; want one of them")
			}
			if unpin {
				return checkKey(args)
			}
			if to == "" {
				return exit.Usagef("group move: --to is missing; want the ID of a member: see elect group members")
			}
			if err := driver.CheckID(to); err != nil {
				return exit.Usagef("--to: %w", err)
			}
			return checkKey(args)
		},
		run: func(ctx context.Context, cmd *cobra.Command, c *group.Client, _ *place, f form, args []string) error {
			key := args[0]
			if unpin {
				if err := c.Unpin(ctx, key); err != nil {
					return failed.Backend(err)
				}
				u := groupUnpinned{Key: key}
				return f.write(cmd.OutOrStdout(), u, u.write)
			}
			old, _ := c.Lookup(ctx, key) // if nobody holds it, the answer to Move says so in more words
			if err := c.Move(ctx, key, to); err != nil {
				return failed.Backend(err)
			}
			ctx, cancel := within(cmd, wait)
			defer cancel()
			for range c.Watch(ctx) {
				now, err := c.Lookup(ctx, key)
				if err == nil && now.Token > old.Token {
					m := groupMoved{Key: key, From: party{old.ID, old.Token}, To: party{now.ID, now.Token}}
					if now.ID != to {
						return exit.With(exit.Unavailable, fmt.Errorf("%s was to get %s, and %s holds it (token %v)", to, key, now.ID, now.Token))
					}
					return f.write(cmd.OutOrStdout(), m, m.write)
				}
			}
			return exit.With(exit.Unavailable, fmt.Errorf("%s has agreed that %s moves to %s, which does not hold it after %v", old.ID, key, to, wait))
		},
	}
}

type groupUnpinned struct {
	Key    string `json:"key"`
	Pinned bool   `json:"pinned"`
}

func (u groupUnpinned) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s may move again\n", u.Key)
	return err
}

type groupMoved struct {
	Key  string `json:"key"`
	From party  `json:"from"`
	To   party  `json:"to"`
}

func (m groupMoved) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s holds %s (token %v); %s (token %v) has given it up\n", m.To.ID, m.Key, m.To.Token, m.From.ID, m.From.Token)
	return err
}

func groupDrain() groupVerb {
	var off bool
	var wait time.Duration
	return groupVerb{
		use: "drain ID", args: 1, short: "empty a member, or let it have keys again",
		long: `Have a member of a group give up all its keys, each when its work has returned, to
members that want them, and get no others: for use before it or its machine is stopped.
With --off it gets keys again. With --wait the command ends when the member holds
nothing. A key that no other member wants stays; see elect group plan. A member that is
started again is not drained.

-o json writes one object on one line: id, draining, and keys, how many it holds.`,
		example: "  elect group drain m1 --wait 1m --election group+file:/var/lib/myjob\n  elect group drain m1 --off",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().BoolVar(&off, "off", false, "let it have keys again")
			cmd.Flags().Var(cli.Duration(&wait), "wait", "`TIME` to wait until the member holds nothing")
		},
		check: func(args []string) error {
			if off && wait > 0 {
				return exit.Usagef("--wait is for a member that is emptied; leave out --off, or --wait")
			}
			if err := driver.CheckID(args[0]); err != nil {
				return exit.With(exit.Usage, err)
			}
			return nil
		},
		run: func(ctx context.Context, cmd *cobra.Command, c *group.Client, _ *place, f form, args []string) error {
			id := args[0]
			if err := c.Drain(ctx, id, !off); err != nil {
				return failed.Backend(err)
			}
			limit := cmp.Or(wait, orderTimeout)
			ctx, cancel := within(cmd, limit)
			defer cancel()
			d := groupDrained{ID: id, Draining: !off}
			for s, err := range c.Watch(ctx) {
				if err != nil {
					break
				}
				d.Keys = 0
				took := false // the member has told the coordinator
				for _, m := range s.Members {
					if m.ID == id {
						d.Keys, took = m.Keys, m.Draining == !off
					}
				}
				if took && (wait == 0 || d.Keys == 0) {
					return f.write(cmd.OutOrStdout(), d, d.write)
				}
			}
			return exit.With(exit.Unavailable, fmt.Errorf("%s still holds %d keys after %v; elect group plan says why", id, d.Keys, limit))
		},
	}
}

type groupDrained struct {
	ID       string `json:"id"`
	Draining bool   `json:"draining"`
	Keys     int    `json:"keys"`
}

func (d groupDrained) write(w io.Writer) (err error) {
	switch {
	case !d.Draining:
		_, err = fmt.Fprintf(w, "%s gets keys again\n", d.ID)
	case d.Keys == 0:
		_, err = fmt.Fprintf(w, "%s is drained, and holds nothing\n", d.ID)
	default:
		_, err = fmt.Fprintf(w, "%s is being drained, and holds %d keys\n", d.ID, d.Keys)
	}
	return err
}

func groupWatch() groupVerb {
	return groupVerb{
		use: "watch", watches: true, short: "show the status, and each change",
		long: `Show the status of a group, and again after each change, one line each, until it is
interrupted. Changes that come quickly one after the other are one line. While there is
no coordinator nothing is shown; if there is none at first, the exit code is 3.

-o json writes one object a line (NDJSON): that of elect group status -o json, and
  time  when the change was seen, RFC 3339
-o yaml writes each of them as a document, after a line of ---.`,
		example: "  elect group watch --election group+file:/var/lib/myjob",
		run: func(ctx context.Context, cmd *cobra.Command, c *group.Client, p *place, f form, _ []string) error {
			first, cancel := context.WithTimeout(ctx, orderTimeout)
			defer cancel()
			if _, err := c.Status(first); err != nil && ctx.Err() == nil {
				return failed.Backend(err)
			}
			for s, err := range c.Watch(ctx) {
				if ctx.Err() != nil {
					return nil // the user has ended it
				}
				if err != nil {
					return failed.Backend(err)
				}
				v := groupView{Time: time.Now(), Election: p.shown(), Status: s}
				if f == "yaml" {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), "---")
				}
				if err == nil {
					err = f.write(cmd.OutOrStdout(), v, func(w io.Writer) error {
						_, err := fmt.Fprintf(w, "%s  %s  %s%s  token %v  %d members  %d keys  %d held  %d moving\n",
							timestamp(v.Time), v.Group, v.Coordinator, v.covering(), v.Token, len(v.Members), v.Keys, v.Held, v.Moving)
						return err
					})
				}
				if err != nil {
					return fmt.Errorf("standard output: %w", err)
				}
			}
			return nil
		},
	}
}
