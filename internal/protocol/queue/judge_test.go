package queue

import (
	"slices"

	"github.com/electd/elect/internal/protocol"
)

// judgeStep checks one step of one machine.
func (n *node) judgeStep(in *protocol.Input, before *protocol.View) {
	w, now := n.w, in.Now.Boot
	v := n.m.View()
	stopped := slices.ContainsFunc(n.fx.Orders, func(o protocol.Order) bool { return o.Kind == protocol.Stop })
	if before.Active && !before.Proven(in.Now) && !stopped {
		w.fail("%s: its claim had lapsed and its work was not told", n.name)
	}
	if at := n.m.NextFire(); v.Active && at > v.LeaseEnd {
		w.fail("%s: wants to be woken at %v, after its claim ends at %v", n.name, at, v.LeaseEnd)
	} else if at <= now {
		w.fail("%s: wants to be woken at %v, now is %v (%s)", n.name, at, now, phaseName(n.m.phase))
	}
	if v.Elected && v.Token == 0 || v.Elected != (n.m.phase == leading) || v.Active && !v.Elected {
		w.fail("%s: view %+v", n.name, v)
	}
	for _, o := range n.fx.Orders {
		if o.Kind == protocol.Stop {
			n.reason = o.Reason
		}
	}
	for _, a := range n.fx.Asks {
		switch a.Op {
		case protocol.OpenSession:
			if x := w.store.sessions[n.session]; x != nil {
				x.left = true
			}
		case protocol.Touch, protocol.KeepAlive:
			if n.m.phase == fencing && n.reason != Resigned && n.reason != Withdrawn && n.reason != Unhealthy && n.reason != "" {
				w.fail("%s: renews after its tenure ended: %s", n.name, n.reason)
			}
		case protocol.Leave, protocol.CloseSession:
			outlasted := n.m.phase == fencing && n.m.over && w.cfg.Dialect == ZooKeeper // no claim is left
			if n.working != 0 && !outlasted && (a.Op == protocol.CloseSession || a.Entry.Order == n.working) {
				w.fail("%s: asks for %s while its work runs", n.name, a.Op)
			}
		case protocol.WatchEntry:
			if a.Entry.Nonce == n.m.nonce && a.Entry.Order != n.m.own.Order {
				w.fail("%s: waits for its own entry %d", n.name, a.Entry.Order)
			}
		}
		if a.Entry.Order != 0 && a.Op != protocol.WatchEntry && a.Op != protocol.WatchTouch && a.Op != protocol.Leave && a.Entry.Session != a.Session {
			w.fail("%s: asks for %s of entry %d of session %d in session %d", n.name, a.Op, a.Entry.Order, a.Entry.Session, a.Session)
		}
	}
	n.session = n.m.session
	if n.m.phase == renewing {
		w.seen["renewing"]++
	}
	if n.m.phase == scanning {
		w.seen["scanning"]++
	}
	if v.Elected && !v.Active && v.NotBefore > now {
		w.seen["hold-off"]++
	}
	if v.Confirmed > before.Confirmed {
		w.seen["confirmed"]++
	}
}

// judge checks all machines at one true instant.
func (w *world) judge() {
	var holder *node
	for _, n := range w.nodes {
		if n.m == nil {
			continue
		}
		r, v := n.reading(), n.m.View()
		proven := v.Proven(r)
		if v.Active && !proven {
			w.lapsed[v.Token] = true
		}
		if proven && w.lapsed[v.Token] {
			w.fail("%s: token %d is proven again", n.name, v.Token)
		}
		// Work that is being stopped by command is protected until the claim ends, as before.
		claims := proven || n.m.phase == fencing && n.m.marked == (w.cfg.Hold > 0) && !n.m.over && n.working != 0 && r.Boot < n.m.claimEnd() && !r.Jumped(n.m.base)
		if !claims {
			continue
		}
		if holder != nil {
			w.fail("%s (token %d) and %s (token %d) both lead", holder.name, holder.m.own.Order, n.name, n.m.own.Order)
		}
		holder = n
	}
}

// judgeStore checks the queue.
func (w *world) judgeStore() {
	for i, e := range w.store.entries {
		x := w.store.sessions[e.Session]
		if x.left && x.replaced == 0 {
			w.fail("entry %d of %s is there, though its session was given up", e.Order, e.Holder)
		}
		if i > 0 && !x.doubled && slices.ContainsFunc(w.store.entries[:i], func(o entry) bool { return o.Session == e.Session }) {
			w.fail("%s has two entries in session %d", e.Holder, e.Session)
		}
	}
}
