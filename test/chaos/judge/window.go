//go:build linux

package judge

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Porcupine takes more than twice as long for a history of twice the length, so a history of hours
// is cut. It is cut where no change of the state is in progress, the state is known, and every
// other act in progress was told that very state. Then the whole is linearizable if and only if the
// pieces are, without the acts in progress: in a linearization of the whole, the part before the
// cut ends in that state, and the part after it begins with it; and between linearizations of the
// pieces there is room for the acts that only looked, in the state that they were told.
//
// # The state is known
//
//   - if nothing in the piece changes it: as it was;
//   - if, of all changes, the last to be called began after all others had ended, and was accepted:
//     it is what that one wrote;
//   - if an answer told the state to an act that was called after all changes had ended.
//
// Otherwise there is no cut. Pieces are joined again up to pieceActs, because a call of porcupine
// has a cost, too.
const (
	pieceActs = 400
	// mostActs is the greatest length of a piece for porcupine: its memory grows with the square. A
	// longer one is not decided, which is a violation: nothing passes unchecked.
	mostActs = 40_000
)

// piece is a part of a history that can be judged alone.
type piece struct {
	init state
	acts []act
}

// pieces cuts a history.
func (h *history) pieces() []piece {
	var all []piece
	p := cutting{h: h, next: never, change: -1, asked: -1}
	for i := range h.acts {
		a := &h.acts[i]
		p.end(a.call)
		if i > p.begin {
			if after, ok := p.can(); ok {
				all = p.cut(all, i, after)
			}
		}
		p.add(i)
	}
	if p.begin < len(h.acts) {
		p.under = nil
		all = p.cut(all, len(h.acts), state{})
	}
	return all
}

// cutting is the piece that a history is being cut into.
type cutting struct {
	h       *history
	init    state
	begin   int   // its first act
	under   []int // acts that are under way
	changes int   // how many of them change something
	next    int64 // before then none of them ends
	change  int   // the act that changes something and was called last, or -1
	changed int64 // the last end of all others that change something
	asked   int   // of the acts that have ended and were told the state, the one that was called last, or -1
}

// end takes out of what is under way what had ended before a call.
func (p *cutting) end(call int64) {
	if call <= p.next {
		return
	}
	p.next = never
	p.under = slices.DeleteFunc(p.under, func(k int) bool {
		a := &p.h.acts[k]
		switch {
		case a.ret >= call:
			p.next = min(p.next, a.ret)
			return false
		case a.changes():
			p.changes--
		case a.effect == sees || p.h.known:
			p.asked = max(p.asked, k)
		}
		return true
	})
}

// add adds the next act.
func (p *cutting) add(i int) {
	a := &p.h.acts[i]
	p.under = append(p.under, i)
	p.next = min(p.next, a.ret)
	if a.changes() {
		p.changes++
		if p.change >= 0 {
			p.changed = max(p.changed, p.h.acts[p.change].ret)
		}
		p.change = i
	}
}

// can reports whether the piece may end here, and in what state.
func (p *cutting) can() (after state, ok bool) {
	acts := p.h.acts
	switch {
	case p.changes > 0:
		return after, false
	case p.change < 0:
		after = p.init
	case acts[p.change].effect == does && acts[p.change].call > p.changed:
		after = acts[p.change].want
	case p.asked >= 0 && acts[p.asked].call > max(p.changed, acts[p.change].ret):
		after = acts[p.asked].told
	default:
		return after, false
	}
	for _, k := range p.under {
		if _, ok := p.h.step(after, &acts[k]); !ok {
			return after, false
		}
	}
	return after, true
}

// cut ends the piece before act i, without what is under way, and begins the next.
func (p *cutting) cut(all []piece, i int, after state) []piece {
	acts := p.h.acts[p.begin:i:i]
	if len(p.under) > 0 {
		acts = slices.Clone(acts)
		for k := len(p.under) - 1; k >= 0; k-- { // they are in order
			at := p.under[k] - p.begin
			acts = slices.Delete(acts, at, at+1)
		}
	}
	if len(acts) > 0 {
		all = append(all, piece{p.init, acts})
	}
	*p = cutting{h: p.h, init: after, begin: i, next: never, change: -1, asked: -1}
	return all
}

// together puts pieces that follow each other together, up to so many acts.
func together(all []piece, most int) [][]piece {
	var out [][]piece
	n := 0
	for _, p := range all {
		if len(out) == 0 || n+len(p.acts) > most {
			out = append(out, nil)
			n = 0
		}
		out[len(out)-1] = append(out[len(out)-1], p)
		n += len(p.acts)
	}
	return out
}

// join is pieces that follow each other as one.
func join(pieces []piece) piece {
	one := piece{init: pieces[0].init}
	for _, p := range pieces {
		one.acts = append(one.acts, p.acts...)
	}
	return one
}

// model is the object as porcupine wants it. Where no outcome is open it is
// deterministic, which is cheaper.
func (h *history) model(p *piece) porcupine.Model {
	describe := func(in, _ any) string { return h.describe(in.(*act)) }
	show := func(s any) string { return html.EscapeString(h.show(s.(state))) } // porcupine's page takes it for HTML
	hash := func(s any) uint64 { return uint64(s.(state).high)*0x9e3779b97f4a7c15 + uint64(s.(state).value) }
	if !slices.ContainsFunc(p.acts, func(a act) bool { return a.effect == might }) {
		return porcupine.Model{
			Init: func() any { return p.init },
			Step: func(s, in, _ any) (bool, any) {
				next, ok := h.step(s.(state), in.(*act))
				return ok, next
			},
			Hash:              hash,
			DescribeOperation: describe, DescribeState: show,
		}
	}
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{p.init} },
		Step: func(s, in, _ any) []any {
			a := in.(*act)
			next, ok := h.step(s.(state), a)
			switch {
			case !ok:
				return nil
			case a.effect == might && next != s.(state):
				return []any{s, next}
			}
			return []any{next}
		},
		Hash:              hash,
		DescribeOperation: describe, DescribeState: show,
	}
	return m.ToModel()
}

// step is the sequential rule of the object: the state after an act, and whether
// it can have been answered as it was. An open act is carried out.
func (h *history) step(s state, a *act) (state, bool) {
	switch a.effect {
	case sees:
		return s, a.told == s
	case does:
		return a.want, h.accepts(s, a.want) && a.told == a.want
	case fails:
		return s, !h.accepts(s, a.want) && a.told.high == s.high && (!h.known || a.told == s)
	}
	if h.accepts(s, a.want) {
		return a.want, true
	}
	return s, true
}

// operations are the acts as porcupine wants them.
func (h *history) operations(p *piece) []porcupine.Operation {
	clients := map[int32]int{} // few in a piece, and numbered from 0
	all := make([]porcupine.Operation, len(p.acts))
	for i := range p.acts {
		a := &p.acts[i]
		c, ok := clients[a.client]
		if !ok {
			c = len(clients)
			clients[a.client] = c
		}
		all[i] = porcupine.Operation{ClientId: c, Input: a, Call: a.call, Return: a.ret, Metadata: html.EscapeString(h.names[a.client])}
	}
	return all
}

// excerpt is a page of porcupine's about a piece that failed.
type excerpt struct {
	title string
	page  []byte
}

// linearizable has porcupine judge the history, piece by piece.
func (h *history) linearizable(r *run, found *findings, report *Report) []excerpt {
	pieces := h.pieces()
	groups := together(pieces, pieceActs)
	work := make(chan []piece)
	var mu sync.Mutex
	var failed []piece
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for group := range work {
				whole := join(group)
				if len(group) > 1 && h.check1(&whole, r.options.Patience) == porcupine.Ok {
					continue
				}
				for _, p := range group { // the finer ones tell where it is
					if h.check1(&p, r.options.Patience) != porcupine.Ok {
						mu.Lock()
						failed = append(failed, p)
						mu.Unlock()
					}
				}
			}
		})
	}
	for _, g := range groups {
		work <- g
	}
	close(work)
	wg.Wait()
	report.Pieces += len(pieces)
	for _, p := range pieces {
		report.LongestPiece = max(report.LongestPiece, len(p.acts))
	}
	slices.SortFunc(failed, func(a, b piece) int { return cmp.Compare(a.acts[0].call, b.acts[0].call) })
	var shown []excerpt
	for _, p := range failed {
		shown = append(shown, h.fail(r, found, p, len(shown) < mostExcerpts)...)
	}
	return shown
}

// check1 judges one piece.
func (h *history) check1(p *piece, patience time.Duration) porcupine.CheckResult {
	if len(p.acts) > mostActs {
		return porcupine.Unknown
	}
	return porcupine.CheckOperationsTimeout(h.model(p), h.operations(p), patience)
}

const (
	mostExcerpts = 3    // pages of a check
	excerptActs  = 2000 // more of them no browser shows
)

// fail puts down a piece that is not linearizable, or was not decided.
func (h *history) fail(r *run, found *findings, p piece, show bool) []excerpt {
	from, to := p.acts[0].call, int64(0)
	for _, a := range p.acts {
		if a.ret != never {
			to = max(to, a.ret)
		}
	}
	where := fmt.Sprintf("%d operations from %s to %s, which begin with %s", len(p.acts), r.since(from), r.since(max(from, to)), h.show(p.init))
	if len(p.acts) > mostActs {
		found.add(Violation{Check: h.check, At: from, Node: NoNode, Text: "not decided, as there are too many: " + where})
		return nil
	}
	model, operations := h.model(&p), h.operations(&p)
	result, info := porcupine.CheckOperationsVerbose(model, operations, r.options.Patience)
	what := "not linearizable: "
	if result != porcupine.Illegal {
		what = fmt.Sprintf("not decided within %v: ", r.options.Patience)
	}
	found.add(Violation{Check: h.check, At: from, Node: NoNode, Text: what + where})
	if !show || len(p.acts) > excerptActs {
		return nil
	}
	var page bytes.Buffer
	if err := porcupine.Visualize(model, info, &page); err != nil {
		return nil // the violation stands without a picture
	}
	return []excerpt{{fmt.Sprintf("%s: %s%s", h.check, what, where), page.Bytes()}}
}
