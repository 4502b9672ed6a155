package sim

import "slices"

// byChance marks, in a trace, a message that was lost by chance.
const byChance = "lost"

// mostDrops is the greatest number of lost messages that are turned into operations.
const mostDrops = 4000

// drops turns what noise has lost on links into operations that each drop one message. Those
// without effect are left out afterwards, like other operations.
func (k *shrinker) drops() {
	lossy := func(op Op) bool { return op.Kind == OpLoss }
	if k.best.Links.Loss == 0 && !slices.ContainsFunc(k.best.Ops, lossy) || k.over() {
		return
	}
	k.runs++
	var l losses
	w, err := New(k.protocol, copySchedule(k.best))
	if err != nil {
		return
	}
	w.Trace(&l)
	w.Run()
	if k.try("explicit drops", func(s *Schedule) bool {
		s.Links.Loss = 0
		s.Ops = append(slices.Clone(l.drops), slices.DeleteFunc(s.Ops, lossy)...)
		return len(l.drops) <= mostDrops
	}) {
		k.ops()
	}
}

// losses is a Tracer that notes the messages which noise has lost.
type losses struct{ drops []Op }

// Event implements [Tracer].
func (l *losses) Event(_ *World, r *Record) {
	if r.Kind == RecordLost && r.Says == byChance {
		l.drops = append(l.drops, Op{Kind: OpDrop, Node: r.Node, Peer: r.Peer, Count: int(r.Count)})
	}
}
