package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/electd/elect/cmd/elect/internal/hook"
)

// shot is the last run of the fence command for a server.
type shot struct {
	began, at   time.Time          // of its end
	ended, done bool               // it has ended; with exit code 0
	cancel      context.CancelFunc // ends it
}

// suspects are the silent servers, other than target, that were masters when they were last seen, or are what clients
// were told. One that has answered lately is none, whatever it does with orders.
func (a *actor) suspects(silent []string, target string) (all []string) {
	cfg := a.e.cfg()
	for _, id := range silent {
		s := a.e.watchers[id].sight()
		if id != target && (id == a.decision.Master || id == a.master() || s.Info.Master) && s.down(time.Now(), cfg.DownAfter) == Silent {
			all = append(all, id)
		}
	}
	return all
}

// shoot begins to run the fence command for servers, if there is one, and does not wait. A server is not shot again
// before it was seen to run, and after a failure not before fence.limit is over.
func (a *actor) shoot(ids []string) {
	cfg := a.e.cfg()
	if cfg.Fence.Run == "" {
		return
	}
	for _, id := range ids {
		if a.isShot(id) {
			continue
		}
		ctx, cancel := context.WithCancel(a.ctx)
		if !a.mayShoot(id, cancel) {
			cancel()
			continue
		}
		a.shooting.Go(func() {
			defer cancel()
			a.log("running the fence command for "+id, "limit", cfg.Fence.Limit)
			err := a.check() // just before the command begins
			if err == nil {
				command := hook.Command{Text: cfg.Fence.Run, Limit: cfg.Fence.Limit}
				_, err = command.Run(ctx, "ELECT_NAME="+cfg.Name, "ELECT_TOKEN="+a.token.String(), "ELECT_SERVER="+id, "ELECT_SERVER_ADDRESS="+cfg.server(id).addr())
			}
			a.mu.Lock()
			last := a.shots[id]
			last.ended, last.done, last.at = true, err == nil, time.Now()
			a.shots[id] = last
			a.mu.Unlock()
			if err != nil {
				a.log(fmt.Sprintf("the fence command for %s has failed: %v; want exit code 0 when %[1]s certainly does not run", id, err))
				return
			}
			a.log(id+" is fenced by the command", "took", last.at.Sub(last.began).Round(time.Millisecond))
		})
	}
}

// mayShoot reports whether the command may run for a server now, and notes that it does.
func (a *actor) mayShoot(id string, cancel context.CancelFunc) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last, ok := a.shots[id]; ok && (!last.ended || !last.done && time.Since(last.at) < a.e.cfg().Fence.Limit) {
		return false
	}
	a.shots[id] = shot{began: time.Now(), cancel: cancel}
	return true
}

// shotAt is when the fence command has ended a server that has not answered since the command began; zero: it has not.
func (a *actor) shotAt(id string) time.Time {
	s := a.e.watchers[id].sight()
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := a.shots[id]; last.done && !s.OK.After(last.began) {
		return last.at
	}
	return time.Time{}
}

func (a *actor) isShot(id string) bool { return !a.shotAt(id).IsZero() }

// aiming reports whether the command runs for one of these servers. For one that answers again it is ended.
func (a *actor) aiming(ids []string) (runs bool) {
	for _, id := range ids {
		s := a.e.watchers[id].sight()
		a.mu.Lock()
		last, ok := a.shots[id]
		a.mu.Unlock()
		if ok && !last.ended {
			runs = true
			if s.OK.After(last.began) {
				last.cancel()
			}
		}
	}
	return runs
}

// spare ends the command for a server that has obeyed.
func (a *actor) spare(id string) {
	a.mu.Lock()
	last, ok := a.shots[id]
	a.mu.Unlock()
	if ok && !last.ended {
		last.cancel()
	}
}
