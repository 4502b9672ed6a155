package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"sync"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// Store grants leases on any number of elections. Make one with [NewStore] and
// open any number of participants on it.
type Store struct {
	mu        sync.Mutex
	era       uint64
	registers map[string]*register
	down      bool
	longest   time.Duration // of all leases ever granted
	holdOff   time.Time     // nothing is granted before: leases forgotten by Recreate may live
	changed   chan struct{} // closed and replaced at each change of anything above
}

// NewStore returns an empty store whose tokens have the given era, 0 to [fence.MaxEra]; beyond that it elects no
// leader.
func NewStore(era uint64) *Store {
	return &Store{era: era, registers: map[string]*register{}, changed: make(chan struct{})}
}

// Open opens participants by URL, as a [driver.Opener]: "memory:?lease=2s". The
// only parameter is lease, as in [Config].
func (s *Store) Open(_ context.Context, t driver.Target) (driver.Elector, error) {
	if t.URL.Opaque != "" || t.URL.User != nil || t.URL.Host != "" || t.URL.Path != "" || t.URL.Fragment != "" {
		return nil, driver.Permanent(fmt.Errorf("a memory election has no place: %q; want memory: or memory:?lease=2s", t.URL.Redacted()))
	}
	q, err := url.ParseQuery(t.URL.RawQuery)
	if err != nil {
		return nil, driver.Permanent(err)
	}
	var cfg Config
	for key, values := range q {
		if key != "lease" || len(values) != 1 {
			return nil, driver.Permanent(fmt.Errorf("parameter %q; want at most one lease=DURATION", key))
		}
		if cfg.Lease, err = time.ParseDuration(values[0]); err != nil {
			return nil, driver.Permanent(fmt.Errorf("lease %q; want a duration such as 2s", values[0]))
		}
	}
	e, err := s.New(t.Name, t.ID, cfg)
	if err != nil {
		return nil, err // and not a nil *Elector in a driver.Elector
	}
	return e, nil
}

// Outage makes the store answer no requests, or ends that. Leases run out meanwhile.
func (s *Store) Outage(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = on
	s.broadcast()
}

// Restart stops the store and starts it again with its saved state: all records, and each lease
// with its full length again, because a restarted store cannot know how much of it had passed.
func (s *Store) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.registers {
		if r.lapse(time.Now()); r.holder != "" {
			r.expires = time.Now().Add(r.lease)
		}
	}
	s.broadcast()
}

// Recreate loses everything, like a store that is recreated or restored from nothing. Counts start
// again, so it raises the era, as an operator must, and grants nothing as long as a lease that it
// has forgotten may still live.
func (s *Store) Recreate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.era++
	s.holdOff = time.Now().Add(s.longest)
	s.registers = map[string]*register{}
	s.broadcast()
}

func (s *Store) broadcast() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// register is the record of one election, as the store keeps it.
type register struct {
	holder  string // nonce of the candidacy that holds it; "" when free
	leader  driver.Leader
	count   uint64
	lease   time.Duration
	expires time.Time // by the store's clock: no earlier than lease after the request landed

	recalled  bool
	appointed string    // whom the holder was asked to hand over to
	successor string    // id for which a transferred register is kept,
	reserved  time.Time // until then

	freed   time.Time          // when the last holder let go, or lapsed
	waiting map[string]*waiter // candidacies that were refused, by nonce
}

// waiter is a candidacy that waits for a register.
type waiter struct {
	id       string
	priority int
	asked    time.Time // when it was refused last
}

// deference is how long a free register is kept for waiters of a greater priority: a live one
// learns of it at once.
const deference = 10 * time.Millisecond

// lapse frees the register if its lease has run out.
func (r *register) lapse(now time.Time) {
	if r.holder != "" && !now.Before(r.expires) {
		r.free(r.expires)
	}
}

func (r *register) free(at time.Time) {
	r.holder, r.recalled, r.appointed, r.freed = "", false, "", at
}

// outranked reports whether a candidate of a greater priority waits and may still come.
func (r *register) outranked(priority int, now time.Time) bool {
	if !now.Before(r.freed.Add(deference)) {
		return false
	}
	for _, w := range r.waiting {
		if w.priority > priority {
			return true
		}
	}
	return false
}

// wait notes that a candidacy waits.
func (r *register) wait(nonce, id string, priority int, now time.Time) {
	if r.waiting == nil {
		r.waiting = map[string]*waiter{}
	}
	r.waiting[nonce] = &waiter{id, priority, now}
}

// candidate reports whether a candidacy of id waits.
func (r *register) candidate(id string) bool {
	for _, w := range r.waiting {
		if w.id == id {
			return true
		}
	}
	return false
}

// register returns the record of an election, lapsed if it is time. The caller
// holds s.mu.
func (s *Store) register(name string) *register {
	r := s.registers[name]
	if r == nil {
		r = &register{}
		s.registers[name] = r
	}
	r.lapse(time.Now())
	return r
}

// answer is the answer to any request: the record after it.
type answer struct {
	granted  bool
	holder   string
	leader   driver.Leader
	expires  time.Time
	recalled bool
	wake     time.Time // when an unchanged record is worth asking for again; zero for never
	changed  <-chan struct{}
	refusal  error // why an appointment was refused
}

func (s *Store) describe(r *register, granted bool) answer {
	a := answer{granted: granted, holder: r.holder, recalled: r.recalled, changed: s.changed}
	if r.holder != "" {
		a.leader, a.expires, a.wake = r.leader, r.expires, r.expires
	} else if now := time.Now(); now.Before(s.holdOff) {
		a.wake = s.holdOff
	} else if now.Before(r.reserved) {
		a.wake = r.reserved
	} else if end := r.freed.Add(deference); now.Before(end) {
		a.wake = end
	}
	return a
}

// acquire takes a free register, or renews one that nonce holds already, so that a candidate whose
// answer was lost may ask again. Of the waiting candidates the one with the greatest priority takes
// it.
func (s *Store) acquire(name, nonce string, candidate driver.Leader, priority int, lease time.Duration) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := s.register(name)
	switch {
	case r.holder == nonce:
		r.expires = now.Add(lease)
		return s.describe(r, true)
	case r.holder != "", now.Before(s.holdOff), r.successor != "" && r.successor != candidate.ID && now.Before(r.reserved),
		r.successor != candidate.ID && r.outranked(priority, now):
		r.wait(nonce, candidate.ID, priority, now)
		return s.describe(r, false)
	}
	token, err := fence.NewToken(s.era, r.count+1)
	if err != nil {
		return s.describe(r, false) // 2^48 terms in one process do not happen
	}
	r.count++
	s.longest = max(s.longest, lease)
	candidate.Token, candidate.Since = token, now
	delete(r.waiting, nonce)
	maps.DeleteFunc(r.waiting, func(_ string, w *waiter) bool { return w.priority > priority && w.asked.Before(r.freed) }) // they did not come
	*r = register{holder: nonce, leader: candidate, count: r.count, lease: lease, expires: now.Add(lease), waiting: r.waiting}
	s.broadcast()
	return s.describe(r, true)
}

func (s *Store) renew(name, nonce string, lease time.Duration) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.register(name)
	if r.holder != nonce {
		return s.describe(r, false)
	}
	r.expires = time.Now().Add(lease)
	return s.describe(r, true)
}

// publish replaces the metadata of the leader if nonce holds the register.
func (s *Store) publish(name, nonce string, metadata map[string]string) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.register(name)
	if r.holder != nonce {
		return s.describe(r, false)
	}
	r.leader.Metadata = metadata
	s.broadcast()
	return s.describe(r, true)
}

// release frees the register if nonce holds it, and keeps it for the candidate
// called successor, or the one that was appointed, if any, for one lease.
func (s *Store) release(name, nonce, successor string) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.register(name)
	if r.holder != nonce {
		return s.describe(r, false)
	}
	successor = cmp.Or(successor, r.appointed)
	r.free(time.Now())
	if successor != "" {
		r.successor, r.reserved = successor, time.Now().Add(r.lease)
	}
	s.broadcast()
	return s.describe(r, true)
}

// withdraw ends a candidacy, in any state.
func (s *Store) withdraw(name, nonce string) answer {
	s.mu.Lock()
	r := s.register(name)
	if _, waits := r.waiting[nonce]; waits {
		delete(r.waiting, nonce)
		s.broadcast() // another candidate may have deferred to it
	}
	s.mu.Unlock()
	return s.release(name, nonce, "")
}

// recall asks the holder to release, in favour of the candidate called to, if that is not empty.
func (s *Store) recall(name string, token fence.Token, to string) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.register(name)
	if r.holder == "" || token != 0 && r.leader.Token != token {
		return s.describe(r, false)
	}
	if to != "" {
		if err := r.eligible(to); err != nil {
			a := s.describe(r, false)
			a.refusal = err
			return a
		}
		r.appointed = to
	}
	r.recalled = true
	s.broadcast()
	return s.describe(r, true)
}

// eligible returns the reason why a candidate could not take over from the holder.
func (r *register) eligible(to string) error {
	switch {
	case to == r.leader.ID:
		return fmt.Errorf("%w: %s leads already", driver.ErrIneligible, to)
	case !r.candidate(to):
		return fmt.Errorf("%w: no candidate %s waits", driver.ErrIneligible, to)
	}
	return nil
}

func (s *Store) eligible(name, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.register(name).eligible(to)
}

func (s *Store) read(name string) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.describe(s.register(name), true)
}
