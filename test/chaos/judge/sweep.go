//go:build linux

package judge

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/electd/elect/test/chaos/register"
)

// later calls each with every act, by the time of the call, after all acts that had ended before
// that call were given to ended. It takes n log n steps.
func later(acts []act, ended, each func(a *act)) {
	byEnd := make([]int32, 0, len(acts))
	for i := range acts {
		if acts[i].ret != never {
			byEnd = append(byEnd, int32(i))
		}
	}
	slices.SortFunc(byEnd, func(a, b int32) int { return cmp.Compare(acts[a].ret, acts[b].ret) })
	for i := range acts {
		for len(byEnd) > 0 && acts[byEnd[0]].ret < acts[i].call {
			ended(&acts[byEnd[0]])
			byEnd = byEnd[1:]
		}
		each(&acts[i])
	}
}

// sweepStale finds accepted writes whose token had been overtaken: an answer had told a higher one
// before they were called. It also counts those that were accepted after another leader with a
// higher token had begun but not shown it yet: no fence can know it then, and later readers see
// nothing wrong.
func (r *run) sweepStale(guarded *history, found *findings, report *Report) {
	var highest int64
	led := r.tenures
	var leading int64
	later(guarded.acts, func(a *act) { highest = max(highest, a.told.high) }, func(a *act) {
		for len(led) > 0 && led[0].start < a.call {
			leading = max(leading, led[0].token)
			led = led[1:]
		}
		switch {
		case a.effect == fails:
			report.StaleRefused++
		case a.effect == does && a.want.high < highest:
			report.StaleAccepted++
			found.add(Violation{Check: CheckStale, At: a.call, Node: NoNode, Text: fmt.Sprintf("%s by %s, called at %s, when token %d had been seen: an overtaken leader's write was accepted",
				guarded.describe(a), guarded.names[a.client], r.since(a.call), highest)})
		case a.effect == does && a.want.high < leading:
			report.Late++
		}
	})
	report.StaleOffered = report.StaleRefused + report.StaleAccepted
}

// sweepHighest checks that the highest token of the register never falls.
func (r *run) sweepHighest(found *findings) {
	var acts []act
	for i := range r.ops {
		o := &r.ops[i]
		if o.Result == register.OK || o.Result == register.Stale {
			acts = append(acts, act{call: o.Call, ret: o.Return, told: state{high: o.Highest}, client: int32(i)})
		}
	}
	var highest *act
	later(acts, func(a *act) {
		if highest == nil || a.told.high > highest.told.high {
			highest = a
		}
	}, func(a *act) {
		if highest != nil && a.told.high < highest.told.high {
			o := &r.ops[a.client]
			found.add(Violation{Check: CheckHighest, At: a.call, Node: NoNode, Text: fmt.Sprintf("%s was told at %s that the highest token is %d, after it had been %d",
				o.Client, r.since(a.ret), a.told.high, highest.told.high)})
		}
	})
}

// sweepStream checks that accepted sequences rise strictly, and so do those that one client called
// with one token, whatever the outcome: the stream refuses a repeated one, and so would hide that a
// leader has used it twice.
func (r *run) sweepStream(stream *history, found *findings) {
	type leader struct {
		client int32
		token  int64
	}
	called := map[leader]int64{} // the highest position
	for i := range stream.acts {
		a := &stream.acts[i]
		by := leader{a.client, a.want.high}
		if before, ok := called[by]; ok && a.want.value <= before {
			found.add(Violation{Check: CheckSequence, At: a.call, Node: NoNode, Text: fmt.Sprintf("%s by %s at %s, after the same had called %d.%d",
				stream.describe(a), stream.names[a.client], r.since(a.call), a.want.high, before)})
		}
		called[by] = max(called[by], a.want.value)
	}
	var last *act
	accepted := map[state]*act{}
	later(stream.acts, func(a *act) {
		if a.effect == does && (last == nil || compare(a.want, last.want) > 0) {
			last = a
		}
	}, func(a *act) {
		if a.effect != does {
			return
		}
		if last != nil && compare(a.want, last.want) <= 0 {
			found.add(Violation{Check: CheckSequence, At: a.call, Node: NoNode, Text: fmt.Sprintf("%s by %s at %s, after %d.%d had been accepted",
				stream.describe(a), stream.names[a.client], r.since(a.call), last.want.high, last.want.value)})
		}
		if other := accepted[a.want]; other != nil {
			found.add(Violation{Check: CheckSequence, At: a.call, Node: NoNode, Text: fmt.Sprintf("%s by %s at %s: it was accepted twice, first from %s",
				stream.describe(a), stream.names[a.client], r.since(a.call), stream.names[other.client])})
		}
		accepted[a.want] = a
	})
}

// accepted reports whether an operation is a write that the register took.
func accepted(o register.Operation) bool { return o.Op == register.Write && o.Result == register.OK }

// unknown counts operations of unknown outcome.
func unknown(ops []register.Operation) (n int) {
	for i := range ops {
		if ops[i].Result == register.Unknown || ops[i].Result == register.Failed {
			n++
		}
	}
	return n
}
