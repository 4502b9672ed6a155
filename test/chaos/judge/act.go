//go:build linux

package judge

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/electd/elect/test/chaos/register"
)

// state is the state of one of the objects that clients use. Of the register it is the highest
// token and the value, by its number; of the twin the value alone; of the stream the last sequence.
type state struct {
	high  int64
	value int64
}

// effect is the effect of an act on the object.
type effect uint8

const (
	sees  effect = iota // it changes nothing, and was told the state
	does                // it was accepted
	fails               // it was refused, and was told high
	might               // unknown: it was accepted or refused, or not carried out
)

// act is one operation on one object.
type act struct {
	effect    effect
	client    int32
	want      state // what is written, with its token
	told      state // the state in the answer
	call, ret int64
}

// changes reports whether it changes the object, or may.
func (a *act) changes() bool { return a.effect == does || a.effect == might }

// never is the end of an act without a known end.
const never = int64(1<<63 - 1)

// object is one of the three that clients use, with its rules.
type object struct {
	check string // the check that fails when it is not linearizable
	// accepts reports whether a state accepts a change to want, which is then the state.
	accepts func(s state, want state) bool
	// known reports whether a refusal tells the whole state.
	known bool
	// describe is an act in words.
	describe func(a *act) string
	show     func(s state) string
}

// history is what was done to one object, by the time of the call.
type history struct {
	object
	acts  []act
	names []string // of clients
}

// histories splits the operations of clients into one history for each object. Acts of unknown
// outcome are open to the end of time; see resolve.
func histories(ops []register.Operation) (guarded, twin, stream *history) {
	values := map[string]int64{"": 0}
	var texts = []string{""}
	number := func(text string) int64 {
		n, ok := values[text]
		if !ok {
			n = int64(len(texts))
			values[text] = n
			texts = append(texts, text)
		}
		return n
	}
	text := func(n int64) string {
		if n < 0 || n >= int64(len(texts)) {
			return fmt.Sprintf("value %d", n)
		}
		return texts[n]
	}
	clients := map[string]int32{}
	var names []string
	client := func(name string) int32 {
		n, ok := clients[name]
		if !ok {
			n = int32(len(names))
			clients[name] = n
			names = append(names, name)
		}
		return n
	}
	guarded = &history{object: object{
		check: CheckRegister, accepts: func(s, want state) bool { return want.high >= s.high },
		describe: func(a *act) string {
			return words(a, "read", fmt.Sprintf("write %q with token %d", text(a.want.value), a.want.high), fmt.Sprintf("%q, highest token %d", text(a.told.value), a.told.high), fmt.Sprintf("highest token %d", a.told.high))
		},
		show: func(s state) string { return fmt.Sprintf("%q, highest token %d", text(s.value), s.high) },
	}}
	twin = &history{object: object{
		check: CheckTwin, accepts: func(state, state) bool { return true },
		describe: func(a *act) string {
			return words(a, "peek", fmt.Sprintf("write %q", text(a.want.value)), fmt.Sprintf("%q", text(a.told.value)), "")
		},
		show: func(s state) string { return fmt.Sprintf("%q", text(s.value)) },
	}}
	sequence := func(s state) string { return fmt.Sprintf("%d.%d", s.high, s.value) }
	stream = &history{object: object{
		check: CheckStream, known: true,
		accepts: func(s, want state) bool {
			return cmp.Or(cmp.Compare(want.high, s.high), cmp.Compare(want.value, s.value)) > 0
		},
		describe: func(a *act) string {
			return words(a, "look", "stream "+sequence(a.want), "last "+sequence(a.told), "last "+sequence(a.told))
		},
		show: func(s state) string { return "last " + sequence(s) },
	}}
	for i := range ops {
		o := &ops[i]
		if o.Result == register.Never {
			continue // it is not an operation
		}
		a := act{client: client(o.Client), call: o.Call, ret: o.Return, told: state{high: o.Highest}}
		switch o.Result {
		case register.OK:
			a.effect = does
		case register.Stale:
			a.effect = fails
		default:
			a.effect, a.ret = might, never
		}
		switch o.Op {
		case register.Write:
			a.want = state{o.Token, number(o.Value)}
			if a.effect == does {
				a.told.value = a.want.value
			}
			guarded.acts = append(guarded.acts, a)
			if a.effect == fails {
				a.effect = does // there
			}
			a.want.high, a.told = 0, state{value: a.want.value}
			twin.acts = append(twin.acts, a)
		case register.Stream:
			a.want = state{o.Token, int64(o.Position)}
			a.told = state{int64(o.Last.Token), int64(o.Last.Position)}
			stream.acts = append(stream.acts, a)
		case register.Read, register.Peek:
			if a.effect == might {
				continue // there was no answer
			}
			a.effect, a.told.value = sees, number(o.Seen)
			if o.Op == register.Read {
				guarded.acts = append(guarded.acts, a)
			} else {
				a.told.high = 0
				twin.acts = append(twin.acts, a)
			}
		}
	}
	for _, h := range []*history{guarded, twin, stream} {
		h.names = names
		slices.SortStableFunc(h.acts, func(a, b act) int { return cmp.Compare(a.call, b.call) })
	}
	return guarded, twin, stream
}

// words describes an act: the request and the answer.
func words(a *act, look, change, saw, refused string) string {
	switch a.effect {
	case sees:
		return look + " → " + saw
	case does:
		return change + " → ok"
	case fails:
		return change + " → refused, " + refused
	}
	return change + " → unknown"
}
