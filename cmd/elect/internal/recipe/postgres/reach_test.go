package postgres

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// replay is how long promotions of a node replay; below 0 its disk hangs.
func (l *lab) replay(i int, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dbs[i].replay = d
}

// TestHangingRecovery has the disk of a node hang while it is promoted.
func TestHangingRecovery(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		hangs := (p + 1) % 3
		l.replay(hangs, -1)
		begun := time.Now()
		if err := l.nodes[p].handOver(l.ctx, l.nodes[hangs].s.ID); err != nil {
			t.Fatal(err)
		}
		pause(l.ctx, 5*time.Second) // the old one still serves before that
		if l.promotions(hangs) != 0 || l.nodes[hangs].state(l.ctx, false).Role != roleLeader {
			t.Fatalf("the node whose disk hangs does not lead: nothing was tested\n%s", l.state())
		}
		next := l.primary()
		if took := time.Since(begun); next == hangs || took > 20*time.Second {
			t.Errorf("%s is the primary after %v; want one whose disk is well, after 10s", l.nodes[next].s.ID, took)
		}
		l.verify(next)
	})
}

// TestLongRecovery has a node replay for longer than a primary may be ill.
func TestLongRecovery(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		for i := range l.dbs {
			l.replay(i, 10*time.Minute)
		}
		l.crash(p)
		pause(l.ctx, 10*time.Minute)
		next := l.primary()
		if all := l.promotions(0) + l.promotions(1) + l.promotions(2); all != 1 {
			t.Errorf("%d promotions; want one, which is left alone", all)
		}
		l.verify(next)
	})
}

// promotions is how often a node has tried to be promoted.
func (l *lab) promotions(i int) (all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, op := range l.dbs[i].ops {
		if op == "promote" {
			all++
		}
	}
	return all
}

// block keeps the servers of others from that of some nodes, and only from these.
func (l *lab) block(which ...int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.deaf)
	for _, i := range which {
		l.deaf[i] = true
	}
}

// TestUnreachable keeps replicas from a primary, whose commits wait then.
func TestUnreachable(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		l.block(p)
		go func() { _ = l.dbs[p].write(l.ctx) }()
		begun := time.Now()
		pause(l.ctx, aloneTime-2*restTime)
		if l.nodes[p].isPrimary() != nil {
			t.Fatal("it gave way before its time")
		}
		next := l.primary(p)
		if took := time.Since(begun); took > aloneTime+10*time.Second {
			t.Errorf("it took %v; want about %v", took, aloneTime)
		}
		l.verify(next)
		l.write(next, 5)
		l.settled(next)
	})
}

// TestUnreachableTwo does the same while a third node is away. No other node can be promoted then.
func TestUnreachableTwo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		l.stop((p + 1) % 3)
		l.block(p)
		pause(l.ctx, 10*time.Minute)
		if l.nodes[p].isPrimary() != nil {
			t.Error("it gave way, although the other node cannot be promoted; want it to stay")
		}
		l.block()
		l.write(p, 5)
	})
}

// TestUnreachableAll keeps servers from each other: nodes give way more and more rarely, also before they serve.
func TestUnreachableAll(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		l.block(0, 1, 2)
		turns := func() int { return l.promotions(0) + l.promotions(1) + l.promotions(2) }
		first := turns()
		pause(l.ctx, 5*time.Minute)
		early := turns() - first
		pause(l.ctx, 15*time.Minute)
		late := turns() - first - early
		if early < 3 || early > 7 || late > 7 {
			t.Errorf("%d promotions in 5 minutes, and %d in the 15 after these; want 3 to 7, and not more later", early, late)
		}
		now := slices.IndexFunc(l.nodes, func(n *Node) bool { return n.state(l.ctx, false).Role == rolePrimary })
		l.block(now)
		begun := time.Now()
		for next := now; next == now || next < 0; pause(l.ctx, time.Second) {
			next = slices.IndexFunc(l.nodes, func(n *Node) bool { return n.isPrimary() == nil })
			if time.Since(begun) > time.Hour {
				t.Fatalf("no node that can be reached is the primary after an hour\n%s", l.state())
			}
		}
		ok := l.primary(now)
		l.verify(ok)
		l.settled(ok)
	})
}

// TestRewindUnreachable has an old primary that has to be rewound, and does not reach the new one: its data stays whole.
func TestRewindUnreachable(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		l.isolate(p)
		next := l.primary(p)
		l.block(next)
		l.heal(p)
		pause(l.ctx, aloneTime/2)
		s := l.nodes[p].state(l.ctx, false)
		if !s.Whole || !strings.HasPrefix(s.Does, "rewinding from ") {
			t.Errorf("%+v; want a whole node that tries to be rewound", s)
		}
		if token := l.nodes[next].record().Followed; s.Waiting != token {
			t.Errorf("it waits for %d; want %d, the leader that it does not reach", s.Waiting, token)
		}
		l.block()
		l.settled(l.primary())
	})
}
