//go:build linux

package judge

import (
	"cmp"
	"slices"
	"time"
)

// The defaults of Options.
const (
	// DefaultThaw is what a keeper may wait for a processor when it goes on, and what
	// the kernel takes to end a family: where thirty threads want each processor, a turn
	// of 3 ms comes after 90. Report.Grace says how much of it was needed. It does not
	// grow where a machine is busier, as then nothing would bound what is excused. And
	// it is for stamps in the ledger only: what a zombie writes is judged as what
	// anybody writes.
	DefaultThaw = 100 * time.Millisecond

	DefaultBoot     = time.Second
	DefaultSeen     = 10 * time.Second
	DefaultPatience = time.Minute
)

// Options say how strictly a run is judged. The zero value is the documented
// default.
type Options struct {
	// Quick leaves out what takes long: the register, watchers and recorders. It may
	// be used while the run goes on.
	Quick bool

	// Thaw is for how long after a family goes on that was frozen whole its command
	// may still stamp before it is killed: nobody can be faster. Such stamps are
	// Zombies and no violations. Default 100 ms. What asks Check has no such grace.
	Thaw time.Duration

	// Boot is how long a process takes from its start until it can take part.
	// Default 1 s.
	Boot time.Duration

	// Seen is within which time a watcher must have seen a leader who led longer
	// than that while a majority was connected and well. Default 10 s.
	Seen time.Duration

	// Promise is that of the election. When nobody leads for more than 30 of them, while
	// one majority is connected and well, that is a violation. 0: it is not.
	Promise time.Duration

	// Patience is for how long porcupine may think about one piece of a history.
	// What is not decided by then is a violation. Default 1 min.
	Patience time.Duration
}

// Report is what came of a run.
type Report struct {
	// Violations are the first [Kept] of each check, by when they happened; Counts
	// are all that Judge found.
	Violations []Violation    `json:"violations"`
	Counts     map[string]int `json:"counts,omitempty"`

	From int64 `json:"from"` // of the run, as all other times
	To   int64 `json:"to"`

	Elections     int            `json:"elections"`      // terms that somebody won, and led in
	LeaderChanges int            `json:"leader_changes"` // after which another node led
	Faults        map[string]int `json:"faults"`         // by name, how many began

	// First is the time from the beginning until somebody led. It counts in nothing
	// that follows.
	First time.Duration `json:"first"`
	// Availability is how much of the run somebody led; 0 to 1. AvailabilityHealthy is
	// the same of the time in which a majority was connected and well, which is
	// Healthy.
	Availability        float64       `json:"availability"`
	AvailabilityHealthy float64       `json:"availability_healthy"`
	Healthy             time.Duration `json:"healthy"`

	// Longest is the longest time without a leader while a majority was connected
	// and well, from LongestAt; Leaderless are all such times, the longest first.
	Longest    time.Duration `json:"longest"`
	LongestAt  int64         `json:"longest_at"`
	Leaderless []Leaderless  `json:"leaderless"`

	// Recoveries are the longest times from the end of a fault until somebody led,
	// and RecoveryMedian is the median of all.
	Recoveries     []Recovery    `json:"recoveries"`
	RecoveryMedian time.Duration `json:"recovery_median"`

	// Zombies are families that stamped for an instant after they were thawed, when
	// another led, before they were killed. Stood of them nobody had frozen: the machine
	// did not come to run. Grace is the longest such instant.
	Zombies int           `json:"zombies"`
	Stood   int           `json:"stood"`
	Grace   time.Duration `json:"grace"`

	// Stalls are the times in which the harness did not come to run, and Stalled is how
	// long they were together: what nobody is blamed for.
	Stalls  int           `json:"stalls"`
	Stalled time.Duration `json:"stalled"`

	Ops           int `json:"ops"`            // operations of clients
	StaleOffered  int `json:"stale_offered"`  // writes with an overtaken token
	StaleRefused  int `json:"stale_refused"`  // that the register refused; its unguarded twin took them
	StaleAccepted int `json:"stale_accepted"` // that it accepted: violations all
	Late          int `json:"late"`           // writes accepted after another had begun to lead, who had not written yet
	Unknown       int `json:"unknown"`        // operations whose outcome nobody knew

	Pieces       int `json:"pieces"` // of histories, that porcupine judged
	LongestPiece int `json:"longest_piece"`
	Watchers     int `json:"watchers"`
	Glimpses     int `json:"glimpses"` // states that they saw
	Segments     int `json:"segments"` // of flight recorders, replayed
	Steps        int `json:"steps"`    // in them
	Leases       int `json:"leases"`   // in them, compared with each other
	Leased       int `json:"leased"`   // of the Elections, those whose lease was
	Told         int `json:"told"`     // terms that nodes told of, compared with the one before
	Processes    int `json:"processes"`

	Took time.Duration `json:"took"` // to judge

	run      *run
	exhibits []exhibit
}

// Judge judges the run in dir. It may be called again, and while the run goes on:
// what is there so far is judged then, as if the run ended now.
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
		report.exhibits = append(report.exhibits, r.mutexes(&found)...)
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

// clients judges what clients did.
func (r *run) clients(found *findings, report *Report) {
	report.Ops = len(r.ops)
	guarded, twin, stream := histories(r.ops)
	report.Unknown = unknown(r.ops)
	r.sweepStale(guarded, found, report)
	r.sweepHighest(found)
	r.sweepStream(stream, found)
	for _, h := range []*history{guarded, twin, stream} {
		h.resolve()
		report.exhibits = append(report.exhibits, h.linearizable(r, found, report)...)
	}
}

// OK reports whether no promise was broken.
func (r *Report) OK() bool { return len(r.Violations) == 0 }

// Add adds a violation that somebody else saw, such as the harness.
func (r *Report) Add(v Violation) { r.Violations = append(r.Violations, v) }

// counts are the violations by check: those that are listed, and those that are only
// counted.
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
