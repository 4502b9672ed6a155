package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/brief"
	"github.com/electd/elect/cmd/elect/internal/doctor"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

// isStore reports whether the election is held in a store, neither on one machine nor among peers.
func (p *place) isStore(openers elect.Openers) bool {
	u, err := elect.ParseURL(p.election)
	return err == nil && u.Scheme != "file" && !p.isPeer() && openers[u.Scheme] != nil
}

// isFile reports whether the election is held on one machine.
func (p *place) isFile() bool {
	u, err := elect.ParseURL(p.election)
	return err == nil && u.Scheme == "file"
}

// examined is doctor's report of a store. Fields are added, and never renamed or removed.
type examined struct {
	Election string           `json:"election"`
	Lease    doctor.Millis    `json:"lease_ms"`
	Takeover doctor.Millis    `json:"worst_takeover_ms"`
	Assumes  string           `json:"assumes"`
	Server   []driver.Finding `json:"server"`

	RoundTrip doctor.Distribution `json:"round_trip"`
	Write     doctor.Distribution `json:"write"`
	Unasked   string              `json:"unasked,omitempty"`   // why there is no RoundTrip
	Unwritten string              `json:"unwritten,omitempty"` // why there is no Write
}

// examine asks the store what it is, and writes what that means.
func (p *place) examine(cmd *cobra.Command, openers elect.Openers, format form) error {
	if err := driver.CheckName(p.name); err != nil {
		return exit.With(exit.Usage, err)
	}
	u, err := elect.ParseURL(p.election)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	ctx, cancel := within(cmd, orderTimeout)
	defer cancel()
	e, err := openers[u.Scheme](ctx, driver.Target{URL: u, Name: p.name, ID: elect.DefaultID()})
	if err != nil {
		return failed.Opening(err)
	}
	defer e.Close()
	r := &examined{Election: p.shown(), Lease: doctor.Millis(e.Limits().Lease), Takeover: doctor.Millis(e.Limits().Takeover), Assumes: e.Limits().Assumes}
	if r.Server, err = inquire(ctx, e); err != nil {
		return failed.Backend(err)
	}
	if p, ok := e.(driver.Prober); ok {
		found, err := p.Probe(ctx)
		switch late := context.Cause(ctx); {
		case late != nil && err != nil:
			err = late
		case late != nil && found.Unwritten != "":
			found.Unwritten = late.Error()
		}
		if err != nil {
			r.Unasked, found.Unwritten = cli.OneLine(err.Error()), "reading fails"
		}
		r.RoundTrip, r.Write, r.Unwritten = doctor.Distribute(found.Reads), doctor.Distribute(found.Writes), cli.OneLine(found.Unwritten)
		r.Server = append(r.Server, r.slow()...)
	}
	if err := format.write(cmd.OutOrStdout(), r, r.write); err != nil {
		return err
	}
	if slices.ContainsFunc(r.Server, func(f driver.Finding) bool { return f.Wrong }) {
		return exit.Silent(1)
	}
	return nil
}

// slow says what is wrong with what was measured. A leader renews at least three times in a lease.
func (r *examined) slow() (found []driver.Finding) {
	if r.Unasked != "" {
		found = append(found, driver.Finding{What: "reading", Value: "fails", Wrong: true, Means: "no candidate can see who leads: " + r.Unasked})
	}
	worst := time.Duration(max(r.RoundTrip.P50, r.Write.P50))
	if lease := time.Duration(r.Lease); lease > 0 && worst > lease/8 {
		found = append(found, driver.Finding{
			What: "way to the server", Value: brief.Round(worst).String(), Wrong: true,
			Means: fmt.Sprintf("a leader that meets slower answers loses its lease; want a lease of %v or more in the URL, or a quicker way", brief.Up(10*worst)),
		})
	}
	return found
}

// inquire returns what the server says of itself, on one line each.
func inquire(ctx context.Context, e driver.Elector) ([]driver.Finding, error) {
	x, ok := e.(driver.Examiner)
	if !ok {
		return nil, fmt.Errorf("doctor: %w", driver.ErrUnsupported)
	}
	found, err := x.Examine(ctx)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	for i := range found {
		f := &found[i]
		f.What, f.Value, f.Means = cli.OneLine(f.What), cli.OneLine(f.Value), cli.OneLine(f.Means)
	}
	return found, err
}

// write writes the report for people.
func (r *examined) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "election\t%s\n", r.Election)
	if r.Lease > 0 {
		fmt.Fprintf(t, "proof\t%v without a renewal\n", brief.Round(time.Duration(r.Lease)))
		fmt.Fprintf(t, "takeover\tat most %v after a death, while the server answers\n", brief.Up(time.Duration(r.Takeover)))
	} else {
		fmt.Fprint(t, "takeover\tat once when the last process of the leader has ended\n")
	}
	fmt.Fprintf(t, "assumes\t%s\n", r.Assumes)
	fmt.Fprintf(t, "round trip\t%s\n", spread(r.RoundTrip, r.Unasked))
	fmt.Fprintf(t, "write\t%s\n", spread(r.Write, r.Unwritten))
	for _, f := range r.Server {
		wrong := ""
		if f.Wrong {
			wrong = "wrong: "
		}
		fmt.Fprintf(t, "%s\t%s: %s%s\n", f.What, f.Value, wrong, f.Means)
	}
	return t.Flush()
}

// spread is what was measured, or why nothing was.
func spread(d doctor.Distribution, why string) string {
	if d.Samples == 0 {
		return "not measured: " + why
	}
	return fmt.Sprintf("%v at the median of %d, at most %v", brief.Round(time.Duration(d.P50)), d.Samples, brief.Up(time.Duration(d.Max)))
}
