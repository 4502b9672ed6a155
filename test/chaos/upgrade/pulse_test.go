//go:build linux

package upgrade

import (
	"sync"
	"time"
)

// pulse measures how late this process runs, as on a busy machine. The nodes run late then, too,
// and may lose a leader by that.
type pulse struct {
	stop chan struct{}
	over sync.WaitGroup

	mu   sync.Mutex
	late time.Duration // the longest since the last call
}

func newPulse() *pulse {
	p := &pulse{stop: make(chan struct{})}
	p.over.Go(func() {
		const beat = 5 * time.Millisecond
		ticks := time.NewTicker(beat)
		defer ticks.Stop()
		for last := time.Now(); ; {
			select {
			case <-p.stop:
				return
			case <-ticks.C:
			}
			now := time.Now()
			p.mu.Lock()
			p.late = max(p.late, now.Sub(last)-beat)
			p.mu.Unlock()
			last = now
		}
	})
	return p
}

func (p *pulse) close() error {
	close(p.stop)
	p.over.Wait()
	return nil
}

// longest is the greatest delay since the last call.
func (p *pulse) longest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := p.late
	p.late = 0
	return late
}
