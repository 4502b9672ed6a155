package redis

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect/internal/mutation"
)

// force makes another server master while the old one does not answer, or cannot hand over: target, if it was decided
// already, or the best replica. In this order: the servers that can be reached are taken away from the old master; a
// replica is chosen among them by what they have then; a majority of the electors keeps the decision; no old master can
// take writes any more; the replica is promoted; the electors tell their clients; the others follow.
func (a *actor) force(why, target string) error {
	cfg := a.e.cfg()
	began := time.Now()
	infos, silent, since := a.hold(target, "")
	patience, unfenced := a.fenced(silent)
	suspects := a.suspects(silent, target)
	// Where time does not help the command is run first, if somebody can be promoted then.
	if _, left := a.fenced(without(silent, suspects)); unfenced != "" && left == "" && cfg.Fence.Run != "" && a.next(infos, target) != "" {
		a.shoot(suspects)
		for a.aiming(suspects) && a.ctx.Err() == nil { // the end of the term ends the command
			wait(a.ctx, retryInterval)
		}
		infos, silent, since = a.hold(target, "")
		patience, unfenced = a.fenced(silent)
		suspects = a.suspects(silent, target)
	}
	if unfenced != "" && cfg.Unfenced != "promote" {
		return fmt.Errorf("%w: %s", errWaits, unfenced)
	}
	old := a.decision
	if target == "" {
		if target = a.next(infos, ""); target == "" {
			delete(infos, old.Master)
			return fmt.Errorf("no replica can be promoted: %s; want one that has the data of %s, and a replica-priority other than 0", described(infos), old.Master)
		}
		d := old
		d.Master, d.RunID, d.Epoch = target, infos[target].RunID, old.Epoch+1
		d.ReplID, d.Previous, d.Until = "", infos[target].ReplID, infos[target].Offset
		if err := a.decide(d); err != nil {
			return err
		}
		a.log("decided: the next master is "+target, "offset", infos[target].Offset, "before", old.Master)
	} else if a.next(infos, target) == "" {
		return fmt.Errorf("%s cannot be reached; want it back", target)
	}
	if unfenced != "" {
		a.log("promoting "+target+" although an old master may take writes: "+unfenced, "unfenced", cfg.Unfenced)
	}
	slowest := time.Duration(0)
	for _, id := range silent {
		s := a.e.watchers[id].sight()
		slowest = max(slowest, s.behind())
	}
	patience += slowest
	if !mutation.Is(mutation.NoFence) {
		a.shoot(suspects)
		if err := a.outlast(silent, since.Add(patience)); err != nil {
			return err
		}
	}
	if err := a.promote(target); err != nil {
		return err
	}
	a.followAll(target)
	a.log("failover: the master is "+target, "took", time.Since(began).Round(time.Millisecond), "why", why)
	return nil
}

// fenced is [Decision.fenced]. Outsiders are replicas of the master that clients are told. Where min-replicas-to-write is
// 0, a fence command ends masters; a silent server that was a replica when it was last seen takes no write: no promotion
// begins before a majority has decided it.
func (a *actor) fenced(silent []string) (wait time.Duration, why string) {
	outsiders := 0
	if slices.Contains(silent, a.master()) || slices.Contains(silent, a.decision.Master) {
		outsiders = a.outsiders()
	}
	if a.decision.ToWrite == 0 && a.e.cfg().Fence.Run != "" {
		silent = slices.DeleteFunc(slices.Clone(silent), func(id string) bool {
			s := a.e.watchers[id].sight()
			return id != a.decision.Master && id != a.master() && !s.InfoAt.IsZero() && !s.Info.Master
		})
	}
	return a.decision.fenced(len(silent), outsiders)
}

// without are the servers of all that are not among others.
func without(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(others, id) })
}

// next is which of the servers that were held is to be promoted: target, if that was decided, or the best; "" if none is.
func (a *actor) next(infos map[string]Info, target string) string {
	if target != "" {
		if _, ok := infos[target]; !ok {
			return ""
		}
		return target
	}
	w := a.world()
	master := w.Sights[a.decision.Master]
	replicas := maps.Clone(infos)
	delete(replicas, a.decision.Master)
	ids := candidates(&a.decision, replicas, len(replicas) == len(w.Config.servers)-1, w.stale(&master))
	if len(ids) == 0 {
		return ""
	}
	return ids[0]
}

// hold takes all servers away from their masters, but for target, and returns the state of those that have obeyed, and
// target's. The silent ones are those that may run and have not: one whose process has ended is none of them. One that
// has not answered lately is not waited for. Since then none of the others follows a master. Spare is left as it is.
func (a *actor) hold(target, spare string) (infos map[string]Info, silent []string, since time.Time) {
	cfg := a.e.cfg()
	infos = map[string]Info{}
	a.held = true
	var mu sync.Mutex
	var try []string
	for _, s := range cfg.servers {
		switch sight := a.e.watchers[s.id].sight(); {
		case s.id == spare:
		case sight.Gone >= 2:
			since = later(since, sight.GoneAt)
		case a.isShot(s.id):
			since = later(since, a.shotAt(s.id))
		case sight.Fails >= 2 && sight.Ill == "":
			silent = append(silent, s.id)
		default:
			try = append(try, s.id)
		}
	}
	done := a.each(try, func(id string) error {
		i, err := a.info(id)
		if err != nil {
			return err
		}
		if id == target && i.Master { // it was promoted already
			mu.Lock()
			infos[id] = i
			mu.Unlock()
			return nil
		}
		a.mu.Lock()
		before := a.away[id]
		a.mu.Unlock()
		if before.life != i.RunID || i.Of != nowhere() {
			if err := a.replicate(id, nowhere(), i.Master); err != nil {
				return err
			}
			before = taken{life: i.RunID, at: time.Now()}
			was := i
			if i, err = a.info(id); err != nil {
				return err
			}
			i.Master, i.LinkDown = was.Master, was.LinkDown // for the choice
			before.part = was.Syncing
		}
		part := a.e.watchers[id].sight()
		before.part = before.part || part.Part
		i.Syncing = i.Syncing || before.part
		mu.Lock()
		infos[id] = i
		since = later(since, before.at)
		mu.Unlock()
		a.mu.Lock()
		a.away[id] = before
		a.mu.Unlock()
		return nil
	})
	for _, id := range try {
		if !slices.Contains(done, id) {
			silent = append(silent, id)
		}
	}
	return infos, silent, since
}

// later is the later one of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// outlast waits until no silent server takes writes. That is so at a time; or as soon as each has obeyed, its process has
// ended, or the fence command has ended it.
func (a *actor) outlast(silent []string, until time.Time) error {
	said := false
	for len(silent) > 0 && time.Now().Before(until) {
		if !said {
			a.log("waiting until an old master takes no writes", "servers", strings.Join(silent, ", "), "for", time.Until(until).Round(time.Millisecond))
			said = true
		}
		silent = slices.DeleteFunc(silent, func(id string) bool {
			s := a.e.watchers[id].sight()
			if s.Gone >= 2 || a.isShot(id) {
				return true
			}
			obeys := s.fresh(time.Now(), a.e.cfg().DownAfter) && a.replicate(id, nowhere(), true) == nil
			if obeys {
				a.spare(id)
			}
			return obeys
		})
		wait(a.ctx, min(retryInterval, time.Until(until)))
		if err := a.check(); err != nil {
			return err
		}
	}
	return a.ctx.Err()
}

// promote makes a server master, and decides and announces that it is.
func (a *actor) promote(id string) error {
	if err := a.order(id, []string{"MULTI"}, []string{"REPLICAOF", "NO", "ONE"}, []string{"EXEC"}); err != nil {
		return err
	}
	return a.confirm(id)
}

// followAll points all servers that can be reached at the master.
func (a *actor) followAll(master string) {
	a.held = false
	var ids []string
	for id, w := range a.e.watchers {
		if s := w.sight(); id != master && s.Fails == 0 {
			ids = append(ids, id)
		}
	}
	a.each(ids, func(id string) error { return a.follow(id, false) })
	a.rewrite(master)
}

// described says of each server why it is no candidate.
func described(infos map[string]Info) string {
	var all []string
	for id, i := range infos {
		all = append(all, fmt.Sprintf("%s (priority %d, offset %d of %.8s, without a link for %v)", id, i.Priority, i.Offset, i.ReplID, i.LinkDown))
	}
	if all == nil {
		return "none can be reached"
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// planned hands over to a server, or to the best one.
func (a *actor) planned(to string) error {
	if a.number == 0 || a.decision.none() {
		return errors.New("there is no master yet; want this again when there is one")
	}
	w := a.world()
	s := w.Sights[a.decision.Master]
	if s.down(w.Now, w.Config.DownAfter) != Up || !s.fresh(w.Now, w.Config.DownAfter) {
		if to == "" {
			return fmt.Errorf("the master %s does not answer; want it back, or a failover to a server by name, which loses what that one has not", a.decision.Master)
		}
		return a.forced(to)
	}
	if to == a.decision.Master {
		return nil
	}
	return a.switchOver(to)
}

// forced fails over to the server that an operator has named, though it may have less than others.
func (a *actor) forced(to string) error {
	if to == a.decision.Master {
		return a.confirm(to)
	}
	i, err := a.info(to)
	if err != nil {
		return err
	}
	d := a.decision
	d.Master, d.RunID, d.Epoch = to, i.RunID, d.Epoch+1
	d.ReplID, d.Previous, d.Until = "", i.ReplID, i.Offset
	if err := a.decide(d); err != nil {
		return err
	}
	return a.force("an operator wants "+to, to)
}

// switchOver hands over without a loss, by FAILOVER of Redis 6.2: the master takes no more writes, waits until the
// replica has all of them, and becomes its replica. If that fails the master goes on.
func (a *actor) switchOver(to string) error {
	cfg := a.e.cfg()
	from := a.decision
	i, err := a.info(from.Master)
	if err != nil {
		return err
	}
	if !i.atLeast(6, 2) {
		return fmt.Errorf("the master %s is Redis %s, which has no FAILOVER; want 6.2 or newer", from.Master, i.Version)
	}
	infos := map[string]Info{}
	w := a.world()
	for id, s := range w.Sights {
		if id != from.Master && s.fresh(w.Now, cfg.DownAfter) && s.Info.Linked && s.Info.Of == cfg.server(from.Master).at && (to == "" || id == to) {
			infos[id] = s.Info
		}
	}
	if ids := candidates(&from, infos, true, 0); len(ids) > 0 {
		to = ids[0]
	} else {
		return fmt.Errorf("no replica can take over from %s: %s; want one that is connected, with a replica-priority other than 0", from.Master, described(infos))
	}
	d := from
	d.Master, d.RunID, d.Epoch = to, infos[to].RunID, from.Epoch+1
	d.ReplID, d.Previous, d.Until = "", from.ReplID, infos[to].Offset
	if err := a.decide(d); err != nil {
		return err
	}
	a.log("handing over", "from", from.Master, "to", to)
	began := time.Now()
	err = a.handOver(from.Master, cfg.server(to))
	if err != nil {
		// Nothing has happened, unless the answer was lost: what is so is asked.
		if now, infoErr := a.info(from.Master); infoErr == nil && now.Master && now.Switching == "no-failover" {
			d := from
			d.Epoch += 2
			return errors.Join(err, a.decide(d), a.announce())
		}
		return err // the next turn finishes it
	}
	if err := a.promote(to); err != nil {
		return err
	}
	_ = a.follow(from.Master, true) // closes its clients; the next turn does it again if that fails
	a.followAll(to)
	a.log("the master is "+to, "before", from.Master, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// handOver runs FAILOVER, and waits until both servers have their new roles.
func (a *actor) handOver(from string, to *server) error {
	if err := a.order(from, []string{"FAILOVER", "TO", to.at.Host, to.at.port(), "TIMEOUT", strconv.FormatInt(pauseLimit.Milliseconds(), 10)}); err != nil {
		return err
	}
	for end := time.Now().Add(switchLimit); time.Now().Before(end); wait(a.ctx, 5*time.Millisecond) {
		old, err := a.info(from)
		if err != nil {
			return err
		}
		if old.Master && old.Switching == "no-failover" {
			return fmt.Errorf("%s did not get all writes of %s within %v; want a replica that keeps up", to.id, from, pauseLimit)
		}
		next, err := a.info(to.id)
		if err != nil {
			return err
		}
		if next.Master && !old.Master {
			return nil
		}
		if err := a.check(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s has not taken over from %s within %v", to.id, from, switchLimit)
}
