package group

import (
	"slices"
	"time"

	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/lab/sim"
)

// The directions of a connection.
const (
	up   = iota // from the member to the coordinator
	down        // from the coordinator to the member
)

// conn is a connection from a member's process to a candidate's. Each end learns by itself that it is closed.
type conn struct {
	id     machine.Conn
	member *process
	cand   *process
	c      *coordinator // the one that was told of it
	open   [2]bool      // whether the sender of that direction has it for open
	last   [2][2]sim.Time
	lost   [2]sim.Time // what would arrive after that is lost
	stall  [2]sim.Time // what is sent waits until then
}

// express reports whether a message may overtake others.
func express(m *machine.Message) bool { return m.Type == machine.Poll || m.Type == machine.Answer }

// delay draws how long a message takes from m to c, or back.
func (w *World) delay(m, c *node) time.Duration {
	if m == c {
		return w.net.Exp(50 * time.Microsecond)
	}
	return w.s.Delay/2 + w.net.Exp(w.s.Delay/2)
}

// send sends a message in one direction.
func (w *World) send(k *conn, dir int, m machine.Message) {
	if !k.open[dir] {
		return
	}
	w.stats.Messages++
	lane := 0
	if express(&m) {
		lane = 1
	}
	at := w.now + sim.Time(w.delay(k.member.node, k.cand.node))
	at = max(at, k.stall[dir], k.last[dir][lane])
	k.last[dir][lane] = at
	w.at(at, func() { w.arrive(k, dir, &m) })
}

// arrive hands a message in, if the connection still has it.
func (w *World) arrive(k *conn, dir int, m *machine.Message) {
	if k.lost[dir] != 0 && w.now >= k.lost[dir] || !k.open[1-dir] {
		return
	}
	if dir == down {
		p := k.member
		p.deliver(func() {
			if k.open[up] {
				p.step(machine.Input{Kind: machine.Receive, Conn: k.id, Message: *m})
			}
		})
		return
	}
	p := k.cand
	p.deliver(func() {
		if c := k.c; c != nil && c == p.c && k.open[down] {
			p.coordinate(c, machine.Input{Kind: machine.Receive, Conn: k.id, From: k.member.node.ID, Message: *m})
		}
	})
}

// dial makes a connection from the member at m to the candidate at c, if there is none and there can be one.
func (w *World) dial(m, c *node) {
	w.in(w.net.Between(0, 15*time.Millisecond), func() {
		p := m.p
		if p == nil || !p.isMember() || c.p == nil || p.conns[c.index] != nil || w.link(m, c).cut > w.now || p.left {
			return
		}
		if p.frozen {
			p.deliver(func() { w.dial(m, c) })
			return
		}
		if !w.meet(p, c.p) {
			return
		}
		w.conns++
		k := &conn{id: w.conns, member: p, cand: c.p, open: [2]bool{true, true}}
		p.conns[c.index] = k
		q := c.p
		q.accepted = append(q.accepted, k)
		q.deliver(func() {
			if q.c != nil && k.open[down] {
				q.opened(k)
			}
		})
	})
}

// closeEnd closes an end: that of the member if dir is up. What it has sent still arrives, unless lossy; then the other
// end learns of it after a while.
func (w *World) closeEnd(k *conn, dir int, lossy bool, late time.Duration) {
	if !k.open[dir] {
		return
	}
	k.open[dir] = false
	k.forget(dir)
	if lossy {
		k.lost[dir] = w.now
	}
	at := max(w.now+sim.Time(w.delay(k.member.node, k.cand.node)+late), k.last[dir][0], k.last[dir][1], k.stall[dir])
	w.at(at, func() { w.learn(k, 1-dir) })
}

// forget takes a closed connection from the lists of that end.
func (k *conn) forget(dir int) {
	if dir == up {
		if k.member.conns[k.cand.node.index] == k {
			delete(k.member.conns, k.cand.node.index)
		}
		return
	}
	k.cand.accepted = slices.DeleteFunc(k.cand.accepted, func(o *conn) bool { return o == k })
}

// learn tells an end that the connection is closed.
func (w *World) learn(k *conn, dir int) {
	if dir == up {
		p := k.member
		p.deliver(func() {
			if !k.open[up] {
				return
			}
			k.open[up] = false
			k.forget(up)
			p.step(machine.Input{Kind: machine.Closed, Conn: k.id})
			w.dial(p.node, k.cand.node)
		})
		return
	}
	p := k.cand
	p.deliver(func() {
		if !k.open[down] {
			return
		}
		k.open[down] = false
		k.forget(down)
		if c := k.c; c != nil && c == p.c {
			p.coordinate(c, machine.Input{Kind: machine.Closed, Conn: k.id})
		}
	})
}

// sever breaks a connection: what is under way is lost, and each end learns of it in its own time.
func (w *World) sever(k *conn) {
	k.lost = [2]sim.Time{w.now, w.now}
	for dir := range 2 {
		late := w.net.Exp(3 * time.Millisecond)
		if w.net.Chance(0.2) {
			late = w.net.Between(0, 2*w.s.Settings[0].Promise)
		}
		w.in(late, func() { w.learn(k, dir) })
	}
}

// cut keeps the member at m from the candidate at c.
func (w *World) cut(m, c *node, until sim.Time) {
	l := w.link(m, c)
	if m == c || l.cut >= until {
		return
	}
	l.cut = until
	if m.p != nil && m.p.conns[c.index] != nil {
		w.sever(m.p.conns[c.index])
	}
	if until != forever {
		w.at(until, func() { w.dial(m, c) })
	}
}
