package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/peer"
)

const membersHelp = `Show the voters and observers of an election among peers: role, round trip, last
contact. Each node is asked for its state and for its connections to the others.
Round trips and last contacts are those of the leader, or, if there is no leader,
those of the first node that answers. A node that is stopped or hangs may still be
connected and does not answer: the age of its last contact shows it. The lag of a
voter is the age of the leader's last message that the voter has answered.

The members are those of the newest membership that a node reports, even if the URL
lists others. Members that the URL does not list are asked, too. A node that waits to
be added is shown as joining, one that is no member any more as stranger. A membership
is settled when a majority has it on disk. Only then elect member can change it.

Where the nodes have certificates it needs one, of any role. Warnings of a node about
its certificate, such as that it expires soon, are in the column TROUBLE, and in
status.certificate: expires, authority_expires, authority (the beginning of the
authority's key identifier) and warnings.

Exit codes:
  0   a majority of the voters answers, and there is a leader
  3   a majority answers, and there is no leader
  69  no majority answers

-o json writes one object on one line:
  election    the URL
  name        the name of the election
  quorum      how many voters are a majority
  answers     how many voters have answered
  leader      the id of the leader, or null
  seen_by     the node whose connections are shown, or null
  protocol    the protocol of the nodes that answer; omitted if none does
  membership  the newest one, or null:
                term, count  order memberships
                settled      by the leader
                voters       a list:
                  id, dir (its data directory), addr
                  and by the leader, omitted if false, empty or 0 (but not lag_ns):
                  lag_ns
                  idle       it would not stand
                  priority, position
                  behind     its position is behind the leader's
                  held       the newest membership on its disk
                  rate       the speed of its clock by the leader's: low_ppm and high_ppm
                             bound it, measured over over_ns
                  apart      rate is beyond what is assumed of clocks: the lease does
                             not count on this voter
                observers    a list: id, addr
  members     a list, voters first:
                id, kind (voter, observer, joining or stranger), address
                status           its own report; null if it did not answer
                error            why it did not answer; omitted if it did
                connected        whether seen_by has a connection to it
                rtt_ns           of that connection; 0 if not known
                last_contact_ns  the age of its last message; -1: none, or not known
                lag_ns           of a voter, by the leader; -1 if not known
                priority         1 to 1000, or -1 for never; omitted if not known
                position         in the log that the leader's work writes
                ready            it answers, owes nothing for the time before its start,
                                 knows the leader and is connected with a majority: the
                                 next node of a rolling restart may follow
                paused           it votes and does not stand
                program          its version
              paused, position and program are omitted if empty
-o yaml writes the same on several lines.`

func newMembers(openers elect.Openers) *cobra.Command {
	var p place
	var format form
	cmd := &cobra.Command{
		Use:     "members [flags] [NAME]",
		Short:   "show the members: role, round trip, last contact",
		Long:    membersHelp,
		Example: "  elect members --election 'peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400?certs=/etc/elect/certs' scheduler",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.nameArgument(cmd, args); err != nil {
				return err
			}
			c, voters, err := p.ask(openers, "members")
			if err != nil {
				return err
			}
			defer c.Close()
			ctx, cancel := within(cmd, askTimeout)
			defer cancel()
			m := membersOf(c.Members(ctx), voters)
			m.Election, m.Name = p.shown(), p.name
			if err := format.write(cmd.OutOrStdout(), m, m.write); err != nil {
				return err
			}
			return m.verdict()
		},
	}
	p.flags(cmd.Flags())
	format.flag(cmd.Flags())
	return cmd
}

// members lists the participants of an election. Fields are added, and never renamed or removed.
type members struct {
	Election string  `json:"election"`
	Name     string  `json:"name"`
	Quorum   int     `json:"quorum"`
	Answers  int     `json:"answers"`
	Leader   *string `json:"leader"`
	SeenBy   *string `json:"seen_by"`
	// Membership is the newest one that they report.
	Membership *peer.MembershipStatus `json:"membership"`
	Members    []member               `json:"members"`
	// Protocol is that of the nodes that answer; empty if none does.
	Protocol string `json:"protocol,omitempty"`

	noLease bool     // the protocol has no leases
	leaders []string // the nodes that report that they lead
	voters  int
	cause   string // why there is no leader, from one of them
}

// member is a participant.
type member struct {
	ID          string           `json:"id"`
	Kind        string           `json:"kind"`
	Address     string           `json:"address,omitempty"`
	Status      *peer.NodeStatus `json:"status"`
	Error       string           `json:"error,omitempty"`
	Connected   bool             `json:"connected"`
	RTT         time.Duration    `json:"rtt_ns"`
	LastContact time.Duration    `json:"last_contact_ns"`
	Lag         time.Duration    `json:"lag_ns"`
	apart       string           // how its clock differs from the leader's, if too much
	Priority    int              `json:"priority,omitzero"`
	Position    string           `json:"position,omitempty"`
	Ready       bool             `json:"ready"`
	Paused      bool             `json:"paused,omitempty"`
	Program     string           `json:"program,omitempty"`
}

// membersOf combines the nodes' answers, voters first: each node's about itself, and one node's about its
// connections.
func membersOf(results []peer.NodeResult, voters int) *members {
	m := &members{Members: []member{}, Membership: peer.Newest(results)}
	kind := func(i int, id string) string { // by the URL, until they tell
		if i < voters {
			return "voter"
		}
		return "observer"
	}
	if m.Membership != nil {
		voters = len(m.Membership.Voters)
		kind = func(_ int, id string) string { return kindOf(m.Membership, id) }
		results = slices.SortedStableFunc(slices.Values(results), func(a, b peer.NodeResult) int {
			return cmp.Compare(rankOf(kind(0, a.Peer.ID)), rankOf(kind(0, b.Peer.ID)))
		})
	}
	m.voters, m.Quorum = voters, voters/2+1
	var seen *peer.NodeStatus // the node whose connections are shown
	var leader *elect.Leader
	for _, r := range results {
		s := r.Status
		if s == nil {
			continue
		}
		m.Protocol = cmp.Or(m.Protocol, s.Protocol)
		m.noLease = m.noLease || s.Plan.Protocol != "" && s.Plan.Lease == 0
		if s.Token != 0 {
			m.leaders = append(m.leaders, s.ID)
		}
		if m.cause == "" && s.Leader == nil {
			m.cause = s.Cause
		}
		if l := s.Leader; l != nil && !s.Stale && (leader == nil || l.Token > leader.Token) {
			leader = l
		}
		if seen == nil || s.Token > seen.Token { // a leader has a token
			seen = s
		}
	}
	if leader != nil {
		m.Leader = &leader.ID
	}
	if seen != nil {
		m.SeenBy = &seen.ID
	}
	for i, r := range results {
		e := member{ID: r.Peer.ID, Kind: kind(i, r.Peer.ID), Address: r.Peer.Addr, Status: r.Status, LastContact: -1, Lag: -1}
		if r.Err != nil {
			e.Error = cli.OneLine(r.Err.Error())
		}
		if r.Status != nil {
			e.Program, e.Ready = r.Status.Program, r.Status.Ready()
			e.Priority, e.Position, e.Paused = r.Status.Priority, r.Status.Position, r.Status.Paused
			if e.Kind == "stranger" && r.Status.Join {
				e.Kind = "joining"
			}
		}
		m.add(e, seen)
	}
	if seen != nil {
		for _, o := range seen.Observers { // those that the URL does not list
			if !slices.ContainsFunc(m.Members, func(e member) bool { return e.ID == o }) {
				m.add(member{ID: o, Kind: "observer", LastContact: -1, Lag: -1}, seen)
			}
		}
	}
	return m
}

// add adds a member with what another node's connections show of it.
func (m *members) add(e member, seen *peer.NodeStatus) {
	if e.Kind == "voter" && e.Status != nil {
		m.Answers++
	}
	if m.Membership != nil {
		if i := slices.IndexFunc(m.Membership.Voters, func(v peer.VoterStatus) bool { return v.ID == e.ID }); i >= 0 {
			v := &m.Membership.Voters[i]
			if e.Lag = v.Lag; v.Apart {
				e.apart = v.Rate.String()
			}
			if e.Status == nil {
				e.Priority, e.Position = v.Priority, v.Position
			}
		}
	}
	if e.Address == "" { // it cannot be asked: its connections to others are known
		e.Error = ""
	}
	if seen != nil {
		for _, c := range seen.Peers {
			if c.ID == e.ID {
				e.Connected, e.RTT, e.LastContact = c.Connected, c.RTT, max(c.LastContact, -1)
				if e.Program == "" {
					e.Program = c.Program
				}
				if e.Error == "" {
					e.Error = c.Error
				}
			}
		}
	}
	if e.Error == "" && e.Status == nil && !e.Connected {
		e.Error = "it is not connected"
	}
	m.Members = append(m.Members, e)
}

func (m *members) verdict() error {
	switch {
	case m.Answers < m.Quorum:
		return exit.With(exit.Unavailable, fmt.Errorf("%d of %d voters of %s answer; want %d, a majority", m.Answers, m.voters, m.Name, m.Quorum))
	case m.Leader == nil && m.cause != "":
		return exit.With(exit.NoLeader, errors.New(m.cause))
	case m.Leader == nil:
		return exit.Silent(exit.NoLeader)
	}
	return nil
}

func (m *members) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	positions := slices.ContainsFunc(m.Members, func(e member) bool { return e.Position != "" })
	position := func(text string) string {
		if positions {
			return text + "\t"
		}
		return ""
	}
	fmt.Fprintln(t, "ID\tKIND\tROLE\tPRIORITY\t"+position("POSITION")+"RTT\tLAST CONTACT\tLAG\tVERSION\tADDRESS\tTROUBLE")
	for _, e := range m.Members {
		rtt, heard := "-", "-"
		if m.SeenBy != nil && *m.SeenBy == e.ID {
			heard = "itself"
		} else if e.LastContact >= 0 {
			heard = e.LastContact.Round(time.Millisecond).String() + " ago"
		}
		if e.RTT > 0 {
			rtt = e.RTT.Round(time.Microsecond).String()
		}
		lag := "-"
		if e.Lag >= 0 {
			lag = e.Lag.Round(time.Millisecond).String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s%s\t%s\t%s\t%s\t%s\t%s\n", e.ID, e.Kind, e.role(), e.eagerness(), position(or(e.Position)), rtt, heard, lag, or(e.Program), or(e.Address), or(e.trouble()))
	}
	if err := t.Flush(); err != nil || m.Membership == nil {
		return err
	}
	if m.noLease {
		if len(m.leaders) > 1 {
			fmt.Fprintf(w, "%s each believe that they lead: %s proves no lease\n", strings.Join(m.leaders, ", "), m.Protocol)
		}
		_, err := fmt.Fprintf(w, "protocol %s, without a lease: %s; a majority is %d\n", m.Protocol, describe(m.Membership), m.Quorum)
		return err
	}
	settled := ""
	if m.Leader != nil && !m.Membership.Settled {
		settled = ", not settled yet"
	}
	_, err := fmt.Fprintf(w, "membership %s%s: %s; a majority is %d\n", m.Membership.Version(), settled, describe(m.Membership), m.Quorum)
	return err
}

// kindOf is a node's kind in a membership.
func kindOf(m *peer.MembershipStatus, id string) string {
	switch {
	case slices.ContainsFunc(m.Voters, func(v peer.VoterStatus) bool { return v.ID == id }):
		return "voter"
	case slices.ContainsFunc(m.Observers, func(o peer.ObserverStatus) bool { return o.ID == id }):
		return "observer"
	}
	return "stranger"
}

// rankOf orders the kinds.
func rankOf(kind string) int { return slices.Index([]string{"voter", "observer", "stranger"}, kind) }

// eagerness is the priority, for people.
func (e *member) eagerness() string {
	switch {
	case e.Kind != "voter" && e.Kind != "joining" || e.Priority == 0:
		return "-"
	case e.Priority < 0:
		return "never"
	}
	return fmt.Sprint(e.Priority)
}

// role is what a member does, for people.
func (e *member) role() string {
	paused := ""
	if e.Paused {
		paused = ", paused"
	}
	switch s := e.Status; {
	case s == nil && e.Address != "":
		return "no answer" // its last contact shows whether the others hear it
	case s == nil && e.Connected:
		return "connected"
	case s == nil:
		return "?"
	case !s.Founded && s.Join:
		return "waiting"
	case !s.Founded:
		return "founding"
	case s.Active:
		return fmt.Sprintf("%s (token %v, lease %v)%s", s.Role, s.Token, s.LeaseLeft.Round(time.Millisecond), paused)
	case s.Token != 0 && s.Plan.Protocol != "" && s.Plan.Lease == 0:
		return fmt.Sprintf("%s (token %v, no lease)%s", s.Role, s.Token, paused)
	default:
		return s.Role + paused
	}
}

// trouble is what people should know about a member.
func (e *member) trouble() string {
	s := e.Status
	switch {
	case s == nil:
		return e.Error
	case !s.Founded && s.Cause != "":
		return s.Cause // it names the connections too
	}
	var all []string
	if e.apart != "" {
		all = append(all, "its clock does not run like the leader's ("+e.apart+"), and its promises do not count")
	}
	if s.DiskIll > 0 {
		all = append(all, fmt.Sprintf("its disk is ill: no write has succeeded within a second for %v", s.DiskIll.Truncate(time.Second)))
	}
	if s.Leader == nil || s.Stale {
		all = append(all, s.Cause)
	}
	if s.Certificate != nil {
		all = append(all, s.Certificate.Warnings...)
	}
	for _, p := range s.Peers {
		if !p.Connected {
			all = append(all, strings.TrimSuffix(fmt.Sprintf("no connection to %s: %s", p.ID, p.Error), ": "))
		}
	}
	return strings.Join(slices.DeleteFunc(all, func(t string) bool { return t == "" }), "; ")
}

// or is a column's text, with a dash if it is empty.
func or(text string) string {
	if text == "" {
		return "-"
	}
	return cli.OneLine(text)
}
