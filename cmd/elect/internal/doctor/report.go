package doctor

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/electd/elect/cmd/elect/internal/brief"
)

// Report is measurements with their verdict.
type Report struct {
	*Measurements
	*Verdict
}

// Write writes the report for people.
func (r *Report) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	load := ""
	if r.Load != nil {
		load = fmt.Sprintf(", load %.2f", r.Load[0])
	}
	fmt.Fprintf(t, "machine\t%s, %d CPUs%s; measured for %v\n", r.System, r.CPUs, load, time.Duration(r.Took).Round(100*time.Millisecond))
	fmt.Fprintf(t, "pauses\ttimers of 1ms were late by %s\n", r.Pauses.line())
	switch d := r.Disk; {
	case d.Error != "":
		fmt.Fprintf(t, "disk\t%s\n", d.Error)
	default:
		at := d.Dir
		if d.For != "" {
			at += " (" + d.For + " does not exist yet)"
		}
		fmt.Fprintf(t, "disk\t512 bytes written and synced in %s, on %s: %s\n", at, d.Kind, d.Sync.line())
	}
	if r.Disk.Free != nil {
		fmt.Fprintf(t, "\t%s free\n", size(*r.Disk.Free))
	}
	for i, p := range r.Peers {
		head := ""
		if i == 0 {
			head = "peers"
		}
		switch {
		case p.Error != "":
			fmt.Fprintf(t, "%s\t%s at %s: %s\n", head, p.ID, p.Addr, p.Error)
		case !p.Listens:
			fmt.Fprintf(t, "%s\t%s at %s: round trip %s; no process listens\n", head, p.ID, p.Addr, p.RTT.line())
		default:
			fmt.Fprintf(t, "%s\t%s at %s: round trip %s\n", head, p.ID, p.Addr, p.RTT.line())
		}
	}
	together := ""
	if !r.Clock.Suspends {
		together = fmt.Sprintf("; it and CLOCK_MONOTONIC came apart by %s", show(Millis(time.Duration(r.Clock.Apart).Abs())))
	}
	fmt.Fprintf(t, "clock\t%s in steps of %v%s\n", r.Clock.Name, time.Duration(r.Clock.Resolution), together)
	if r.Files > 0 {
		fmt.Fprintf(t, "files\tat most %d open\n", r.Files)
	}
	fmt.Fprintf(t, "contain\t%s", r.Contain.Level)
	if why := r.Contain.Missing; why != "" {
		fmt.Fprintf(t, "; cgroup: %s", why)
	} else if why := r.Contain.Guard; why != "" {
		fmt.Fprintf(t, "; no network guard: %s", why)
	} else {
		fmt.Fprint(t, ", network guard")
	}
	if why := r.Contain.Pid; why != "" {
		fmt.Fprintf(t, "; no pid: %s", why)
	} else {
		fmt.Fprint(t, "; pid works, too")
	}
	fmt.Fprintln(t)
	for i, c := range r.Certificates {
		head := ""
		if i == 0 {
			head = "certificates"
		}
		left := fmt.Sprintf("%d days left", c.Left)
		if c.Left < 0 {
			left = "expired"
		}
		fmt.Fprintf(t, "%s\t%s, of %s: until %s, %s\n", head, c.File, c.For, c.Expires.Format(time.DateOnly), left)
	}
	fmt.Fprintf(t, "\nPROFILE\tFITS\tHEARTBEAT\tPROMISE\tWORST TAKEOVER (%d voters)\n", r.Voters)
	for _, j := range r.Profiles {
		fmt.Fprintf(t, "%s\t%s\t%v\t%v\t%v\n", j.Name, j.Fit, time.Duration(j.Heartbeat), time.Duration(j.Promise), brief.Up(time.Duration(j.Takeover)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	for _, j := range r.Profiles {
		for _, f := range j.Findings {
			if f.Fit == Never || f.Fit == Tight && j.Fit == Tight {
				fmt.Fprintf(&b, "%s: %s: %s\n", j.Name, f.Fit, f.Says)
			}
		}
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "wrong: %s\n", p)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	if r.Recommended != "" {
		fmt.Fprintf(&b, "recommended: %s\n", r.Recommended)
		for _, j := range r.Profiles {
			if j.Name == r.Recommended {
				for _, f := range j.Findings {
					fmt.Fprintf(&b, "  %s\n", f.Says)
				}
			}
		}
	} else {
		fmt.Fprintln(&b, "recommended: none; no profile fits this machine")
	}
	_, err := fmt.Fprintf(w, "\n%s", b.String())
	return err
}

func (d Distribution) line() string {
	if d.Samples == 0 {
		return "not measured"
	}
	return fmt.Sprintf("median %s, p99 %s, most %s (%d samples)", show(d.P50), show(d.P99), show(d.Max), d.Samples)
}

// show formats a time for people.
func show(m Millis) string { return brief.Round(time.Duration(m)).String() }

// size formats a size with a suitable unit.
func size(n uint64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
