//go:build linux

package judge

import (
	"cmp"
	"fmt"
	"slices"
)

// A process grows if, for one of its resources, the median of the samples of each quarter of its
// time is above that of the previous quarter, by at least a tenth of the difference between the
// first and the last, and the last is above the first by both bounds: an amount, and a part of the
// first. A leak goes on, at any pace. A resource that a process takes once, when it begins to lead
// or when its disk is slow for the first time, grows in one quarter. Medians ignore single samples.
// Growth to ten times the first and ten times the amount always fails.
//
// The first tenth of a process's samples is ignored as warm-up, and a process with fewer than
// growthSamples others is not judged: it did not live long enough. Processes are judged separately,
// because a restart hides a leak.
const (
	growthSamples = 16
	growthPart    = 0.5
)

// amounts are the least differences that count as growth.
var amounts = [...]struct {
	name   string
	amount float64
	of     func(*Usage) float64
	unit   float64
	suffix string
}{
	{"descriptors", 16, func(u *Usage) float64 { return float64(u.FDs) }, 1, ""},
	{"threads", 16, func(u *Usage) float64 { return float64(u.Threads) }, 1, ""},
	{"goroutines", 24, func(u *Usage) float64 { return float64(u.Goroutines) }, 1, ""},
	{"resident memory", 24 << 20, func(u *Usage) float64 { return float64(u.RSS) }, 1 << 20, " MiB"},
}

// process is a process of a node, by its process id.
type process struct{ node, pid int }

// sweepGrowth judges the recorded resources of processes.
func (r *run) sweepGrowth(found *findings) (judged int) {
	// An id may be reused, so a start begins a process anew.
	type samples struct {
		of  process
		all []Event
	}
	var all []*samples
	open := map[process]*samples{}
	for _, e := range r.events {
		of := process{e.Node, e.Pid}
		switch e.Kind {
		case Start:
			delete(open, of)
		case Used:
			if e.Usage == nil || e.At > r.to {
				continue
			}
			if open[of] == nil {
				open[of] = &samples{of: of}
				all = append(all, open[of])
			}
			open[of].all = append(open[of].all, e)
		}
	}
	for _, s := range all {
		enough := false
		for _, a := range amounts {
			var values []float64
			var last int64
			for _, e := range s.all {
				if v := a.of(e.Usage); v > 0 { // otherwise it is not known
					values = append(values, v)
					last = e.At
				}
			}
			values = values[len(values)/10:]
			if len(values) < growthSamples {
				continue
			}
			enough = true
			if q := quarters(values); grown(q, a.amount) {
				found.add(Violation{Check: CheckGrowth, At: last, Node: s.of.node, Text: fmt.Sprintf("process %d of %s grows: %s by quarters of its time %.0f, %.0f, %.0f, %.0f%s",
					s.of.pid, nodeName(s.of.node), a.name, q[0]/a.unit, q[1]/a.unit, q[2]/a.unit, q[3]/a.unit, a.suffix)})
			}
		}
		if enough {
			judged++
		}
	}
	return judged
}

// quarters are the medians of the quarters.
func quarters(values []float64) (q [4]float64) {
	for i := range q {
		part := slices.Clone(values[i*len(values)/4 : (i+1)*len(values)/4])
		slices.SortFunc(part, cmp.Compare[float64])
		q[i] = part[len(part)/2]
	}
	return q
}

func grown(q [4]float64, amount float64) bool {
	rise := q[3] - q[0]
	if rise <= amount || rise <= growthPart*q[0] {
		return false
	}
	if rise > 10*amount && q[3] > 10*q[0] {
		return true
	}
	for i := range 3 {
		if q[i+1]-q[i] < rise/10 {
			return false
		}
	}
	return true
}
