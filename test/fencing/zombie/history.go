package zombie

import (
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/electd/elect/fence"
)

// Kind is what an operation does.
type Kind string

// The kinds.
const (
	Claim Kind = "claim"
	Read  Kind = "read"
	Write Kind = "write"
)

// Outcome is what came of an operation, as far as its leader knows.
type Outcome string

// The outcomes. Applied is also that of a read, whose value is the operation's.
const (
	Applied Outcome = "applied"
	Stale   Outcome = "stale"   // refused: nothing of it was applied
	Unknown Outcome = "unknown" // an error: it may have been applied, now or later
)

// Operation is one of a history.
type Operation struct {
	Leader  int         `json:"leader"`
	Kind    Kind        `json:"kind"`
	Token   fence.Token `json:"token"`
	Value   int64       `json:"value"`
	Call    int64       `json:"call"` // in nanoseconds, of one clock for all leaders
	Return  int64       `json:"return"`
	Outcome Outcome     `json:"outcome"`
	Error   string      `json:"error,omitempty"`
}

// String returns the operation in a few words.
func (o Operation) String() string {
	s := fmt.Sprintf("%.3f ms to %.3f ms: %s", float64(o.Call)/1e6, float64(o.Return)/1e6, o.Kind)
	if o.Kind != Read {
		s += " with " + o.Token.String()
	}
	if o.Kind != Claim {
		s += fmt.Sprintf(" of %d", o.Value)
	}
	s += ": " + string(o.Outcome)
	if o.Error != "" {
		s += ", " + o.Error
	}
	return s
}

// register is the state of the model.
type register struct {
	mark  fence.Token
	value int64
}

// model is a register with a high-water mark: a claim or a write takes effect if its
// token is not below the mark, which becomes its token, and is refused if it is.
func model() porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{register{}} },
		Step: func(state, input, _ any) []any {
			r, o := state.(register), input.(Operation)
			after := register{o.Token, o.Value}
			switch {
			case o.Kind == Claim:
				after.value = r.value
			case o.Kind == Read && o.Outcome == Applied:
				if r.value == o.Value {
					return []any{r}
				}
				return nil
			case o.Kind == Read:
				return []any{r}
			}
			passes := o.Token >= r.mark
			switch {
			case o.Outcome == Applied && passes:
				return []any{after}
			case o.Outcome == Stale && !passes:
				return []any{r}
			case o.Outcome == Unknown && passes:
				return []any{r, after}
			case o.Outcome == Unknown:
				return []any{r}
			}
			return nil
		},
		Equal: func(a, b any) bool { return a == b },
	}).ToModel()
}

// Linearizable reports whether one order of the operations, each between its call and
// its return, is one that a fenced register could have had. An operation whose outcome
// is not known may take effect at any time after its call.
func Linearizable(history []Operation) bool {
	var all []porcupine.Operation
	for i, o := range history {
		back := o.Return
		if o.Outcome == Unknown {
			back = math.MaxInt64
		}
		all = append(all, porcupine.Operation{ClientId: i, Input: o, Output: o.Outcome, Call: o.Call, Return: back})
	}
	return porcupine.CheckOperations(model(), all)
}

// StaleWrites are the claims and writes that were called after a greater token had been
// claimed to its end, and took effect all the same. There may be violations beside
// these: [Linearizable] finds them all.
func StaleWrites(history []Operation) []Operation {
	var all []Operation
	for _, o := range history {
		if o.Kind == Read || o.Outcome != Applied {
			continue
		}
		if slices.ContainsFunc(history, func(later Operation) bool {
			return later.Kind != Read && later.Outcome == Applied && later.Token > o.Token && later.Return < o.Call
		}) {
			all = append(all, o)
		}
	}
	return all
}
