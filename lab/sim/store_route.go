package sim

import (
	"math/bits"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// none is no place in a slab, and no node.
const none = -1

// route is a participant's path to the store and back.
type route struct {
	id     protocol.NodeID
	random stream
	down   int  // the number of faults that cut it
	stays  bool // it is never mended again

	// ZooKeeper's client receives everything in order on its one connection.
	out, back Time
	tell      Time // when the last watch event arrives

	// view is the newest state that the participant's server has shown it.
	view uint64
	// island is until when its server, itself cut off, answers what it can answer alone: reads of a
	// fixed state, and pings.
	island Time
	stood  uint64 // that state
	// deposed is until when it talks to a leader of the store that has been replaced and does not
	// know it.
	deposed Time
	// hung: it talks to a leader of the store that hangs.
	hung bool
}

func (p *route) appendState(dst []byte) []byte {
	for _, v := range [...]uint64{uint64(p.down), uint64(p.out), uint64(p.back), uint64(p.tell), p.view, uint64(p.island), p.stood, uint64(p.deposed)} {
		dst = protocol.AppendUint(dst, v)
	}
	return protocol.AppendBool(protocol.AppendBool(dst, p.stays), p.hung)
}

// parcel is in flight between a participant and the store: a request until it is answered, or an
// event of a watch.
type parcel struct {
	node     int32
	life     uint32
	events   int8 // the number of events that refer to it; free at 0
	late     bool // it was on its way for longer than expected
	unknown  bool // its answer will be lost
	repeat   bool // the client library sends it twice
	throttle bool
	lapsed   bool // the runtime has given up, or will
	local    bool // the answer is the runtime's own
	again    bool // a second copy of a watch event
	deadline Time
	chance   uint64        // decides what depends on the state at arrival
	lag      time.Duration // how far behind the server may be
	back     time.Duration
	ask      protocol.Ask
	answer   protocol.Answer
	entries  []protocol.Entry // what answer.Entries points into
}

func (p *parcel) appendState(dst []byte) []byte {
	dst = protocol.AppendUint(dst, uint64(p.node)<<32|uint64(p.life))
	for _, b := range [...]bool{p.late, p.unknown, p.repeat, p.throttle, p.lapsed, p.local, p.again} {
		dst = protocol.AppendBool(dst, b)
	}
	for _, v := range [...]uint64{uint64(p.events), uint64(p.deadline), p.chance, uint64(p.lag), uint64(p.back)} {
		dst = protocol.AppendUint(dst, v)
	}
	a := &p.ask
	dst = appendRecord(appendAll(dst, a.Number, uint64(a.Op), a.Version, a.Session, uint64(a.TTL), a.Nonce[0], a.Nonce[1], a.Revision), &a.Record)
	dst = appendMark(protocol.AppendBool(appendEntry(dst, &a.Entry), a.SetMark), a.Mark)
	r := &p.answer
	dst = appendRecord(appendAll(dst, r.Number, uint64(r.Status), r.Version, r.Session, uint64(r.TTL), r.Revision), &r.Record)
	dst = appendMark(appendEntry(protocol.AppendString(dst, r.Store), &r.Entry), r.Mark)
	dst = protocol.AppendUint(dst, uint64(len(r.Entries)))
	for i := range r.Entries {
		dst = appendEntry(dst, &r.Entries[i])
	}
	return dst
}

func appendAll(dst []byte, all ...uint64) []byte {
	for _, v := range all {
		dst = protocol.AppendUint(dst, v)
	}
	return dst
}

func appendRecord(dst []byte, r *protocol.Record) []byte {
	dst = protocol.AppendString(dst, r.Holder)
	dst = appendAll(dst, r.Nonce[0], r.Nonce[1], r.Count, r.Attempt, uint64(r.Duration))
	dst = protocol.AppendString(dst, r.Free.Holder)
	dst = appendAll(dst, r.Free.Nonce[0], r.Free.Nonce[1], r.Free.Count)
	return protocol.AppendString(dst, r.Store)
}

func appendEntry(dst []byte, e *protocol.Entry) []byte {
	return appendAll(protocol.AppendString(dst, e.Holder), e.Order, e.Session, e.Nonce[0], e.Nonce[1])
}

func appendMark(dst []byte, m protocol.QueueMark) []byte {
	return appendAll(protocol.AppendBool(protocol.AppendUint(dst, m.Order), m.Held), uint64(m.Hold), m.Touched)
}

// take allocates a place for a parcel. It is cleared except for its buffer.
func (s *store) take() int32 {
	i := s.parcels.get()
	p := &s.parcels.all[i]
	*p = parcel{entries: p.entries[:0]}
	return i
}

// drop ends one event of a parcel, and frees its place with the last one.
func (s *store) drop(i int32) {
	p := &s.parcels.all[i]
	if p.events--; p.events == 0 {
		s.parcels.put(i)
	}
}

// after schedules a parcel's event for that time.
func (s *store) after(w *World, i int32, step storeStep, at Time) {
	s.parcels.all[i].events++
	s.then(w, time.Duration(at-w.Now()), step, i)
}

// chance is true with that probability; noise ends with the faults.
func (s *store) chance(word uint64, p float64) bool {
	return !s.healed && word>>11 < odds(p)
}

// below turns 64 random bits into a duration from 0 to less than d.
func below(word uint64, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	hi, _ := bits.Mul64(word, uint64(d))
	return time.Duration(hi)
}

// trip draws one way between a participant and the store. It is bounded once the store is healed, as liveness
// presupposes: a single late answer may otherwise leave the work less time than its drain, at any time.
func (s *store) trip(r *stream) time.Duration {
	if s.healed {
		return s.noise.Delay + min(r.Tail(s.noise.Jitter, 0), 4*s.noise.Jitter)
	}
	return s.noise.Delay + r.Tail(s.noise.Jitter, s.noise.Tail)
}

func (s *store) ask(w *World, n *node, a *protocol.Ask) {
	i := s.take()
	p, path := &s.parcels.all[i], &s.routes[n.index]
	p.node, p.life, p.ask = int32(n.index), n.life, *a
	p.answer = protocol.Answer{Number: a.Number, Store: s.name}
	s.server.asked(p)

	// The number of draws does not depend on the outcome.
	r := &path.random
	lost, late, lateBy, refused := r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()
	unknown, repeat, throttle, lagging, lag := r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()
	p.chance = r.Uint64()
	out, back := s.trip(r), s.trip(r)

	now := w.Now()
	slow := s.longest(OpStoreSlow, path.id)
	p.back, p.deadline = back, now+Time(s.noise.Timeout)
	p.unknown = s.chance(unknown, max(s.noise.Unknown, s.strength(OpStoreUnknown, path.id)))
	p.throttle = s.chance(throttle, max(s.noise.Throttle, s.strength(OpThrottle, path.id)))
	p.repeat = s.chance(repeat, s.noise.Repeat)
	if most := s.longest(OpStaleRead, path.id); most > 0 {
		p.lag = below(lag, most+1)
	} else if s.chance(lagging, s.noise.StaleRead) {
		p.lag = below(lag, staleness)
	}
	if path.down > 0 && path.island <= now && refused>>63 == 0 && !s.alone(w, p) {
		// The store is unreachable and the runtime knows it: the request was not sent.
		p.local, p.answer.Status = true, refusal(a.Op)
		s.after(w, i, stepAnswer, now+Time(max(s.noise.Delay, time.Millisecond)))
		return
	}
	if s.chance(lost, s.noise.LostAsk) {
		s.after(w, i, stepLapse, p.deadline)
		return
	}
	at := now + Time(out+slow)
	if p.late = s.chance(late, s.noise.LateAsk); p.late {
		p.unknown = true
		at += Time(below(lateBy, longest))
	} else {
		path.out = s.inOrder(path.out, at)
		at = max(at, path.out)
	}
	s.travel(w, i, at)
}

// inOrder is when something arrives that is sent after an earlier arrival at last, where the client
// has one connection.
func (s *store) inOrder(last, at Time) Time {
	if _, ok := s.server.(*zookeeper); ok {
		return max(last, at)
	}
	return at
}

// travel makes a request arrive at that time, and the runtime give up before if it takes too long.
func (s *store) travel(w *World, i int32, at Time) {
	p := &s.parcels.all[i]
	if at >= p.deadline && !p.lapsed {
		p.lapsed = true
		s.after(w, i, stepLapse, p.deadline)
	}
	s.after(w, i, stepArrive, at)
}

// arrive handles a request at the server.
func (s *store) arrive(w *World, i int32) {
	p := &s.parcels.all[i]
	path := &s.routes[p.node]
	now := w.Now()
	p.answer.Store = s.name
	switch {
	case path.down > 0 && path.island <= now && !s.alone(w, p):
		s.lose(w, i)
		s.drop(i)
		return
	case s.waits(w, p) > 0:
		s.travel(w, i, s.waits(w, p))
		s.drop(i)
		return
	case now < s.serving && path.deposed <= now && !s.alone(w, p) && !s.atHung(p):
		// No leader: a request is lost, or waits until there is one.
		if p.chance>>63 == 0 {
			s.lose(w, i)
		} else {
			s.travel(w, i, s.look(w))
		}
		s.drop(i)
		return
	case watches(p.ask.Op) && (p.lapsed || !alive(w, p)):
		s.drop(i) // its end has been reported, or there is no process to report it to
		return
	case p.throttle:
		p.answer.Status = refusal(p.ask.Op)
	case !s.apply(w, i):
		s.lose(w, i)
		s.drop(i)
		return
	}
	p = &s.parcels.all[i]
	if watches(p.ask.Op) && p.answer.Status == 0 {
		s.drop(i) // it is registered, and answers when it fires
		return
	}
	if p.unknown && !watches(p.ask.Op) {
		s.lose(w, i)
	} else {
		s.finish(w, i, now+Time(p.back+s.longest(OpStoreSlow, path.id)))
	}
	s.drop(i)
}

// alive reports whether the process that asked still lives.
func alive(w *World, p *parcel) bool {
	n := w.nodes[p.node]
	return n.up && n.life == p.life
}

// apply passes a request to the server, twice if the client library repeats it. Applying it may
// move the slab, so the server works on a copy.
func (s *store) apply(w *World, i int32) bool {
	p := &s.current
	*p = s.parcels.all[i]
	heard := s.server.apply(s, w, p)
	if heard && p.repeat && p.answer.Status == protocol.StatusDone && repeats(p.ask.Op) {
		p.answer = protocol.Answer{Number: p.ask.Number, Store: s.name}
		s.server.apply(s, w, p)
	}
	p.events = s.parcels.all[i].events
	s.parcels.all[i] = *p
	return heard
}

// repeats reports whether an operation changes something.
func repeats(o protocol.Op) bool {
	switch o {
	case protocol.Write, protocol.Delete, protocol.OpenSession, protocol.CloseSession, protocol.Enter, protocol.Touch, protocol.Mark, protocol.Leave:
		return true
	}
	return false
}

// refusal is the status of a request that is not accepted.
func refusal(o protocol.Op) protocol.Status {
	if watches(o) {
		return protocol.StatusClosed
	}
	return protocol.StatusRefused
}

func watches(o protocol.Op) bool {
	return o == protocol.Watch || o == protocol.WatchEntry || o == protocol.WatchTouch
}

// lose makes the runtime wait in vain.
func (s *store) lose(w *World, i int32) {
	if p := &s.parcels.all[i]; !p.lapsed {
		p.lapsed = true
		s.after(w, i, stepLapse, max(p.deadline, w.Now()))
	}
}

// finish makes an answer arrive at that time, unless the runtime has given up.
func (s *store) finish(w *World, i int32, at Time) {
	p := &s.parcels.all[i]
	path := &s.routes[p.node]
	if p.lapsed {
		return
	}
	path.back = s.inOrder(path.back, at)
	if at = max(at, path.back); at >= p.deadline {
		s.lose(w, i)
		return
	}
	s.after(w, i, stepAnswer, at)
}

// deliver handles an answer at the process.
func (s *store) deliver(w *World, i int32) {
	p := &s.parcels.all[i]
	if path := &s.routes[p.node]; path.down > 0 && path.island <= w.Now() && !p.local && !s.alone(w, p) {
		s.lose(w, i)
	} else {
		w.reply(int(p.node), p.life, &p.answer)
	}
	s.drop(i)
}

// lapse tells the process that no answer came. A watch without an answer is over.
func (s *store) lapse(w *World, i int32) {
	p := &s.parcels.all[i]
	a := protocol.Answer{Number: p.ask.Number, Status: protocol.StatusUnknown}
	if watches(p.ask.Op) {
		a.Status = protocol.StatusClosed
	}
	node, life := p.node, p.life
	s.drop(i)
	w.reply(int(node), life, &a)
}

// longest is the time that the worst fault of that kind gives a participant: how much slower its
// requests and answers are (OpStoreSlow), or how far behind, at most, its reads are (OpStaleRead).
func (s *store) longest(kind OpKind, id protocol.NodeID) time.Duration {
	var by time.Duration
	for i := range s.faults {
		if f := &s.faults[i]; f.kind == kind && f.hits(id) {
			by = max(by, f.by)
		}
	}
	return by
}

// strength is the probability that a fault of that kind gives the events on a participant's path.
func (s *store) strength(kind OpKind, id protocol.NodeID) float64 {
	var p float64
	for i := range s.faults {
		if f := &s.faults[i]; f.kind == kind && f.hits(id) {
			p = max(p, f.value)
		}
	}
	return p
}

// going reports whether a fault of that kind is in force for that participant.
func (s *store) going(kind OpKind, id protocol.NodeID) bool {
	return slices.ContainsFunc(s.faults, func(f storeFault) bool { return f.kind == kind && f.hits(id) })
}
