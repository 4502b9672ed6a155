//go:build linux

package judge

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// mutexPiece is how many tenures are judged at once, unless they overlap.
const mutexPiece = 200

// turn is a lock or an unlock that a tenure makes of itself.
type turn struct {
	*tenure
	unlock bool
}

func (t turn) String() string {
	if t.unlock {
		return "unlock by " + t.tenure.String()
	}
	return "lock by " + t.tenure.String()
}

// held is the state of a mutex.
type held struct {
	by   *tenure
	last int64 // the highest token so far
}

// mutexModel is a mutex; a fenced one gives each holder a token above all before.
func mutexModel(fenced bool, last int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return held{last: last} },
		Step: func(s, in, _ any) (bool, any) {
			h, t := s.(held), in.(turn)
			switch {
			case t.unlock:
				return h.by == t.tenure, held{last: h.last}
			case !fenced:
				return h.by == nil, held{t.tenure, h.last}
			}
			return h.by == nil && t.token > h.last, held{t.tenure, max(h.last, t.token)}
		},
		DescribeOperation: func(in, _ any) string { return in.(turn).String() },
		DescribeState: func(s any) string { // numbers only: porcupine's page takes it for HTML
			if h := s.(held); h.by != nil {
				return fmt.Sprintf("held by %v", h.by)
			}
			return fmt.Sprintf("free; the highest token was %d", s.(held).last)
		},
	}
}

// turns are the operations of tenures on the mutex. A tenure holds it at its first stamp and at its
// last, and so in between; when it locked and unlocked it is not known. But a tenure that began
// before held it at its own first stamp, so this one has locked it since; and the next one holds it
// at its first stamp, so this one has unlocked it by then, unless it led longer. So nothing is lost
// if the intervals end there, and porcupine has little to try. Times are doubled, so that a last
// stamp is before a first one of the same nanosecond only if it is.
func turns(tenures []tenure) []porcupine.Operation {
	var all []porcupine.Operation
	client := map[int]int{}
	for i := range tenures {
		g := &tenures[i]
		c, ok := client[g.node]
		if !ok {
			c = len(client)
			client[g.node] = c
		}
		lock := porcupine.Operation{ClientId: c, Input: turn{g, false}, Call: 2*g.start - 2, Return: 2 * g.start, Metadata: nodeName(g.node)}
		unlock := porcupine.Operation{ClientId: c, Input: turn{g, true}, Call: 2*g.last + 1, Return: 2*g.last + 2, Metadata: nodeName(g.node)}
		if i > 0 {
			lock.Call = 2 * tenures[i-1].start
		}
		if i+1 < len(tenures) {
			unlock.Return = max(unlock.Call, 2*tenures[i+1].start)
		}
		all = append(all, lock, unlock)
	}
	return all
}

// mutexes has porcupine check the tenures as a history of a mutex, and of one that gives tokens.
// They are cut where all had ended before the next began: there the mutex is free, and the state is
// the highest token.
func (r *run) mutexes(found *findings) []excerpt {
	var parts [][]tenure
	var ended int64
	begin := 0
	for i, g := range r.tenures {
		if i > begin && g.start > ended {
			parts = append(parts, r.tenures[begin:i])
			begin = i
		}
		ended = max(ended, g.last)
	}
	if begin < len(r.tenures) {
		parts = append(parts, r.tenures[begin:])
	}
	var shown []excerpt
	for _, check := range []string{CheckMutex, CheckFenced} {
		var pages []excerpt
		var last int64
		for rest := parts; len(rest) > 0; {
			n, tenures := 1, len(rest[0])
			for n < len(rest) && tenures+len(rest[n]) <= mutexPiece {
				tenures += len(rest[n])
				n++
			}
			whole := slices.Concat(rest[:n]...)
			if n == 1 || judgeMutex(check, whole, last, r.options) != porcupine.Ok {
				for _, part := range rest[:n] { // the finer ones tell where it is
					pages = append(pages, r.mutex(found, check, part, last, len(pages) < mostExcerpts)...)
					last = highest(last, part)
				}
			}
			last = highest(last, whole)
			rest = rest[n:]
		}
		shown = append(shown, pages...)
	}
	return shown
}

func highest(token int64, tenures []tenure) int64 {
	for _, g := range tenures {
		token = max(token, g.token)
	}
	return token
}

func judgeMutex(check string, part []tenure, last int64, o Options) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(mutexModel(check == CheckFenced, last), turns(part), o.Patience)
}

// mutex checks a part, and records what is wrong with it.
func (r *run) mutex(found *findings, check string, part []tenure, last int64, show bool) []excerpt {
	result := judgeMutex(check, part, last, r.options)
	if result == porcupine.Ok {
		return nil
	}
	what := "is no history of a mutex"
	switch {
	case result == porcupine.Unknown:
		what = fmt.Sprintf("was not decided within %v", r.options.Patience)
	case check == CheckFenced:
		what = "is no history of a mutex whose tokens rise"
	}
	var end int64
	var who []string
	for _, g := range part {
		end = max(end, g.last)
		if len(who) < 5 {
			who = append(who, g.String())
		}
	}
	if len(who) < len(part) {
		who = append(who, fmt.Sprintf("%d more", len(part)-len(who)))
	}
	at := part[0].start
	if len(part) > 1 {
		at = part[1].start // when the second one began
	}
	text := fmt.Sprintf("what led from %s to %s (%s), after token %d, %s", r.since(part[0].start), r.since(end), strings.Join(who, ", "), last, what)
	found.add(Violation{Check: check, At: at, Node: NoNode, Text: text})
	if !show || len(part) > excerptActs {
		return nil
	}
	model := mutexModel(check == CheckFenced, last)
	_, info := porcupine.CheckOperationsVerbose(model, turns(part), r.options.Patience)
	var page bytes.Buffer
	if err := porcupine.Visualize(model, info, &page); err != nil {
		return nil // the violation stands without a picture
	}
	return []excerpt{{check + ": " + text, page.Bytes()}}
}
