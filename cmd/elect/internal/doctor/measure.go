package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/conditions"
)

// Config configures a measurement.
type Config struct {
	Data  string        // the data directory; it need not exist
	Peers []Target      // the nodes to measure the path to; may be empty
	For   time.Duration // how long

	Certificates []Certificate // for the report, unchanged
}

// Target is one peer.
type Target struct{ ID, Addr string }

const (
	tick = time.Millisecond // of the timers whose delay is a pause

	leastSyncs   = 200
	dials        = 20                    // each is a connection that a node sees come and go
	pace         = 50 * time.Millisecond // between two samples of the disk, at most
	dialTimeout  = 3 * time.Second
	longestSyncs = time.Minute // for the least number of samples, on a very slow disk
)

// Measure measures everything at the same time, as a node would do it, for the configured time, or longer if a slow
// disk would give too few samples. It returns the cause of ctx if that ends first.
func Measure(ctx context.Context, cfg Config) (*Measurements, error) {
	begin, first := time.Now(), clock.ReadPair()
	m := &Measurements{CPUs: runtime.NumCPU(), System: conditions.System(), Files: files(), Clock: clockOf(), Peers: make([]Peer, len(cfg.Peers)), Certificates: cfg.Certificates}
	span, stop := context.WithTimeout(ctx, cfg.For)
	defer stop()
	var all sync.WaitGroup
	all.Go(func() { m.Pauses = pauses(span) })
	all.Go(func() { m.Disk = disk(ctx, span, cfg) })
	all.Go(func() { m.Contain = contained(ctx) })
	for i, p := range cfg.Peers {
		all.Go(func() { m.Peers[i] = way(ctx, span, cfg.For, p) })
	}
	all.Wait()
	last := clock.ReadPair()
	m.Clock.Apart = Millis((last.Boot - last.Mono) - (first.Boot - first.Mono))
	m.Load, m.Took = conditions.Load(), Millis(time.Since(begin))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return m, nil
}

// contained tries which level of containment there is.
func contained(ctx context.Context) Contain {
	c, err := supervise.Contain(ctx, supervise.Auto, "doctor", nil)
	if err != nil {
		return Contain{Level: "none", Missing: err.Error()}
	}
	found := Contain{Level: c.Level().String()}
	if err := c.Missing(); err != nil {
		found.Missing = err.Error()
	} else if err := c.GuardNetwork(); err != nil {
		found.Guard = err.Error()
	}
	if _, err := supervise.Contain(ctx, supervise.Pid, "doctor", nil); err != nil {
		found.Pid = err.Error()
	}
	return found
}

// pauses sleeps for short times and measures how much longer each took. It uses the clock that goes on while the
// machine sleeps.
func pauses(span context.Context) Distribution {
	var late []time.Duration
	t := time.NewTimer(tick)
	defer t.Stop()
	for {
		asked := clock.Now()
		t.Reset(tick)
		<-t.C
		late = append(late, max(clock.Now().Sub(asked)-tick, 0))
		if span.Err() != nil {
			return Distribute(late)
		}
	}
}

// disk writes as a node saves a ballot: 512 bytes in turn to two slots of an existing file, each followed by
// fdatasync.
func disk(ctx, span context.Context, cfg Config) (d Disk) {
	d.Dir = cfg.Data
	for {
		info, err := os.Stat(d.Dir)
		if err == nil && !info.IsDir() {
			d.Error = d.Dir + " is not a directory"
			return d
		}
		parent := filepath.Dir(d.Dir)
		if err == nil || !errors.Is(err, os.ErrNotExist) || parent == d.Dir {
			break
		}
		d.Dir, d.For = parent, cfg.Data
	}
	d.Free = free(d.Dir)
	d.Kind, d.Lasts = conditions.Filesystem(d.Dir)
	f, err := os.CreateTemp(d.Dir, ".elect-doctor-*")
	if err != nil {
		d.Error = err.Error()
		return d
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var block [512]byte
	write := func(n int) error {
		block[0] = byte(n)
		if _, err := f.WriteAt(block[:], int64(n%2)*4096); err != nil {
			return err
		}
		return syncData(f)
	}
	for n := range 2 { // making the slots is not measured
		if err := write(n); err != nil {
			d.Error = err.Error()
			return d
		}
	}
	ctx, cancel := context.WithTimeout(ctx, max(longestSyncs, cfg.For))
	defer cancel()
	var took []time.Duration
	for ctx.Err() == nil && (span.Err() == nil || len(took) < leastSyncs) {
		begin := clock.Now()
		if err := write(len(took)); err != nil {
			d.Error = err.Error()
			break
		}
		took = append(took, clock.Now().Sub(begin))
		rest(span, min(pace, cfg.For/(2*leastSyncs)))
	}
	d.Sync = Distribute(took)
	return d
}

// way measures TCP's own handshake, which the other kernel answers, a few times, spread over the measurement. A
// refusal is an answer too.
func way(ctx, span context.Context, length time.Duration, to Target) Peer {
	p := Peer{ID: to.ID, Addr: to.Addr}
	addr, err := net.ResolveTCPAddr("tcp", to.Addr) // once: look-ups of names are not measured
	if err != nil {
		p.Error = err.Error()
		return p
	}
	var took []time.Duration
	dialer := net.Dialer{Timeout: dialTimeout}
	for ctx.Err() == nil && len(took) < dials {
		begin := clock.Now()
		c, err := dialer.DialContext(ctx, "tcp", addr.String())
		spent := clock.Now().Sub(begin)
		if err == nil {
			p.Listens = true
			_ = c.Close()
		} else if !errors.Is(err, syscall.ECONNREFUSED) {
			p.Error = fmt.Sprintf("no connection after %d: %v", len(took), err)
			break
		}
		took = append(took, spent)
		rest(span, length/dials)
	}
	p.RTT = Distribute(took)
	return p
}

// rest waits between two samples.
func rest(span context.Context, d time.Duration) {
	if span.Err() != nil {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-span.Done():
	}
}
