package count

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/electd/elect/internal/plot"
)

// Row is one line of a table: an election, or the mean of several.
type Row struct {
	Protocol string `json:"protocol"`
	// Case names the initiators, where they matter.
	Case string `json:"case,omitempty"`
	N    int    `json:"n"`
	// Requests: what is counted are requests to a store, not messages.
	Requests bool `json:"requests,omitempty"`
	// Sent is how many were counted. Of a mean it is that of Runs elections.
	Sent    float64 `json:"sent"`
	Formula float64 `json:"formula"`
	Says    string  `json:"says"`
	// Exact: each type was sent as often as the formula says, in every run.
	Exact bool   `json:"exact"`
	Runs  int    `json:"runs"`
	Kinds []Kind `json:"kinds,omitempty"` // of one run
}

// shuffles is the number of rings of which the mean of Chang and Roberts is taken: 100, and fewer
// large ones, because making the machines takes the square of n.
func shuffles(n int) int { return min(100, max(5, 51_200/n)) }

// scenario is a row as it is asked for.
type scenario struct {
	name string // of the case
	spec func(n int) []Spec
	mean func(n int) float64 // the formula of the mean, nil if each run has its own
	says string
}

// scenarios are the cases of a protocol that a table has.
func (k *kind) scenarios() []scenario {
	one := func(n int) []Spec { return []Spec{{Protocol: k.name, N: n}} }
	switch {
	case k.name == "bully":
		return []scenario{{name: "the lowest begins", spec: one}}
	case k.told:
		return []scenario{
			{name: "the leader is dead", spec: one},
			{name: "one begins", spec: func(n int) []Spec { return []Spec{{Protocol: k.name, N: n, Initiators: []int{1}}} }},
		}
	case k.ring:
		return []scenario{
			{name: "all begin, best", spec: one},
			{name: "all begin, mean", mean: func(n int) float64 { return Harmonic(n) + float64(n) }, says: "n·Hₙ+n", spec: func(n int) []Spec {
				var all []Spec
				for i := range shuffles(n) {
					all = append(all, Spec{Protocol: k.name, N: n, Ring: Shuffled(n, uint64(i+1))})
				}
				return all
			}},
			{name: "all begin, worst", spec: func(n int) []Spec { return []Spec{{Protocol: k.name, N: n, Ring: Falling(n)}} }},
		}
	}
	return []scenario{{spec: one}}
}

// Table counts elections of the protocols with each number of machines, in
// parallel; nil is all of them. Numbers that a protocol does not have are left
// out. The rows come in the order of Protocols, of cases, and of nodes.
func Table(ctx context.Context, protocols []string, nodes []int) ([]Row, error) {
	type job struct {
		k *kind
		s scenario
		n int
	}
	var jobs []job
	for _, name := range Protocols() {
		if protocols != nil && !slices.Contains(protocols, name) {
			continue
		}
		k, _ := byName(name)
		for _, s := range k.scenarios() {
			for _, n := range nodes {
				if n >= k.least && n <= k.most {
					jobs = append(jobs, job{k, s, n})
				}
			}
		}
	}
	for _, name := range protocols {
		if _, ok := byName(name); !ok {
			return nil, fmt.Errorf("count: protocol %q; want one of %s", name, strings.Join(Protocols(), ", "))
		}
	}
	rows, errs := make([]Row, len(jobs)), make([]error, len(jobs))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		workers.Go(func() {
			for i := range next {
				rows[i], errs[i] = jobs[i].s.row(ctx, jobs[i].k, jobs[i].n)
			}
		})
	}
	for i := range jobs {
		next <- i
	}
	close(next)
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// row counts one case.
func (s scenario) row(ctx context.Context, k *kind, n int) (Row, error) {
	r := Row{Protocol: k.name, Case: s.name, N: n, Requests: k.requests, Exact: true}
	var sent, formula uint64
	for _, spec := range s.spec(n) {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		c, err := Run(spec)
		if err != nil {
			return r, err
		}
		r.Runs++
		r.Exact = r.Exact && c.Exact()
		r.Says = c.Says
		sent, formula = sent+c.Sent, formula+c.Formula
		if s.mean == nil {
			r.Kinds = c.Kinds
		}
	}
	r.Sent, r.Formula = float64(sent)/float64(r.Runs), float64(formula)/float64(r.Runs)
	if s.mean != nil {
		r.Formula, r.Says = s.mean(n), s.says
	}
	return r, nil
}

// Write writes rows as a table for people.
func Write(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "PROTOCOL\tCASE\tN\tCOUNTED\tFORMULA\t\t")
	for _, r := range rows {
		same := "="
		if !r.Exact {
			same = "≠"
		} else if r.Runs > 1 {
			same = fmt.Sprintf("≈, mean of %d", r.Runs)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", r.Protocol, dash(r.Case), r.N, r.number(r.Sent), r.number(r.Formula), r.Says, same)
	}
	return t.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (r *Row) number(v float64) string {
	if v == math.Trunc(v) && r.Runs == 1 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// hidden are cases that the plot omits: another one is as good.
func (r *Row) hidden() bool {
	return r.Protocol == "ring" && r.Case == "the leader is dead" || r.Case == "all begin, best"
}

// Plot is the rows as a chart with logarithmic axes: what was counted as marks,
// formulas as broken lines. Protocols whose formulas are the same share both.
func Plot(rows []Row) *plot.Chart {
	c := &plot.Chart{
		Title: "What one election costs", Subtitle: "marks: counted in a perfect network; broken lines: formulas",
		X: "nodes", Y: "messages, or requests to the store", LogX: true, LogY: true,
	}
	type curve struct {
		says, rows string
		names      []string
		counted    []plot.Point
		formula    []plot.Point
	}
	var curves []*curve
	for i := 0; i < len(rows); {
		j := i
		v := &curve{says: rows[i].Says}
		for ; j < len(rows) && rows[j].Protocol == rows[i].Protocol && rows[j].Case == rows[i].Case; j++ {
			r := &rows[j]
			if r.Sent > 0 {
				v.counted = append(v.counted, plot.Point{X: float64(r.N), Y: r.Sent})
			}
			if r.Formula > 0 {
				v.formula = append(v.formula, plot.Point{X: float64(r.N), Y: r.Formula})
			}
		}
		if rows[i].hidden() {
			i = j
			continue
		}
		v.rows = fmt.Sprint(v.counted)
		v.names = []string{rows[i].Protocol}
		if k := slices.IndexFunc(curves, func(o *curve) bool { return o.says == v.says && o.rows == v.rows }); k >= 0 {
			curves[k].names = append(curves[k].names, v.names...)
		} else {
			curves = append(curves, v)
		}
		i = j
	}
	for _, v := range curves {
		name := v.names[0]
		if n := len(v.names) - 1; n > 0 {
			name += fmt.Sprintf(" and %d more", n)
		}
		c.Series = append(c.Series,
			plot.Series{Name: name + ": " + v.says, Points: v.counted},
			plot.Series{Points: v.formula, Dashed: true})
	}
	return c
}
