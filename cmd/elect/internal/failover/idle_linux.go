package failover

import (
	"context"
	"time"

	"github.com/electd/elect/internal/conditions"
)

// idle measures the CPU time of the candidates that stand by, and of the elect run that leads, without its keeper.
func (b *bench) idle(ctx context.Context) (*Idle, error) {
	if err := b.settle(ctx); err != nil {
		return nil, err
	}
	begin := time.Now()
	before := map[int]time.Duration{}
	for c := range b.since {
		used, err := conditions.CPUTime(c.PID)
		if err != nil {
			return nil, err
		}
		before[c.PID] = used
	}
	select {
	case <-time.After(b.cfg.Idle):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	took := time.Since(begin)
	i := &Idle{Candidates: len(before) - 1, Seconds: took.Seconds()}
	for pid, used := range before {
		now, err := conditions.CPUTime(pid)
		if err != nil {
			return nil, err
		}
		percent := 100 * (now - used).Seconds() / took.Seconds()
		if pid == b.leader.PID {
			i.Leader = percent
			continue
		}
		i.Mean += percent / float64(i.Candidates)
		i.Max = max(i.Max, percent)
	}
	return i, nil
}
