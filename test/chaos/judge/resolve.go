//go:build linux

package judge

import (
	"cmp"
	"slices"
)

// resolve bounds acts of unknown outcome. Each of them is open to the end of time, and porcupine
// has to try it at every place, with and without: with a few of them it never ends. But most can be
// bounded, or left out, without changing whether the history is linearizable.
//
// Let w be such a change, and let no other act write the same (values of the register are unique; a
// sequence that is sent twice is accepted at most once, and equal acts are interchangeable).
//
//   - An answer told w's value, or its sequence as the last. Then w was accepted before the first
//     of these answers: it is an accepted act that ended by then. In any linearization it stands
//     before that answer's act.
//   - No answer told it, and the object has no fence (the twin). Take any linearization that has w:
//     an act that looks after w sees a later change, so without w it is still a linearization. And
//     w may be left out, because it may never have been carried out.
//   - No answer told it, but it may have raised the fence, for which others were refused. Let t be
//     its token, or its sequence. After an answer that tells t or more, wherever w stands, it no
//     longer raises the fence: it is refused, or is accepted without a reader of its value, and can
//     be left out as for the twin. So it is open only until the end of the first such act. If that
//     was before w's call, w is left out.
//
// A leader has shown its token with each earlier write, so what remains is the first write of a
// leader that was cut off during it, until the next leader's first.
func (h *history) resolve() {
	open := false
	for i := range h.acts {
		open = open || h.acts[i].effect == might
	}
	if !open {
		return
	}
	fence := h.check != CheckTwin
	// The rank of an answer, to compare with w: of the register the token alone; of the stream the
	// sequence.
	rank := func(s state) state {
		if h.check == CheckRegister {
			s.value = 0
		}
		return s
	}
	seen := map[int64]int64{} // by value, of register and twin: the first end of an answer that told it
	last := map[state]int64{} // by sequence
	taken := map[state]bool{} // sequences that were accepted
	var ends []told
	for i := range h.acts {
		a := &h.acts[i]
		if a.effect == might {
			continue
		}
		if a.effect == does && h.check == CheckStream {
			taken[a.want] = true
		}
		if a.effect == sees {
			if at, ok := seen[a.told.value]; !ok || a.ret < at {
				seen[a.told.value] = a.ret
			}
		}
		if at, ok := last[a.told]; !ok || a.ret < at {
			last[a.told] = a.ret
		}
		ends = append(ends, told{rank(a.told), a.ret})
	}
	slices.SortFunc(ends, func(a, b told) int { return compare(a.state, b.state) })
	for i := len(ends) - 2; i >= 0; i-- {
		ends[i].ret = min(ends[i].ret, ends[i+1].ret) // of the first answer that told of as much or more
	}
	raised := func(to state) int64 { // when an answer had told as much or more
		i, _ := slices.BinarySearchFunc(ends, to, func(t told, s state) int { return compare(t.state, s) })
		if i == len(ends) {
			return never
		}
		return ends[i].ret
	}
	kept := h.acts[:0]
	for _, a := range h.acts {
		if a.effect == might {
			at, ok := seen[a.want.value]
			if h.check == CheckStream {
				at, ok = last[a.want]
			}
			switch {
			case taken[a.want]: // by another act, so this one was refused
				continue
			case ok:
				// Also if that was before the call: then there is no linearization, which is the
				// correct verdict.
				a.effect, a.ret, a.told = does, max(at, a.call), a.want
				if h.check == CheckStream {
					taken[a.want] = true
				}
			case !fence:
				continue
			default:
				if a.ret = raised(rank(a.want)); a.ret < a.call {
					continue
				}
			}
		}
		kept = append(kept, a)
	}
	h.acts = kept
}

// told is an answer: what it told, and when.
type told struct {
	state
	ret int64
}

func compare(a, b state) int {
	return cmp.Or(cmp.Compare(a.high, b.high), cmp.Compare(a.value, b.value))
}
