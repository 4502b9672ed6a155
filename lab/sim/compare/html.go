package compare

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"strconv"
	"strings"

	"github.com/electd/elect/internal/plot"
)

// HTML writes the report as one page that needs nothing else: no network, no
// scripts. It follows the reader's light or dark setting.
func (r *Report) HTML(out io.Writer) error {
	p := &page{}
	p.line(head)
	p.text("h1", "Election protocols under the same faults")
	p.text("p", upper(r.Heading())+".")
	if r.Interrupted {
		p.line(`<p class="warn">It was interrupted: not all runs were made, and which ones were is chance.</p>`)
	}
	p.text("p", "Each protocol met the same faults, as far as it can have them: see “What was run” below. "+
		"Where leaders prove a lease they count as leaders while they can; elsewhere while they are elected, alive and not frozen.")
	r.table(p)
	for _, line := range r.remarks() {
		p.text("p", upper(line)+".")
	}
	r.charts(p)
	r.explain(p)
	p.line("</main></body></html>")
	if p.err != nil {
		return p.err
	}
	_, err := out.Write(p.b.Bytes())
	return err
}

const head = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Election protocols under the same faults</title>
<style>
:root{--ink:#1f2328;--paper:#ffffff;--soft:#59636e;--rule:#d1d9e0;--tint:#f6f8fa;--warn:#9a3412}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--soft:#9198a1;--rule:#30363d;--tint:#151b23;--warn:#fdba74}}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
main{max-width:1160px;margin:0 auto;padding:1.5rem}
h1{font-size:1.7rem}h2{font-size:1.25rem;margin-top:2.5rem}
p,dl,ul{max-width:46rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}
caption{text-align:left;color:var(--soft);padding:.3rem 0}
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--rule);text-align:right;white-space:nowrap}
th:first-child{text-align:left}thead th{vertical-align:bottom;background:var(--tint);white-space:normal}
figure{margin:1.5rem 0;overflow-x:auto}
pre{background:var(--tint);padding:.8rem;overflow-x:auto}
dt{font-weight:600;margin-top:.6rem}dd{margin-left:1.2rem}
.warn{color:var(--warn);font-weight:600}
</style></head><body><main>`

// page is HTML on its way, with the first error of what is drawn into it.
type page struct {
	b   bytes.Buffer
	err error
}

func (p *page) line(text string) { p.b.WriteString(text + "\n") }

func (p *page) text(element, text string) {
	fmt.Fprintf(&p.b, "<%s>%s</%[1]s>\n", element, html.EscapeString(text))
}

// figure draws a chart.
func (p *page) figure(c interface{ SVG(io.Writer) error }) {
	p.line("<figure>")
	if err := c.SVG(&p.b); err != nil && p.err == nil {
		p.err = err
	}
	p.line("</figure>")
}

func (r *Report) table(p *page) {
	p.line(`<div class="wide"><table><caption>What the columns mean is said below.</caption><thead><tr>`)
	all := columns()
	for i := range all {
		fmt.Fprintf(&p.b, `<th scope="col">%s</th>`, html.EscapeString(all[i].name))
	}
	p.line("</tr></thead><tbody>")
	for i := range r.Lines {
		p.b.WriteString("<tr>")
		for k := range all {
			cell := html.EscapeString(all[k].value(&r.Lines[i]))
			if k == 0 {
				fmt.Fprintf(&p.b, `<th scope="row">%s</th>`, cell)
			} else {
				fmt.Fprintf(&p.b, "<td>%s</td>", cell)
			}
		}
		p.line("</tr>")
	}
	p.line("</tbody></table></div>")
}

func (r *Report) charts(p *page) {
	class := func(l *Line) string {
		if l.Leases {
			return "leads by a lease"
		}
		return "leads by election"
	}
	dark := &plot.Bars{Title: "Time without a leader", Unit: "%"}
	failover := &plot.Bars{Title: "Failover", Unit: "ms", Log: true}
	spread := &plot.Chart{Title: "Failovers that took no longer than", X: "time without a leader, ms", Y: "part of the failovers, %", LogX: true}
	two := &plot.Bars{Title: "Two leaders at once, all runs together", Unit: "ms", Log: true}
	stale := &plot.Bars{Title: "Stale writes that reached the resource", Log: true}
	cost := &plot.Bars{Title: "Messages and requests for an election that was won", Log: true}
	traffic := &plot.Bars{Title: "Messages and requests a second", Log: true}
	for i := range r.Lines {
		l := &r.Lines[i]
		dark.Rows = append(dark.Rows, plot.Bar{Name: l.Protocol, Value: 100 * (1 - l.Availability), Label: percent(1 - l.Availability), Class: class(l)})
		for _, q := range []struct {
			name string
			ms   *float64
		}{{"p50", l.P50}, {"p99", l.P99}} {
			bar := plot.Bar{Name: l.Protocol + ", " + q.name, Class: q.name, None: q.ms == nil, Label: "none"}
			if q.ms != nil {
				bar.Value, bar.Label = *q.ms, inMillis(*q.ms)
			}
			failover.Rows = append(failover.Rows, bar)
		}
		two.Rows = append(two.Rows, plot.Bar{Name: l.Protocol, Value: l.TwoLed, Label: inMillis(l.TwoLed), Class: class(l)})
		stale.Rows = append(stale.Rows,
			plot.Bar{Name: l.Protocol + ", refused", Value: float64(l.StaleRefused), Label: grouped(l.StaleRefused), Class: "refused by their token"},
			plot.Bar{Name: l.Protocol + ", accepted", Value: float64(l.StaleAccepted), Label: grouped(l.StaleAccepted), Class: "accepted"})
		bar := plot.Bar{Name: l.Protocol, None: l.PerElection == nil, Label: number(l.PerElection)}
		if l.PerElection != nil {
			bar.Value = *l.PerElection
		}
		cost.Rows = append(cost.Rows, bar)
		traffic.Rows = append(traffic.Rows, plot.Bar{Name: l.Protocol, Value: l.PerSecond, Label: number(&l.PerSecond)})
		line := plot.Series{Name: l.Protocol, Line: true}
		for _, q := range l.Quantiles {
			if q.Time > 0 {
				line.Points = append(line.Points, plot.Point{X: q.Time, Y: 100 * q.Part})
			}
		}
		spread.Series = append(spread.Series, line)
	}
	p.text("h2", "Figures")
	p.figure(dark)
	p.figure(failover)
	p.figure(spread)
	p.figure(two)
	p.figure(stale)
	p.figure(cost)
	p.figure(traffic)
}

// explain says what was run, how to repeat it, and what the columns mean.
func (r *Report) explain(p *page) {
	p.text("h2", "What was run")
	p.text("p", "The runs are of the simulator: the machines that run in production, in a world of broken links, clocks, disks and processes, in virtual time. "+
		"The faults of a seed are drawn once, and each protocol gets them as it can have them. "+
		"The acts of operators and changes of the membership are left out for all. Work is exclusive for all.")
	p.text("p", "Protocols over a store have their store replicated on the machines of the participants: its servers suffer the same cuts, crashes and pauses as the voters of the other protocols do, "+
		"and a participant that reaches fewer than a majority of them cannot reach the store.")
	p.line("<ul>")
	for i := range r.Lines {
		l := &r.Lines[i]
		config := "its defaults"
		if len(l.Config) > 0 {
			config = string(l.Config) + " (times in nanoseconds)"
		}
		text := fmt.Sprintf("%s: %s; %s runs, %s s of virtual time", l.Protocol, config, grouped(l.Runs), strconv.FormatFloat(l.Seconds, 'f', -1, 64))
		if l.Darkest != nil {
			text += fmt.Sprintf("; longest without a leader with seed %d: %s in all", l.Darkest.Seed, inMillis(l.Darkest.Time))
		}
		p.text("li", text)
	}
	p.line("</ul>")
	p.text("h2", "How to run it again")
	p.text("pre", r.Command())
	p.text("p", "The same build gives the same report, to the byte, however many cores there are.")
	p.text("h2", "What the columns mean")
	p.line("<dl>")
	for _, c := range columns() {
		if c.says != "" {
			p.text("dt", upper(c.name))
			p.text("dd", upper(c.says)+".")
		}
	}
	p.line("</dl>")
}

// Command is the command line that gives this report, except for its format.
func (r *Report) Command() string {
	var names []string
	for i := range r.Lines {
		names = append(names, r.Lines[i].Protocol)
	}
	var b strings.Builder
	b.WriteString("electlab sim compare --protocol " + strings.Join(names, ","))
	if r.Detection > 0 {
		fmt.Fprintf(&b, " --detection %v", nanos(r.Detection))
	}
	if !r.Drawn {
		return b.String() + " FILE"
	}
	fmt.Fprintf(&b, " --seed %d --seeds %d --nodes %d --profile %s --for %v", r.Seed, r.Seeds, r.Nodes, r.Profile, nanos(1000*r.Seconds))
	return b.String()
}

func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
