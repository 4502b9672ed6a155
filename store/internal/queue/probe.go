package queue

import (
	"context"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
)

// Probe implements [driver.Prober]. Its writes are sessions, or those of a session, without an entry: the queue stays as
// it is.
func (e *Elector) Probe(ctx context.Context) (p driver.Probe, err error) {
	timed := func(request func() error) (time.Duration, error) {
		begun := time.Now()
		err := request()
		return time.Since(begun), err
	}
	p.Reads, err = drive.Probe(ctx, func(ctx context.Context) (time.Duration, error) {
		return timed(func() error { _, err := e.queue.List(ctx, Entry{}); return err })
	})
	if err != nil {
		return p, err
	}
	p.Writes, err = drive.Probe(ctx, func(ctx context.Context) (took time.Duration, err error) {
		var session uint64
		took, err = timed(func() error { session, _, err = e.queue.Open(ctx, e.cfg.Machine.TTL); return err })
		if err != nil {
			return 0, err
		}
		if s, ok := e.queue.(Syncer); ok { // where Open connects, too
			took, err = timed(func() error { return s.Sync(ctx, session) })
		}
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.Machine.RequestTimeout())
		defer cancel()
		if closed := e.queue.Close(closing, session); err == nil {
			err = closed
		}
		return took, err
	})
	if err != nil {
		p.Unwritten = err.Error()
	}
	return p, nil
}
