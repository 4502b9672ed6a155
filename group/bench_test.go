//go:build unix

package group

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/store/memory"
)

// crowd is members of one process, over TCP on the loopback interface without TLS.
type crowd struct {
	b     testing.TB
	all   []*Group
	gates []*gate
	parts []*memory.Elector // in the coordinator's election
	begun atomic.Int64
	ended atomic.Int64
	wake  chan struct{}
	ends  []func()
}

func newCrowd(b testing.TB, members, keys int) *crowd {
	c := &crowd{b: b, wake: make(chan struct{}, 1)}
	b.Cleanup(c.end)
	store := memory.NewStore(0)
	for i := range members {
		place, err := store.New("group", name(i+1), memory.Config{Lease: 10 * time.Second})
		if err != nil {
			b.Fatal(err)
		}
		e, err := elect.New(place, elect.Config{})
		if err != nil {
			b.Fatal(err)
		}
		env, process := system(), &gate{}
		env.gate = process.pass
		g, err := join(b.Context(), e, Config{ID: name(i + 1), Keys: Range(keys), Promise: 10 * time.Second, Poll: 300 * time.Millisecond, Placement: eager}, env)
		if err != nil {
			b.Fatal(err)
		}
		c.ends = append(c.ends, func() { place.Freeze(false); process.shut(false); _ = g.Close() })
		c.gates, c.parts = append(c.gates, process), append(c.parts, place)
		c.all = append(c.all, g)
	}
	c.admitted(members)
	return c
}

// admitted waits until the members are, so that what is measured next does not contain that.
func (c *crowd) admitted(members int) {
	for s, err := range c.all[0].Watch(c.b.Context()) {
		if err != nil {
			c.b.Fatal(err)
		}
		n := 0
		for _, m := range s.Members {
			if m.Admitted {
				n++
			}
		}
		if n == members && !s.Covering {
			return
		}
	}
}

// serve has all members work on their shards until the benchmark ends.
func (c *crowd) serve() {
	for _, g := range c.all {
		ctx, cancel := context.WithCancel(context.Background())
		var work sync.WaitGroup
		work.Go(func() {
			_ = g.Serve(ctx, func(*Shard) { c.begun.Add(1); c.ring() }, func(*Shard) { c.ended.Add(1); c.ring() })
		})
		c.ends = append(c.ends, func() { cancel(); work.Wait() })
	}
}

// end ends all members at once.
func (c *crowd) end() {
	var all sync.WaitGroup
	for _, end := range c.ends {
		all.Go(end)
	}
	all.Wait()
	c.ends = nil
}

// coordinator waits for one.
func (c *crowd) coordinator() *coordinator {
	for {
		for _, g := range c.all {
			g.mu.Lock()
			co := g.coordinator
			g.mu.Unlock()
			if co != nil {
				return co
			}
		}
		runtime.Gosched()
	}
}

func (c *crowd) ring() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// held waits until so many keys are held.
func (c *crowd) held(n int64) {
	for c.begun.Load()-c.ended.Load() != n {
		<-c.wake
	}
}

// settled waits until the members have equally many keys, and none moves.
func (c *crowd) settled() {
	for s, err := range c.all[0].Watch(c.b.Context()) {
		if err != nil {
			c.b.Fatal(err)
		}
		least, most := s.Keys, 0
		for _, m := range s.Members {
			least, most = min(least, m.Keys), max(most, m.Keys)
		}
		if s.Moving == 0 && s.Held == s.Keys && most-least <= 1 {
			return
		}
	}
}

func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// rest is what the process costs that does nothing, in percent of a core.
func rest() float64 {
	debug.FreeOSMemory() // else the runtime does that meanwhile
	const span = 5 * time.Second
	began := used()
	<-time.After(span)
	return 100 * float64(used()-began) / float64(span)
}

// memory is what a key costs at the coordinator, and at each member. It ends the coordinator.
func (c *crowd) memory(before float64, keys int) (coordinator, member float64) {
	all := heap()
	for _, g := range c.all { // so that none follows
		g.candidate()
	}
	for _, g := range c.all {
		<-g.standing
	}
	without := heap()
	return (all - without) / float64(keys), (without - before) / float64(keys*len(c.all))
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkIdle is what members cost that do nothing, both ends, by the number of keys. Each member wants all keys and
// holds a third of them.
func BenchmarkIdle(b *testing.B) {
	for _, keys := range []int{10, 100_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			before := heap()
			c := newCrowd(b, 3, keys)
			c.serve()
			c.held(int64(keys))
			c.settled()
			var sum float64
			for b.Loop() {
				sum += rest()
			}
			b.ReportMetric(sum/float64(b.N), "%core")
			coordinator, member := c.memory(before, keys)
			b.ReportMetric(coordinator, "B/key@coordinator")
			b.ReportMetric(member, "B/key@member")
		})
	}
}

// BenchmarkStart is how long it takes until keys that nobody holds are held by three members.
func BenchmarkStart(b *testing.B) {
	for _, keys := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				c := newCrowd(b, 3, keys)
				b.StartTimer()
				began := used()
				c.serve()
				c.held(int64(keys))
				b.StopTimer()
				b.ReportMetric(float64(used()-began)/1e6, "cpu-ms/op")
				c.end()
				b.StartTimer()
			}
		})
	}
}

// BenchmarkMove is a planned move of one key: from the request until the next holder begins.
func BenchmarkMove(b *testing.B) {
	c := newCrowd(b, 3, 100)
	c.serve()
	c.held(100)
	c.settled()
	to := 0
	for b.Loop() {
		l, err := c.all[0].Lookup(b.Context(), "7")
		if err != nil {
			b.Fatal(err)
		}
		if to = (to + 1) % 3; c.all[to].ID() == l.ID {
			to = (to + 1) % 3
		}
		if err := c.all[0].Move(b.Context(), "7", c.all[to].ID()); err != nil {
			b.Fatal(err)
		}
		for {
			if n, err := c.all[0].Lookup(b.Context(), "7"); err == nil && n.Token > l.Token {
				break
			}
		}
	}
}

// BenchmarkLeave is a member that leaves in good order: until its keys are held by the two others.
func BenchmarkLeave(b *testing.B) {
	const keys = 99_999
	for b.Loop() {
		b.StopTimer()
		c := newCrowd(b, 3, keys)
		c.serve()
		c.held(keys)
		c.settled()
		began, before := used(), c.ended.Load()
		b.StartTimer()
		go func() { _ = c.all[2].Close() }()
		for c.ended.Load() < before+keys/3 {
			<-c.wake
		}
		c.held(keys)
		b.StopTimer()
		b.ReportMetric(float64(used()-began)/1e6, "cpu-ms/op")
		c.end()
		b.StartTimer()
	}
}

// BenchmarkDeath is the death of a member that holds 33,333 keys, from the instant at which a witness has proven it: until
// each of these is held again.
func BenchmarkDeath(b *testing.B) {
	const keys = 99_999
	for b.Loop() {
		b.StopTimer()
		c := newCrowd(b, 3, keys)
		c.serve()
		c.held(keys)
		c.settled()
		coordinator, victim := c.coordinator(), 0
		for c.all[victim] == coordinator.g {
			victim++
		}
		// Its part in the election stops as well: else it could be the next coordinator, and stand still as that.
		c.parts[victim].Freeze(true)
		c.gates[victim].shut(true)
		dead := machine.Input{Kind: machine.Dead, Session: machine.Session{Member: protocol.NodeID(c.all[victim].id), Process: c.all[victim].process}}
		var half, all time.Duration
		b.StartTimer()
		began, cpu, before := time.Now(), used(), c.begun.Load()
		coordinator.put(arrival{do: func() { coordinator.in = dead; coordinator.step() }})
		for n := int64(0); n < keys/3; n = c.begun.Load() - before {
			if n >= keys/6 && half == 0 {
				half = time.Since(began)
			}
			<-c.wake
		}
		all = time.Since(began)
		b.StopTimer()
		b.ReportMetric(float64(half)/1e6, "ms/half")
		b.ReportMetric(float64(all)/1e6, "ms/all")
		b.ReportMetric(float64(used()-cpu)/1e6, "cpu-ms/op")
		c.end()
		b.StartTimer()
	}
}

// BenchmarkCampaigns is named elections of three members of one process, each with one candidate: until all lead.
func BenchmarkCampaigns(b *testing.B) {
	const elections = 99_999
	for b.Loop() {
		b.StopTimer()
		c := newCrowd(b, 3, 0)
		before := heap()
		ctx, cancel := context.WithCancel(b.Context())
		began := used()
		b.StartTimer()
		var all sync.WaitGroup
		mandates := make([]driver.Mandate, elections)
		for i := range elections {
			all.Go(func() {
				m, err := c.all[i%3].Elector(fmt.Sprintf("election-%d", i)).Campaign(ctx, driver.Candidacy{Exclusive: true})
				if err != nil {
					b.Error(err)
				}
				mandates[i] = m
			})
		}
		all.Wait()
		b.StopTimer()
		b.ReportMetric(float64(used()-began)/1e6, "cpu-ms/op")
		b.ReportMetric((heap()-before)/elections, "bytes/election")
		for _, m := range mandates {
			_ = m.Release(ctx)
		}
		cancel()
		c.end()
		b.StartTimer()
	}
}

// BenchmarkLead is named elections that three members lead by elect.Lead, each with one candidate: until all lead, and
// what they cost then.
func BenchmarkLead(b *testing.B) {
	const elections = 99_999
	for b.Loop() {
		b.StopTimer()
		c := newCrowd(b, 3, 0)
		before := heap()
		began := used()
		ctx, cancel := context.WithCancel(b.Context())
		var leading, all sync.WaitGroup
		leading.Add(elections)
		b.StartTimer()
		for i := range elections {
			e, err := elect.New(c.all[i%3].Elector(fmt.Sprintf("election-%d", i)), elect.Config{})
			if err != nil {
				b.Fatal(err)
			}
			all.Go(func() {
				var first sync.Once
				_ = e.Lead(ctx, func(ctx context.Context, _ *elect.Term) error {
					first.Do(leading.Done)
					<-ctx.Done()
					return nil
				})
			})
		}
		leading.Wait()
		b.StopTimer()
		b.ReportMetric(float64(used()-began)/1e6, "cpu-ms/op")
		b.ReportMetric((heap()-before)/elections, "B/election")
		b.ReportMetric(rest(), "%core")
		cancel()
		all.Wait()
		c.end()
		b.StartTimer()
	}
}

// BenchmarkCheck is the proof that a key is held.
func BenchmarkCheck(b *testing.B) {
	c := newCrowd(b, 1, 1)
	shards := make(chan *Shard, 1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.all[0].Serve(ctx, func(s *Shard) { shards <- s }, func(*Shard) {}) }()
	s := <-shards
	for b.Loop() {
		if err := s.Check(); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	<-done
}

// TestMemory: a key costs no more than the aims, 300 bytes at the coordinator and 150 at each member. What is whose differs
// from run to run by more than the sum does.
func TestMemory(t *testing.T) {
	long.Test(t, "it needs seconds of a processor")
	const keys, most = 20_000, 300 + 3*150
	before := heap()
	c := newCrowd(t, 3, keys)
	c.serve()
	c.held(keys)
	c.settled()
	coordinator, member := c.memory(before, keys)
	t.Logf("%.0f bytes for a key at the coordinator, and %.0f at each member", coordinator, member)
	if sum := coordinator + 3*member; sum > most {
		t.Errorf("a key costs %.0f bytes, %.0f at the coordinator and %.0f at each of three members; want at most %d", sum, coordinator, member, most)
	}
}
