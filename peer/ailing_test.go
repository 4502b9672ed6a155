package peer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
	"github.com/electd/elect/peer/internal/disk"
)

// ails makes the writes of disks slow. What it returns sets by how much those of some nodes are, from now on; a write
// that waits goes on when that changes.
func (v *fakeCluster) ails() (set func(by time.Duration, ids ...protocol.NodeID)) {
	var mu sync.Mutex
	slow, changed := map[protocol.NodeID]time.Duration{}, make(chan struct{})
	v.disk = func(id protocol.NodeID, save func([]byte) error) func([]byte) error {
		return func(data []byte) error {
			mu.Lock()
			by, until := slow[id], changed
			mu.Unlock()
			if by > 0 {
				select {
				case <-time.After(by):
				case <-until:
				}
			}
			return save(data)
		}
	}
	v.change = func(cfg *setup) { cfg.Heartbeat, cfg.Promise = time.Second, 10*time.Second } // few messages
	return func(by time.Duration, ids ...protocol.NodeID) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			slow[id] = by
		}
		close(changed)
		changed = make(chan struct{})
	}
}

const forever = 1000 * time.Hour

// TestDiskOfLeaderIll: a leader whose disk hangs, or needs 2 s for a write, hands over although it has nothing to save,
// within the stated time. It leads again when its disk has been well for long.
func TestDiskOfLeaderIll(t *testing.T) {
	for name, by := range map[string]time.Duration{"hangs": forever, "is slow": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
				set := v.ails()
				nodes := v.openAll()
				m := win(t, nodes[0])
				next := campaign(t.Context(), nodes[1])
				<-time.After(time.Minute)
				set(by, "n1")
				ill := time.Now()
				<-m.Context().Done()
				took := time.Since(ill)
				if s := nodes[0].Status(); s.DiskIll < handsAfter || s.Ready() {
					t.Errorf("its disk is ill for %v, and it is ready: %v", s.DiskIll, s.Ready())
				}
				ended, ok := errors.AsType[*runtime.Ended](context.Cause(m.Context()))
				if !errors.Is(context.Cause(m.Context()), driver.ErrUnhealthy) || !ok || ended.Reason != "disk-ill" || took > runtime.Probe+handsAfter+time.Second || took < handsAfter {
					t.Fatalf("its term ended by %v after %v", context.Cause(m.Context()), took)
				}
				release(t, m)
				o := within(t, next, "the next")
				again := campaign(t.Context(), nodes[0])
				<-time.After(asideFor)
				if err := o.m.Check(); err != nil {
					t.Fatalf("the next leader: %v", err)
				}
				set(0, "n1")
				release(t, o.m)
				release(t, (<-again).m) // for there is no other
			})
		})
	}
}

// TestDisksIllTogether: where the disks of all are ill, the leader leads on, and does so although the others have
// nothing to save since they were started. When it has gone another one leads after all, as soon as the disks allow.
func TestDisksIllTogether(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		set := v.ails()
		nodes := v.openAll()
		m := win(t, nodes[0])
		for i, id := range v.all[1:] {
			_ = nodes[1+i].Close()
			nodes[1+i] = v.open(id)
		}
		next := campaign(t.Context(), nodes[1])
		<-time.After(time.Minute)
		set(2*time.Second, v.all...)
		<-time.After(3 * time.Minute)
		if err := m.Check(); err != nil {
			t.Fatalf("the leader: %v", err)
		}
		begun := time.Now()
		release(t, m)
		var o outcomeOf
		select {
		case o = <-next:
		case <-time.After(5 * time.Minute):
			t.Fatal("nobody leads for 5 minutes")
		}
		if took := time.Since(begun); o.err != nil || took > 40*time.Second {
			t.Errorf("the next led after %v: %v", took, o.err)
		}
		<-time.After(3 * time.Minute)
		release(t, o.m)
	})
}

// TestCloseWhileDiskHangs: a node ends although a write of it hangs. Nobody uses its directory before that write has
// ended: it would write over newer votes.
func TestCloseWhileDiskHangs(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		set := v.ails()
		nodes := v.openAll()
		set(forever, "n1")
		<-time.After(runtime.Probe + time.Second)
		begun := time.Now()
		if err := nodes[0].Close(); err != nil || time.Since(begun) > closeLimit {
			t.Errorf("it took %v: %v", time.Since(begun), err)
		}
		_, err := open(t.Context(), v.config("n1"))
		if _, ok := errors.AsType[*disk.InUse](err); !ok {
			t.Errorf("its directory is opened while the write hangs: %v", err)
		}
		set(0, "n1")
		release(t, win(t, v.open("n1")))
	})
}

// TestDiskHiccup: a disk that hangs for a moment ends no term.
func TestDiskHiccup(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		set := v.ails()
		nodes := v.openAll()
		m := win(t, nodes[0])
		campaign(t.Context(), nodes[1])
		for range 3 {
			set(forever, "n1")
			<-time.After(runtime.Probe + asideAfter)
			set(0, "n1")
			<-time.After(runtime.Probe)
		}
		if err := m.Check(); err != nil {
			t.Errorf("the leader: %v", err)
		}
		release(t, m)
	})
}

// TestDiskOfSuccessorIll: a voter with the greatest priority whose disk is ill is handed nothing, until its disk has
// been well for long.
func TestDiskOfSuccessorIll(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		set := v.ails()
		nodes := v.openAll()
		m := win(t, nodes[0])
		set(2*time.Second, "n2")
		<-time.After(runtime.Probe + 2*asideAfter)
		next := make(chan driver.Mandate, 1)
		go func() {
			m, _ := nodes[1].Campaign(t.Context(), driver.Candidacy{Exclusive: true, Priority: driver.MaxPriority})
			next <- m
		}()
		<-time.After(2 * time.Minute)
		if err := m.Check(); err != nil {
			t.Fatalf("the leader: %v", err)
		}
		if err := nodes[0].Transfer(t.Context(), m.Token(), "n2"); !errors.Is(err, driver.ErrIneligible) {
			t.Errorf("a transfer to it: %v; want %v", err, driver.ErrIneligible)
		}
		set(0, "n2")
		well := time.Now()
		<-m.Context().Done()
		if took := time.Since(well); !errors.Is(context.Cause(m.Context()), driver.ErrResigned) || took < asideFor || took > asideFor+time.Minute {
			t.Errorf("the leader gave up after %v: %v", took, context.Cause(m.Context()))
		}
		release(t, m)
		release(t, <-next)
	})
}

// TestWedgedLoop: a leader's loop hangs. Its lease ends all the same, before another one leads, and its work is told so.
func TestWedgedLoop(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		e, err := elect.New(nodes[0], elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		term, err := e.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := campaign(t.Context(), nodes[1])
		<-time.After(time.Second)
		left, _ := term.Remaining()
		lease := time.Now().Add(left + e.Limits().Lease) // no later: what was sent before may still be answered
		goOn := make(chan struct{})
		nodes[0].run.Do(func() { <-goOn })
		<-term.Context().Done()
		if err := term.Check(); err == nil || time.Now().After(lease) {
			t.Errorf("the work was told %v after the lease: %v", time.Since(lease), err)
		}
		var o outcomeOf
		for o.m == nil {
			select {
			case o = <-next:
			case <-time.After(time.Millisecond):
				if time.Now().After(lease) && term.Check() == nil {
					t.Fatal("the term goes on after its lease")
				}
			}
		}
		if term.Check() == nil {
			t.Error("two lead")
		}
		close(goOn)
		_ = term.Release(t.Context())
		release(t, o.m)
	})
}
