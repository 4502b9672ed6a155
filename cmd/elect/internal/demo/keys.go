package demo

import (
	"context"
	"strings"
	"time"

	"github.com/electd/elect/cmd/elect/internal/screen"
)

// key handles a key, and reports whether it means to quit.
func (t *Demo) key(key string) (quit bool, err error) {
	t.mu.Lock()
	m := t.model
	o, quit := m.key(key)
	m.hint = ""
	t.mu.Unlock()
	if key == screen.CtrlC {
		return true, ErrInterrupted
	}
	if o != nil {
		t.do(o.act, o.node)
	}
	return quit, nil
}

// key changes what is selected or shown, or returns an order.
func (m *model) key(key string) (o *order, quit bool) {
	if key == screen.CtrlC {
		return nil, true
	}
	if m.help {
		m.help = false
		return nil, key == "q" || key == "Q"
	}
	n := &m.nodes[m.selected]
	do := func(a act) (*order, bool) { return &order{a, m.selected}, false }
	switch strings.ToLower(key) {
	case "1", "2", "3":
		m.selected = int(key[0] - '1')
	case screen.KeyLeft:
		m.selected = (m.selected + size - 1) % size
	case screen.KeyRight, screen.KeyTab:
		m.selected = (m.selected + 1) % size
	case "k":
		return do(kill)
	case "s":
		return do(start)
	case "j":
		return do(killJob)
	case "p":
		if n.condition == paused {
			return do(wake)
		}
		return do(pause)
	case "c":
		if n.cut {
			return do(heal)
		}
		return do(cut)
	case "r":
		if w := m.worker(); w >= 0 { // whichever node is selected: only one can
			return &order{resign, w}, false
		}
		return do(resign)
	case "w":
		return do(late)
	case "x":
		m.chaos = !m.chaos
		if m.chaos {
			m.tell(struck, "Chaos: something happens to a node every few seconds. x ends it.")
		} else {
			m.tell(struck, "Chaos is over. What is broken stays so: s starts, p wakes, c connects.")
		}
	case "?", "h":
		m.help = true
	case "q":
		return nil, true
	}
	return nil, false
}

// unleash requests something random every few seconds while chaos is on.
func (t *Demo) unleash(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(chaosLeast + time.Duration(random(int(chaosMore)))):
		}
		t.mu.Lock()
		on := t.model.chaos
		o := t.model.havoc(random)
		t.mu.Unlock()
		if on {
			t.do(o.act, o.node)
		}
	}
}

const (
	chaosLeast = 1500 * time.Millisecond
	chaosMore  = 2500 * time.Millisecond
)

// havoc draws the next act: usually it breaks something while all is well, mostly the leader, and mends it while
// something is broken.
func (m *model) havoc(draw func(n int) int) order {
	var broken, well []int
	for i := range m.nodes {
		if m.nodes[i].reachable() {
			well = append(well, i)
		} else {
			broken = append(broken, i)
		}
	}
	if len(broken) > 1 || len(broken) == 1 && draw(5) > 0 {
		i := broken[draw(len(broken))]
		switch n := &m.nodes[i]; {
		case n.condition == dead:
			return order{start, i}
		case n.condition == paused:
			return order{wake, i}
		}
		return order{heal, i}
	}
	i := well[draw(len(well))]
	if w := m.worker(); w >= 0 && m.nodes[w].reachable() && draw(3) > 0 {
		i = w
	}
	acts := []act{kill, pause, cut}
	if m.worker() == i {
		acts = append(acts, killJob, resign)
	}
	return order{acts[draw(len(acts))], i}
}
