package failover

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/electd/elect/cmd/elect/internal/stamp"
	"github.com/electd/elect/internal/machine"
)

// PeersConfig configures RunPeers. All fields are required.
type PeersConfig struct {
	Program  string // this program
	Node     string // its verb that runs probe.Run
	Dir      string // exists, and belongs to this run alone
	Peers    int    // 3 to 9
	Profile  string
	Kills    []Kill
	Rounds   int // of each
	Progress func(format string, args ...any)
}

// PeersReport is the result of RunPeers, with its conditions. Its JSON is stable: fields are added, and never renamed
// or removed.
type PeersReport struct {
	Peers     int     `json:"peers"`
	Profile   string  `json:"profile"`
	Promise   float64 `json:"promise_ms"`
	Worst     float64 `json:"worst_takeover_ms"`
	Security  string  `json:"security"`
	Directory string  `json:"directory"` // the kind of file system of the ballots
	Command   string  `json:"command"`
	Clock     string  `json:"clock"`
	machine.Conditions
	Takeovers []PeerTakeover `json:"takeovers"`
	Tenures   int            `json:"tenures"` // that were judged
	Lost      int            `json:"lost"`    // nodes that ended by themselves between rounds, on a busy machine
	// transfers after which another node than the named one led, on a busy machine
	Strayed    int      `json:"strayed"`
	Violations []string `json:"violations"` // two leaders at once, tokens that did not rise
}

// PeerTakeover is the times of one kind of takeover.
type PeerTakeover struct {
	Kill   Kill   `json:"kill"`
	What   string `json:"what"`
	Rounds int    `json:"rounds"`
	Times
	// Stale is the longest time for which the old leader believed that it led while another did: after SIGCONT, behind a
	// cut. The promise is 0.
	Stale float64 `json:"stale_ms"`
	// Beyond is the longest time for which an observer saw no leader, in a round of Rolling, before or after the
	// transfer. The promise is 0.
	Beyond *float64  `json:"beyond_ms,omitempty"`
	Took   []float64 `json:"took_ms"` // of each round, in order
}

func newPeersReport(cfg *PeersConfig) *PeersReport {
	fs, _ := machine.Filesystem(cfg.Dir)
	return &PeersReport{
		Peers: cfg.Peers, Profile: cfg.Profile, Security: "TLS 1.3, mutual certificates", Directory: fs,
		Command: "a static program that reads the clock first", Clock: stamp.Clock,
		Conditions: machine.Now(), Takeovers: []PeerTakeover{}, Violations: []string{},
	}
}

// add adds the times of the rounds of one kind.
func (r *PeersReport) add(k kind, took []time.Duration, stale, beyond time.Duration) {
	if len(took) == 0 {
		return
	}
	t := PeerTakeover{Kill: k.kill, What: k.what, Rounds: len(took), Stale: millis(stale)}
	if k.kill == Rolling {
		ms := millis(beyond)
		t.Beyond = &ms
	}
	for _, d := range took {
		t.Took = append(t.Took, millis(d))
	}
	t.Times = timesOf(took)
	r.Takeovers = append(r.Takeovers, t)
}

// Err is an error if a promise was broken.
func (r *PeersReport) Err() error {
	if len(r.Violations) > 0 {
		return errors.New("SAFETY: " + strings.Join(r.Violations, "; "))
	}
	for _, k := range r.Takeovers {
		if k.Beyond != nil && *k.Beyond > 0 {
			return fmt.Errorf("in a rolling restart nobody led for %v ms before or after the transfer", *k.Beyond)
		}
	}
	return nil
}

// Write writes the report for people.
func (r *PeersReport) Write(w io.Writer) error {
	fmt.Fprintf(w, "Takeovers among %d peers, in ms:\n\n", r.Peers)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "KIND\tn\tMIN\tMEDIAN\tP90\tP99\tMAX\tSTALE\t")
	for _, k := range r.Takeovers {
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", k.Kill, k.Rounds, k.Min, k.Median, k.P90, k.P99, k.Max, k.Stale)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, k := range r.Takeovers {
		fmt.Fprintf(t, "%s\t%s\n", k.Kill, k.What)
	}
	for _, k := range r.Takeovers {
		if k.Beyond != nil {
			fmt.Fprintf(t, "beyond\t%.2f ms at most without a leader, as observers saw it, before or after the transfer of a rolling restart\n", *k.Beyond)
		}
	}
	fmt.Fprintf(t, "stale\tthe longest time for which an old leader believed that it led while another one led\n")
	fmt.Fprintf(t, "\nprofile\t%s: a promise of %v ms, takeover in %.0f ms at worst\n", r.Profile, r.Promise, r.Worst)
	fmt.Fprintf(t, "judged\t%d tenures, %d violations\n", r.Tenures, len(r.Violations))
	if r.Lost > 0 {
		fmt.Fprintf(t, "lost\t%d nodes ended by themselves between rounds: the machine was busy\n", r.Lost)
	}
	if r.Strayed > 0 {
		fmt.Fprintf(t, "strayed\t%d transfers went to another node than the named one: the machine was busy\n", r.Strayed)
	}
	for _, v := range r.Violations {
		fmt.Fprintf(t, "VIOLATION\t%s\n", v)
	}
	fmt.Fprintf(t, "security\t%s\n", r.Security)
	fmt.Fprintf(t, "ballots on\t%s\n", r.Directory)
	fmt.Fprintf(t, "clock\t%s\n", r.Clock)
	r.Rows(t)
	return t.Flush()
}
