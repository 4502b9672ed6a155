package redis

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/electd/elect/cmd/elect/internal/hook"
)

// shot is the last run of the fence command for a server.
type shot struct {
	ended, done bool      // it has ended; with exit code 0
	at          time.Time // of its end
}

// suspects are the silent servers that were masters when they were last seen, or are what clients were told.
func (a *actor) suspects(silent []string, old, target string) (all []string) {
	for _, id := range silent {
		if s := a.e.watchers[id].sight(); id != target && (id == old || id == a.master() || s.Info.Master) {
			all = append(all, id)
		}
	}
	return all
}

// shoot begins to run the fence command for servers, if there is one, and does not wait. A server is not shot again
// before it was seen to run, and after a failure not before fence.limit is over.
func (a *actor) shoot(ids []string) {
	cfg := a.e.cfg()
	if cfg.Fence.Run == "" || a.check() != nil {
		return
	}
	for _, id := range ids {
		if a.isShot(id) || !a.mayShoot(id) {
			continue
		}
		a.shooting.Go(func() {
			s := cfg.server(id)
			a.log("running the fence command for "+id, "limit", cfg.Fence.Limit)
			began := time.Now()
			command := hook.Command{Text: cfg.Fence.Run, Limit: cfg.Fence.Limit}
			_, err := command.Run(a.ctx, "ELECT_NAME="+cfg.Name, "ELECT_TOKEN="+strconv.FormatUint(uint64(a.token), 10), "ELECT_SERVER="+id, "ELECT_SERVER_ADDRESS="+s.addr())
			a.mu.Lock()
			a.shots[id] = shot{ended: true, done: err == nil, at: time.Now()}
			a.mu.Unlock()
			if err != nil {
				a.log(fmt.Sprintf("the fence command for %s has failed: %v; want exit code 0 when %[1]s certainly does not run", id, err))
				return
			}
			a.log(id+" is fenced by the command", "took", time.Since(began).Round(time.Millisecond))
		})
	}
}

// mayShoot reports whether the command may run for a server now, and notes that it does.
func (a *actor) mayShoot(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last, ok := a.shots[id]; ok && (!last.ended || !last.done && time.Since(last.at) < a.e.cfg().Fence.Limit) {
		return false
	}
	a.shots[id] = shot{}
	return true
}

// shotAt is when the fence command has ended a server that has not answered since; zero: it has not.
func (a *actor) shotAt(id string) time.Time {
	s := a.e.watchers[id].sight()
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := a.shots[id]; last.done && !s.OK.After(last.at) {
		return last.at
	}
	return time.Time{}
}

func (a *actor) isShot(id string) bool { return !a.shotAt(id).IsZero() }

// aiming reports whether the command runs for one of these servers.
func (a *actor) aiming(ids []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(ids, func(id string) bool { last, ok := a.shots[id]; return ok && !last.ended })
}
