package sim

import (
	"slices"
	"strconv"
	"time"
)

// shapes reports whether an operation affects what the links transmit, for as long as it lasts.
func (k OpKind) shapes() bool {
	switch k {
	case OpLoss, OpDelay, OpDuplicate, OpReorder, OpClog, OpHalfOpen,
		OpIsolate, OpHalves, OpThird, OpBridge, OpMajorityRing, OpChain, OpOneWay, OpSwizzle, OpFlap:
		return true
	}
	return false
}

// reshape computes the state of every link.
func (w *World) reshape() {
	if len(w.shapes) == 0 {
		return
	}
	w.servers.reshaped = true
	noise := &w.schedule.Links
	on := w.shaping[:0]
	for i := range w.ops {
		if w.ops[i].on && w.op(i).Kind.shapes() {
			on = append(on, i)
		}
	}
	w.shaping = on
	for from := range w.width {
		for to := range w.width {
			s := &w.shapes[from*w.width+to]
			*s = shape{reorder: noise.Reorder, within: noise.Jitter}
			if from == to || w.mended(w.nodes[from]) && w.mended(w.nodes[to]) {
				continue
			}
			loss, double := noise.Loss, noise.Duplicate
			for _, i := range on {
				op := w.op(i)
				if w.cuts(op, &w.ops[i], from, to) {
					s.cut = true
				}
				if w.index(op.Node) != from || w.index(op.Peer) != to {
					continue
				}
				switch op.Kind {
				case OpLoss:
					loss = max(loss, op.Value)
				case OpDuplicate:
					double = max(double, op.Value)
				case OpDelay:
					s.slow += op.By
				case OpReorder:
					s.reorder, s.within = true, max(s.within, op.By)
				case OpClog:
					s.clogged = true
				}
			}
			s.loss, s.double, s.tail = odds(loss), odds(double), odds(noise.Tail)
		}
	}
}

// cuts reports whether an operation blocks all messages from one participant to another. Both are
// places, and differ.
func (w *World) cuts(op *Op, st *opState, from, to int) bool {
	in := func(i int) bool { return slices.Contains(op.Group, w.nodes[i].id) }
	node := w.index(op.Node)
	switch op.Kind {
	case OpHalfOpen:
		return from == node && to == w.index(op.Peer)
	case OpIsolate:
		return from == node || to == node
	case OpHalves:
		return in(from) != in(to)
	case OpThird:
		return in(from) || in(to)
	case OpBridge:
		return in(from) != in(to) && from != node && to != node
	case OpMajorityRing:
		n := w.schedule.Nodes
		if from >= n || to >= n {
			return false
		}
		apart := (from - to + n) % n
		return min(apart, n-apart) > (n/2+1)/2
	case OpChain:
		a, b := slices.Index(op.Group, w.nodes[from].id), slices.Index(op.Group, w.nodes[to].id)
		if a < 0 && b < 0 {
			return false
		}
		return a < 0 || b < 0 || a-b != 1 && b-a != 1
	case OpOneWay:
		if op.Value == 0 {
			return from == node
		}
		return to == node
	case OpSwizzle:
		for i, id := range op.Group {
			if st.away&(1<<i) != 0 && (w.nodes[from].id == id || w.nodes[to].id == id) {
				return true
			}
		}
	case OpFlap:
		peer := w.index(op.Peer)
		return st.ticks%2 == 1 && (from == node && to == peer || from == peer && to == node)
	}
	return false
}

// swizzle draws the order in which a swizzle's participants are reconnected. It is a cycle (Sattolo
// 1986), so that none is reconnected in the order in which it was cut off.
func (w *World) swizzle(op *Op, st *opState) {
	r := w.stream("swizzle/" + strconv.FormatInt(int64(op.At), 10))
	n := len(op.Group)
	st.order = make([]int8, n)
	for i := range st.order {
		st.order[i] = int8(i)
	}
	for i := n - 1; i > 0; i-- {
		j := int(below(r.Uint64(), time.Duration(i)))
		st.order[i], st.order[j] = st.order[j], st.order[i]
	}
}

// unclogged sends what a link, and those of its twins, have held, unless another operation still
// clogs it.
func (w *World) unclogged(from, to int) {
	if len(w.links) == 0 {
		return
	}
	for i, a := range w.nodes {
		for j, b := range w.nodes {
			if a.base == from && b.base == to && !w.shape(a, b).clogged {
				w.unclog(i, j)
			}
		}
	}
}
