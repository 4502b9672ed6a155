package group

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
)

// check looks at all that is proven now.
func (n *net) check() {
	for i, h := range n.hosts {
		if !h.up {
			continue
		}
		now := h.reading()
		for _, w := range h.works {
			if w.stopped || !w.view.Proven(now) {
				continue
			}
			for _, o := range n.hosts[i:] {
				if !o.up {
					continue
				}
				for _, v := range o.works {
					if v != w && v.key == w.key && !v.stopped && v.view.Proven(o.reading()) {
						n.fail("one-holder: %s under %v at %s and under %v at %s", w.key, w.token, h.id, v.token, o.id)
					}
				}
			}
		}
		v := h.m.View()
		if !v.Admitted || !v.Proven(now) || h.m.registry == nil {
			continue
		}
		for _, o := range n.hosts {
			if !o.up {
				continue
			}
			if u := o.m.View(); u.Admitted && u.Proven(o.reading()) && !slices.Contains(h.m.registry.Sessions, u.Session) {
				n.fail("known-to-vouchers: %v keeps %d.%d without %v", v.Session, h.m.registry.Tenure, h.m.registry.Version, u.Session)
			}
		}
	}
}

// joined looks at what begins: no other work of the key runs, stopped or not, within its claim.
func (n *net) joined(h *host, k Key) {
	for _, o := range n.hosts {
		if !o.up {
			continue
		}
		for _, w := range o.works {
			if w.key == k && w.view.Proven(o.reading()) {
				n.fail("joined: %s begins %s while it runs at %s under %v", h.id, k, o.id, w.token)
			}
		}
	}
}

// run runs chaos and then calm, in which everything heals.
func (n *net) run() error {
	step := func(until int64) {
		for n.failed == "" && len(n.events) > 0 && n.events[0].at <= until {
			e := heap.Pop(&n.events).(event)
			n.now = e.at
			e.do()
			if len(n.pipes) > 200 {
				n.pipes = slices.DeleteFunc(n.pipes, func(p *pipe) bool { return !p.open })
			}
		}
		n.now = until
	}
	step(1e9 + netChaos)
	n.chaos = false
	for _, h := range n.hosts {
		h.isolated = min(h.isolated, n.now+4000*ms)
	}
	redial := func() {}
	redial = func() {
		for _, h := range n.hosts {
			h.act(h.dial)
		}
		n.after(100*ms, redial)
	}
	redial()
	step(1e9 + netChaos + netCalm)
	if n.failed == "" {
		for _, k := range n.keys {
			held := 0
			for _, h := range n.hosts {
				for _, w := range h.works {
					if w.key == k && !w.stopped && w.view.Proven(h.reading()) {
						held++
					}
				}
			}
			if held != 1 {
				n.fail("healed: %s has %d holders", k, held)
			}
		}
	}
	if n.failed != "" {
		return fmt.Errorf("%s", n.failed)
	}
	return nil
}

// brief is a message in a few words.
func brief(m *Message) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s #%d T%d", m.Type, m.Number, m.Tenure)
	if m.Seq > 0 {
		fmt.Fprintf(&s, " seq %d", m.Seq)
	}
	if m.Session != (Session{}) {
		fmt.Fprintf(&s, " %v", m.Session)
	}
	if m.Admitted {
		s.WriteString(" admitted")
	}
	if m.Acked > 0 {
		fmt.Fprintf(&s, " acked %d", m.Acked)
	}
	if m.Registry != nil {
		fmt.Fprintf(&s, " %d.%d%v", m.Registry.Tenure, m.Registry.Version, m.Registry.Sessions)
	}
	for _, h := range m.Held {
		fmt.Fprintf(&s, " %s:%v", h.Key, h.Token)
	}
	for _, h := range m.Overruns {
		fmt.Fprintf(&s, " over %s:%v", h.Key, h.Token)
	}
	return s.String()
}

// sane returns an error if what the coordinator keeps does not fit together.
func (c *Coordinator) sane() error {
	if c.over {
		return nil
	}
	covers := make(map[uint32]uint32)
	held := make(map[uint32]bool)
	for i, s := range c.sessions {
		if i > 0 && c.sessions[i-1].id.Compare(s.id) >= 0 {
			return fmt.Errorf("the sessions are not in order")
		}
		if c.session(s.id) != s || c.slots[s.slot] != s || c.known.peers[s.id.Member] != s.peer {
			return fmt.Errorf("%v is not where it should be", s.id)
		}
		if s.promise < c.wake {
			return fmt.Errorf("%v is promised until %v, before the next look at %v", s.id, s.promise, c.wake)
		}
		if s.voucher && !s.admitted || s.shown && !s.admitted {
			return fmt.Errorf("%v is a voucher, or shown to be admitted, and is not admitted", s.id)
		}
		if len(s.assigns)+len(s.revokes) > 0 {
			return fmt.Errorf("%v has an outbox between steps", s.id)
		}
		n := 0
		for i := range c.keys.all {
			if c.keys.all[i].holder == s.slot {
				held[uint32(i)] = true
				n++
			}
		}
		if n != s.keys {
			return fmt.Errorf("%v holds %d keys and counts %d", s.id, n, s.keys)
		}
		for o := range s.overruns {
			covers[o.key]++
		}
	}
	if n := c.keys.index.used + len(c.keys.spare) + 1; len(c.keys.all) != max(n, 1) && len(c.keys.all) != 0 {
		return fmt.Errorf("%d places; want %d", len(c.keys.all), n)
	}
	for i := range c.keys.all {
		e := &c.keys.all[i]
		if (e.holder != 0) != held[uint32(i)] || e.overruns != covers[uint32(i)] {
			return fmt.Errorf("%s: holder %d, %d overruns; want %v, %d", e.key, e.holder, e.overruns, held[uint32(i)], covers[uint32(i)])
		}
		if e.reserved != 0 && c.slots[e.reserved] != nil && e.holder == 0 && e.overruns == 0 {
			return fmt.Errorf("%s is free and still reserved", e.key)
		}
		if e.key == "" && (e.holder != 0 || e.overruns != 0 || len(e.wants()) != 0) {
			return fmt.Errorf("the place %d is in use", i)
		}
		if place, ok := c.keys.find(e.key); e.key != "" && (!ok || place != uint32(i)) {
			return fmt.Errorf("%s is not where it should be", e.key)
		}
	}
	return nil
}
