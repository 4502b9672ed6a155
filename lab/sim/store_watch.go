package sim

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// watch is a participant's watch.
type watch struct {
	id      int32
	node    int32
	life    uint32
	number  uint64 // of the Ask
	order   uint64 // of the entry that is watched; a register has one record
	session uint64 // the watch ends with that session
	touch   bool   // of the entry's touches
	mute    bool   // it fires no more, and no participant knows yet
}

func (t *watch) appendState(dst []byte) []byte {
	dst = appendAll(dst, uint64(t.id), uint64(t.node), uint64(t.life), t.number, t.order, t.session)
	return protocol.AppendBool(protocol.AppendBool(dst, t.touch), t.mute)
}

// watch registers p's watch.
func (s *store) watch(p *parcel) {
	s.watched++
	s.watches = append(s.watches, watch{
		id: s.watched, node: p.node, life: p.life, number: p.ask.Number, order: p.ask.Entry.Order, session: p.ask.Session,
		touch: p.ask.Op == protocol.WatchTouch,
	})
}

// watching reports whether p's watch has not ended.
func (s *store) watching(p *parcel) bool {
	return slices.ContainsFunc(s.watches, func(t watch) bool {
		return t.node == p.node && t.life == p.life && t.number == p.answer.Number
	})
}

// sight is the outcome of one event that a watch could show.
type sight struct {
	lost, twice, close bool
	lag                time.Duration // how far behind what is shown may be
	delay, second      time.Duration
}

// sight draws it, with the same number of draws for each outcome.
func (s *store) sight(p *route, now Time) sight {
	r := &p.random
	lost, twice, closed, lagging, lag, second := r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()
	v := sight{delay: s.trip(r) + s.longest(OpStoreSlow, p.id)}
	v.lost = s.chance(lost, s.noise.WatchLoss) || s.going(OpWatchLoss, p.id)
	v.twice = s.chance(twice, s.noise.WatchTwice) || s.going(OpWatchDouble, p.id)
	v.close = s.chance(closed, s.noise.WatchClose)
	if most := s.longest(OpStaleRead, p.id); most > 0 {
		v.lag = below(lag, most+1)
	} else if s.chance(lagging, s.noise.StaleRead) {
		v.lag = below(lag, staleness)
	}
	if d, ok := s.server.(*etcd); ok && p.hung {
		v.delay += time.Duration(max(0, d.hung.until-now)) // it applies nothing until then
	}
	v.second = v.delay + below(second, longest)
	return v
}

// tell sends an event of a watch. The events of one participant's watches arrive in order, except
// for second copies.
func (s *store) tell(w *World, t *watch, status protocol.Status, d time.Duration, again bool) *protocol.Answer {
	i := s.take()
	p, path := &s.parcels.all[i], &s.routes[t.node]
	p.node, p.life = t.node, t.life
	p.local = status == protocol.StatusClosed // the runtime itself notices that a watch has ended
	p.answer = protocol.Answer{Number: t.number, Status: status, Store: s.name}
	at := w.Now() + Time(d)
	if p.again = again; !again {
		at = max(at, path.tell)
		path.tell = at
	}
	s.after(w, i, stepTell, at)
	return &p.answer
}

// told handles an event of a watch at the process.
func (s *store) told(w *World, i int32) {
	p := &s.parcels.all[i]
	if (s.routes[p.node].down == 0 || p.local) && (!p.again || s.watching(p)) {
		w.reply(int(p.node), p.life, &p.answer)
	}
	s.drop(i)
}

// closeWatches ends the watches for which ends is true, and reports that.
func (s *store) closeWatches(w *World, ends func(*watch) bool) {
	for i := range s.watches {
		if t := &s.watches[i]; ends(t) {
			s.tell(w, t, protocol.StatusClosed, s.trip(&s.routes[t.node].random), false)
			t.id = none
		}
	}
	s.watches = slices.DeleteFunc(s.watches, func(t watch) bool { return t.id == none })
}

// closeWatch ends a watch that was silent for too long, if it still exists.
func (s *store) closeWatch(w *World, id int32) {
	s.closeWatches(w, func(t *watch) bool { return t.id == id })
}

// silent leaves a watch that fires no more. Its runtime notices after a while, when its keep-alive
// is not answered.
func (s *store) silent(w *World, t *watch) {
	t.mute = true
	s.then(w, time.Second+below(s.routes[t.node].random.Uint64(), longest), stepSilent, t.id)
}
