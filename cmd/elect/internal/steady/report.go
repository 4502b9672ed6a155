package steady

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/electd/elect/internal/machine"
	"github.com/electd/elect/peer"
)

// Report is the result of Run, with its conditions. Its JSON is stable: fields are added, and never renamed or
// removed.
type Report struct {
	Voters    int     `json:"voters"`
	Observers int     `json:"observers"`
	Profile   string  `json:"profile"`
	Heartbeat float64 `json:"heartbeat_ms"`
	Busy      bool    `json:"busy"`
	Seconds   float64 `json:"seconds"`

	// False counts the elections without a reason: no node was brought down. Why says how they were seen.
	False int      `json:"false_elections"`
	Why   []string `json:"why,omitempty"`

	CPU   float64 `json:"cpu_percent"` // of one core, of all nodes together
	Nodes []Node  `json:"nodes"`

	machine.Conditions
}

// Node is what one node used.
type Node struct {
	ID       string  `json:"id"`
	Role     string  `json:"role"`
	CPU      float64 `json:"cpu_percent"`    // of one core
	Resident uint64  `json:"resident_bytes"` // with shared pages
	// with shared pages divided among the processes that share them; 0 if not known
	Share    uint64  `json:"share_bytes"`
	Sent     float64 `json:"sent_per_second"`
	Received float64 `json:"received_per_second"`
	Dropped  uint64  `json:"dropped"`
	Pauses   uint64  `json:"pauses"` // how often it ran much later than planned
	Longest  float64 `json:"longest_pause_ms"`
}

func newReport(cfg *Config, plan peer.Plan) *Report {
	return &Report{
		Voters: cfg.Voters, Observers: cfg.Observers, Profile: cfg.Profile, Heartbeat: plan.Heartbeat.Seconds() * 1e3, Busy: cfg.Busy,
		Nodes: []Node{}, Conditions: machine.Now(),
	}
}

// add adds what a node used between two sights.
func (r *Report) add(id string, before, after *sight, m machine.Memory) {
	took := after.at.Sub(before.at)
	was, is := before.status[id], after.status[id]
	n := Node{
		ID: id, Role: is.Role, Resident: m.Resident, Share: m.Share,
		CPU:    round(100 * (after.used[id] - before.used[id]).Seconds() / took.Seconds()),
		Pauses: is.Counters.Pauses - was.Counters.Pauses, Longest: round(float64(is.Counters.LongestPause) / float64(time.Millisecond)),
	}
	sent, received, dropped := messages(is)
	sentBefore, receivedBefore, droppedBefore := messages(was)
	seen := after.seen.Sub(before.seen).Seconds()
	n.Sent = round(float64(sent-sentBefore) / seen)
	n.Received = round(float64(received-receivedBefore) / seen)
	n.Dropped = dropped - droppedBefore
	r.CPU = round(r.CPU + n.CPU)
	r.Nodes = append(r.Nodes, n)
}

// messages sums those of all connections of a node.
func messages(s *peer.NodeStatus) (sent, received, dropped uint64) {
	for _, p := range s.Peers {
		sent, received, dropped = sent+p.Sent, received+p.Received, dropped+p.Dropped
	}
	return sent, received, dropped
}

// sum counts the elections between two sights, by the nodes' own counters and by the leader that each of them sees.
func (r *Report) sum(before, after *sight) {
	r.Seconds = round(after.at.Sub(before.at).Seconds())
	for _, n := range r.Nodes {
		was, is := before.status[n.ID], after.status[n.ID]
		if won := is.Counters.Elections - was.Counters.Elections; won > 0 {
			r.False += int(won)
			r.Why = append(r.Why, fmt.Sprintf("%s won %d", n.ID, won))
		}
		if was.Leader != nil && (is.Leader == nil || is.Leader.Token != was.Leader.Token) {
			r.Why = append(r.Why, n.ID+" follows another token than before")
		}
	}
	if again := after.actives - before.actives; again > 0 {
		r.Why = append(r.Why, fmt.Sprintf("%d tenures began", again))
	}
	if len(r.Why) > 0 {
		r.False = max(r.False, 1)
	}
}

func round(v float64) float64 { return math.Round(v*1e4) / 1e4 }

// Err is an error if the leader changed without a reason.
func (r *Report) Err() error {
	if r.False == 0 {
		return nil
	}
	return fmt.Errorf("%d false elections: %s", r.False, strings.Join(r.Why, ", "))
}

// Write writes the report for people.
func (r *Report) Write(w io.Writer) error {
	busy := "nothing else to do"
	if r.Busy {
		busy = "a busy loop on each core"
	}
	fmt.Fprintf(w, "%d voters and %d observers over %.0f s, profile %s (a heartbeat every %v ms), %s:\n\n", r.Voters, r.Observers, r.Seconds, r.Profile, r.Heartbeat, busy)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "NODE\tROLE\tCPU %\tRESIDENT MiB\tSHARE MiB\tSENT/S\tRECEIVED/S\tDROPPED\tPAUSES\tLONGEST ms\t")
	const most = 9
	shown := r.Nodes
	if len(shown) > most+1 {
		shown = slices.Clone(shown[:most])
	}
	for _, n := range shown {
		fmt.Fprintf(t, "%s\t%s\t%.3f\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%d\t%.1f\t\n",
			n.ID, n.Role, n.CPU, mebi(n.Resident), mebi(n.Share), n.Sent, n.Received, n.Dropped, n.Pauses, n.Longest)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more := len(r.Nodes) - len(shown); more > 0 {
		fmt.Fprintf(w, "and %d more; -o json lists all\n", more)
	}
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "together\t%.3f %% of one core, %.1f MiB at most in one, %.1f messages a second\n", r.CPU, mebi(r.largest()), r.sent())
	fmt.Fprintf(t, "false elections\t%d\n", r.False)
	for _, why := range r.Why {
		fmt.Fprintf(t, "\t%s\n", why)
	}
	r.Rows(t)
	return t.Flush()
}

func (r *Report) largest() (most uint64) {
	for _, n := range r.Nodes {
		most = max(most, n.Resident)
	}
	return most
}

func (r *Report) sent() (all float64) {
	for _, n := range r.Nodes {
		all += n.Sent
	}
	return all
}

func mebi(bytes uint64) float64 { return float64(bytes) / (1 << 20) }
