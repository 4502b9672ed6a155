package quorum

// judge compares what is proven at this instant with the invariants.
func (w *world) judge() {
	w.adjacent()
	var proven *node
	for _, n := range w.nodes {
		if !n.up {
			continue
		}
		key := led{n, n.life, n.view.Token}
		switch {
		case n.view.Proven(n.reading()):
			if proven != nil {
				w.violated(n, "its lease (token %d) is proven, and so is that of %s (token %d)", n.view.Token, proven.name(), proven.view.Token)
			}
			proven = n
			if w.tenure[key] == 2 {
				w.violated(n, "active twice with token %d", n.view.Token)
			}
			w.tenure[key] = 1
		case n.view.Token != 0 && w.tenure[key] == 1:
			w.tenure[key] = 2
		}
		if n.view.Leader.ID == n.cfg.Self.ID && n.view.Leader.Incarnation == n.m.ballot.Incarnation {
			if who, ok := w.winner[n.view.Leader.Term]; ok && who != n.name() {
				w.violated(n, "leads term %d, which %s has won", n.view.Leader.Term, who)
			}
			w.winner[n.view.Leader.Term] = n.name()
			for x := n.view.Token + 1; n.view.Elected && x <= n.view.Leader.Term; x++ {
				if w.tokens[x] {
					w.violated(n, "goes on with token %d in term %d, though %s has won term %d", n.view.Token, n.view.Leader.Term, w.winner[x], x)
				}
			}
		}
	}
}

// leader is the node with a proven lease, or nil.
func (w *world) leader() *node {
	for _, n := range w.nodes {
		if n.up && n.view.Proven(n.reading()) {
			return n
		}
	}
	return nil
}
