//go:build linux

package upgrade

import (
	"sync"
	"time"
)

// pulse notices when the machine has too much to do: then this process comes to run
// later than it wanted, and the nodes do, too, who may lose a leader by that.
type pulse struct {
	stop chan struct{}
	over sync.WaitGroup

	mu   sync.Mutex
	late time.Duration // the longest, since it was last asked
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

// longest is by how much it was late at most since the last call.
func (p *pulse) longest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := p.late
	p.late = 0
	return late
}
