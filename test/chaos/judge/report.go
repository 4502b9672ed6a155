//go:build linux

package judge

import (
	"cmp"
	"slices"
	"time"
)

// The defaults of Options.
const (
	// DefaultThaw is how long a keeper that resumes may wait for a processor, and the kernel take
	// to end a family: where thirty threads share each processor, a turn of 3 ms comes after 90.
	// Report.Grace says how much of it was needed. It does not grow on a busier computer, because
	// then nothing would limit what is excused. And it applies to stamps in the ledger only: a
	// zombie's writes are judged like all others.
	DefaultThaw = 100 * time.Millisecond

	DefaultBoot     = time.Second
	DefaultSeen     = 10 * time.Second
	DefaultPatience = time.Minute
)

// Options set how strictly a run is judged. The zero value is the documented default.
type Options struct {
	// Quick leaves out what takes long: the register, watchers and recorders. It may be used while
	// the run goes on.
	Quick bool

	// Thaw is how long the command of a family that was frozen as a whole may stamp after it
	// resumes, before it is killed: that cannot be prevented. Such stamps are Zombies and no
	// violations. Default 100 ms. It does not apply to a program that uses Check.
	Thaw time.Duration

	// Boot is how long a process takes from its start until it can take part.
	// Default 1 s.
	Boot time.Duration

	// Seen is the time within which a watcher must have seen a leader that led longer than that
	// while a majority was connected and well. Default 10 s.
	Seen time.Duration

	// Promise is the election's. More than 30 promises without a leader, while one majority is
	// connected and well, are a violation. 0: they are not.
	Promise time.Duration

	// Patience is the longest time for porcupine to check one piece of a history. What is not
	// decided by then is a violation. Default 1 min.
	Patience time.Duration
}

// Report is the result of a run.
type Report struct {
	// Violations are the first [Kept] of each check, by time; Counts are all that Judge found.
	Violations []Violation    `json:"violations"`
	Counts     map[string]int `json:"counts,omitempty"`

	From int64 `json:"from"` // of the run, as all other times
	To   int64 `json:"to"`

	Elections     int            `json:"elections"`      // terms that were won and led in
	LeaderChanges int            `json:"leader_changes"` // changes of the leading node
	Faults        map[string]int `json:"faults"`         // by name, how many began

	// First is the time from the beginning until there was a leader. The following figures do not
	// include it.
	First time.Duration `json:"first"`
	// Availability is the part of the run with a leader; 0 to 1. AvailabilityHealthy is the same
	// for the time in which a majority was connected and well, which is Healthy.
	Availability        float64       `json:"availability"`
	AvailabilityHealthy float64       `json:"availability_healthy"`
	Healthy             time.Duration `json:"healthy"`

	// Longest is the longest time without a leader while a majority was connected and well, from
	// LongestAt; Leaderless are all such times, the longest first.
	Longest    time.Duration `json:"longest"`
	LongestAt  int64         `json:"longest_at"`
	Leaderless []Leaderless  `json:"leaderless"`

	// Recoveries are the longest times from the end of a fault until there was a leader, and
	// RecoveryMedian is the median of all.
	Recoveries     []Recovery    `json:"recoveries"`
	RecoveryMedian time.Duration `json:"recovery_median"`

	// Zombies are families that stamped for an instant after they were thawed, when another leader
	// had begun, before they were killed. Stood counts those that the harness had not frozen: the
	// computer did not run. Grace is the longest such instant.
	Zombies int           `json:"zombies"`
	Stood   int           `json:"stood"`
	Grace   time.Duration `json:"grace"`

	// Stalls are the times in which the harness did not run, and Stalled is their sum: they are
	// excused.
	Stalls  int           `json:"stalls"`
	Stalled time.Duration `json:"stalled"`

	Ops           int `json:"ops"`            // operations of clients
	StaleOffered  int `json:"stale_offered"`  // writes with an overtaken token
	StaleRefused  int `json:"stale_refused"`  // refused by the register; its unguarded twin took them
	StaleAccepted int `json:"stale_accepted"` // accepted: all are violations
	Late          int `json:"late"`           // accepted after another leader had begun that had not written yet
	Unknown       int `json:"unknown"`        // of unknown outcome

	Pieces       int `json:"pieces"` // of histories, that porcupine judged
	LongestPiece int `json:"longest_piece"`
	Watchers     int `json:"watchers"`
	Observations int `json:"observations"` // states that they saw
	Segments     int `json:"segments"`     // of flight recorders, replayed
	Steps        int `json:"steps"`        // in them
	Leases       int `json:"leases"`       // in them, compared with each other
	Leased       int `json:"leased"`       // of the Elections, those whose lease was
	Told         int `json:"told"`         // terms that nodes told of, compared with the one before
	Processes    int `json:"processes"`

	Took time.Duration `json:"took"` // to judge

	run      *run
	excerpts []excerpt
}

// Judge judges the run in dir. It may be called again, and while the run goes on: then it judges
// what exists so far, as if the run ended now.
func Judge(dir string, o Options) (Report, error) {
	begin := time.Now()
	r, err := load(dir, o)
	if err != nil {
		return Report{}, err
	}
	report := Report{run: r, From: r.from, To: r.to, Faults: map[string]int{}}
	var found findings
	for _, f := range r.faults {
		report.Faults[f.name]++
	}
	tokens := map[int64]bool{}
	for i, g := range r.tenures {
		tokens[g.token] = true
		if i > 0 && r.tenures[i-1].node != g.node {
			report.LeaderChanges++
		}
	}
	report.Elections = len(tokens)
	r.availability(&report)
	r.sweepLive(&found, &report)
	r.broken(&found)
	r.sweepTenures(&found, &report)
	r.nodesByToken(&found)
	report.Told = r.told(&found)
	report.Stalls, report.Stalled = len(r.stalls), time.Duration(total(r.stalls))
	report.Processes = r.sweepGrowth(&found)
	if !o.Quick {
		report.excerpts = append(report.excerpts, r.mutexes(&found)...)
		r.clients(&found, &report)
		if err := r.watched(&found, &report); err != nil {
			return Report{}, err
		}
		if err := r.flights(&found, &report); err != nil {
			return Report{}, err
		}
		r.material(&found, &report)
	}
	report.Violations, report.Counts = found.all, found.counts
	slices.SortStableFunc(report.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Check, b.Check), cmp.Compare(a.Text, b.Text))
	})
	report.Took = time.Since(begin)
	return report, nil
}

// clients judges the operations of clients.
func (r *run) clients(found *findings, report *Report) {
	report.Ops = len(r.ops)
	guarded, twin, stream := histories(r.ops)
	report.Unknown = unknown(r.ops)
	r.sweepStale(guarded, found, report)
	r.sweepHighest(found)
	r.sweepStream(stream, found)
	for _, h := range []*history{guarded, twin, stream} {
		h.resolve()
		report.excerpts = append(report.excerpts, h.linearizable(r, found, report)...)
	}
}

// OK reports whether no promise was broken.
func (r *Report) OK() bool { return len(r.Violations) == 0 }

// Add adds a violation from another source, such as the harness.
func (r *Report) Add(v Violation) { r.Violations = append(r.Violations, v) }

// counts are the violations by check: those that are listed, and those that are only counted.
func (r *Report) counts() map[string]int {
	n := map[string]int{}
	for _, v := range r.Violations {
		n[v.Check]++
	}
	for check, c := range r.Counts {
		n[check] = max(n[check], c)
	}
	return n
}

// All is how many violations there were, those left out of Violations included.
func (r *Report) All() (n int) {
	for _, c := range r.counts() {
		n += c
	}
	return n
}
