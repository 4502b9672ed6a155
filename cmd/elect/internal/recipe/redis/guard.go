package redis

import (
	"context"
	"time"
)

// unlink closes the links of the replicas at the master, once, when this elector is alone with it: it hears of no
// acting elector, and reaches fewer of the other servers than the master needs to take writes. Those on the other side
// cannot be told from dead ones, and count for the master until min-replicas-max-lag is over; without its links the
// master takes no more writes at once. If that was wrong they connect again, within a second. Nothing relies on it: this
// elector may have been stopped, or be away from the master.
func (e *Elector) unlink(ctx context.Context) error {
	done := false
	for ctx.Err() == nil {
		wait(ctx, e.cfg().poll()/2)
		master := e.cfg().server(e.ledger.read().Announced.Master)
		if master == nil || !e.deserted(master) {
			done = false
			continue
		}
		if done {
			continue
		}
		c, err := e.servers.open(ctx, master.addr(), "elect-guard-"+e.cfg().ID, e.cfg().patience())
		if err == nil {
			_, err = c.one(e.cfg().patience(), "CLIENT", "KILL", "TYPE", "replica")
			_ = c.Close()
		}
		done = err == nil
		e.log.Info("this elector is cut off with the master "+master.id+", and closes the links of its replicas", "error", err)
	}
	return context.Cause(ctx)
}

// deserted reports whether this elector is alone with a master.
func (e *Elector) deserted(master *server) bool {
	now := time.Now()
	if _, heard := e.ledger.lately(); e.cfg().ToWrite == 0 || now.Sub(heard) < e.cfg().overdue(0) {
		return false
	}
	if s := e.watchers[master.id].sight(); !s.fresh(now, e.cfg().overdue(0)) || !s.Info.Master {
		return false
	}
	reached := 0
	for id, w := range e.watchers {
		if s := w.sight(); id != master.id && s.fresh(now, e.cfg().overdue(0)) {
			reached++
		}
	}
	return reached < e.cfg().ToWrite
}
