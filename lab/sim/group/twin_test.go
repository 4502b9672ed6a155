package group

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
)

// twin is the obvious coordinator: what it decides it decides anew at each step, from sets that it looks through from
// end to end. It leaves to the machine which of the keys that may be given are given.
type twin struct {
	set      machine.Settings
	tenure   uint64
	until    protocol.Instant // of its cover, by time
	wait     time.Duration    // the longest that an older promise lasts
	covered  bool
	resigns  bool
	links    map[machine.Conn]*twinLink
	sessions map[machine.Session]*twinSession
	number   map[protocol.Nonce]uint64
	over     map[protocol.Nonce]uint64
	vouched  [][]machine.Session
	versions [][]machine.Session // of the registry, from 1
	holder   map[machine.Key]machine.Session
	token    map[machine.Key]machine.Token
	given    map[machine.Key]machine.Token // the greatest of this tenure
}

type twinLink struct {
	from    protocol.NodeID
	session machine.Session
}

type twinWork struct {
	key   machine.Key
	token machine.Token
}

type twinSession struct {
	conn                     machine.Conn
	number                   uint64
	promise                  protocol.Instant
	longest, cover           time.Duration // its settings
	admitted, shown, voucher bool
	acked                    uint64
	draining                 bool
	wants                    map[machine.Key]int
	overruns                 map[twinWork]bool
}

// step takes an input. The twin is over when the machine resigns.
func (t *twin) step(in *machine.Input) {
	now := in.Now.Boot
	switch in.Kind {
	case machine.Begin:
		t.wait = max(t.set.Cover, in.Cover)
		t.until = now.Add(t.wait)
		return
	case machine.Opened:
		t.links[in.Conn] = &twinLink{from: in.From}
	case machine.Closed:
		if s := t.attached(in.Conn); s != nil {
			s.conn = 0
		}
		delete(t.links, in.Conn)
	case machine.Dead:
		t.ends(in.Session.Process, math.MaxUint64)
	case machine.Resign:
		t.resigns = true
	case machine.Receive:
		if t.links[in.Conn] != nil {
			t.receive(in.Conn, &in.Message, now)
		}
	}
	for id, s := range t.sessions {
		if now >= s.promise {
			t.ends(id.Process, id.Epoch)
		}
	}
}

// decide ends cover, and admits.
func (t *twin) decide(now protocol.Instant) {
	t.covered = t.covered || now >= t.until || t.accounted()
	if !t.covered {
		return
	}
	all := slices.SortedFunc(maps.Keys(t.sessions), machine.Session.Compare)
	if n := len(t.versions); n == 0 || !slices.Equal(t.versions[n-1], all) {
		t.versions = append(t.versions, all)
	}
	var admit []machine.Session
	vouchers := 0
	for _, id := range all {
		known := true
		for _, v := range t.sessions {
			known = known && (!v.voucher || v.acked > 0 && slices.Contains(t.versions[v.acked-1], id))
		}
		if s := t.sessions[id]; known && !s.admitted && s.conn != 0 {
			if s.admitted = t.fits(s.longest, s.cover); s.admitted {
				admit = append(admit, id)
			} else {
				delete(t.links, s.conn) // refused
				s.conn = 0
			}
		}
		if t.sessions[id].voucher {
			vouchers++
		}
	}
	for _, id := range append(admit, all...) { // whom it admits is told the registry with that anyway
		s := t.sessions[id]
		if s.admitted && !s.voucher && s.conn != 0 && (t.set.Vouchers == 0 || vouchers < t.set.Vouchers) {
			s.voucher = true
			vouchers++
		}
	}
}

// fits: nobody has a longer promise than another one's cover.
func (t *twin) fits(promise, cover time.Duration) bool {
	fit := promise <= t.set.Cover && t.set.Promise <= cover
	for _, s := range t.sessions {
		fit = fit && (!s.admitted || promise <= s.cover && s.longest <= cover)
	}
	return fit
}

// accounted: somebody has vouched, and all that everybody has vouched for are here or over.
func (t *twin) accounted() bool {
	if len(t.vouched) == 0 {
		return false
	}
	for _, id := range t.vouched[0] {
		inAll := true
		for _, v := range t.vouched {
			inAll = inAll && slices.Contains(v, id)
		}
		if inAll && t.sessions[id] == nil && id.Epoch > t.over[id.Process] {
			return false
		}
	}
	return true
}

// ends ends the session of a process with that epoch, or an earlier one.
func (t *twin) ends(n protocol.Nonce, epoch uint64) {
	t.over[n] = max(t.over[n], epoch)
	for id := range t.sessions {
		if id.Process == n && id.Epoch <= epoch {
			delete(t.sessions, id)
			maps.DeleteFunc(t.holder, func(_ machine.Key, h machine.Session) bool { return h == id })
		}
	}
}

// attached is the session whose latest attachment is the connection.
func (t *twin) attached(conn machine.Conn) *twinSession {
	if l := t.links[conn]; l != nil {
		if s := t.sessions[l.session]; s != nil && s.conn == conn {
			return s
		}
	}
	return nil
}

func (t *twin) receive(conn machine.Conn, m *machine.Message, now protocol.Instant) {
	l := t.links[conn]
	switch m.Type {
	case machine.Report:
		t.report(l, conn, m, now)
		return
	case machine.Goodbye:
		if n := m.Session.Process; m.Session.Member == l.from && m.Number > t.number[n] {
			t.number[n] = m.Number
			t.ends(n, m.Session.Epoch)
			delete(t.links, conn)
		}
		return
	}
	s := t.attached(conn)
	if s == nil || s.number != m.Number {
		return
	}
	switch m.Type {
	case machine.Poll:
		if m.Tenure == t.tenure {
			s.promise = max(s.promise, now.Add(t.set.Promise))
			s.acked = max(s.acked, m.Acked)
			s.shown = s.shown || s.admitted && m.Admitted
		}
	case machine.Released:
		for _, h := range m.Held {
			if t.holder[h.Key] == l.session && t.token[h.Key] == h.Token {
				delete(t.holder, h.Key)
			}
		}
	case machine.Ended:
		for _, h := range m.Held {
			delete(s.overruns, twinWork{h.Key, h.Token})
		}
	case machine.Wish:
		s.want(m.Wants)
		for _, k := range m.Unwants {
			delete(s.wants, k)
		}
	case machine.Tell:
		s.draining = m.Traits.Draining
	}
}

func (t *twin) report(l *twinLink, conn machine.Conn, m *machine.Message, now protocol.Instant) {
	id := m.Session
	switch n := id.Process; {
	case m.Tenure != t.tenure:
		return
	case !t.fits(m.Promise, m.Cover) || t.over[n] == math.MaxUint64:
		delete(t.links, conn) // refused
		return
	case m.Number <= t.number[n]:
		return
	}
	t.number[id.Process] = m.Number
	l.session = id
	if id.Epoch <= t.over[id.Process] {
		return
	}
	t.ends(id.Process, id.Epoch-1)
	s := t.sessions[id]
	switch {
	case s == nil:
		s = &twinSession{promise: protocol.Always, admitted: m.Admitted && !t.covered}
		s.voucher = s.admitted && (t.set.Vouchers == 0 || m.Registry != nil)
		t.sessions[id] = s
	case !m.Admitted:
		s.admitted, s.voucher = false, false
	}
	s.conn, s.number, s.shown, s.acked, s.draining = conn, m.Number, s.admitted, 0, m.Traits.Draining
	s.promise = max(s.promise, now.Add(max(t.wait, t.set.Promise)))
	s.longest, s.cover = m.Promise, m.Cover
	if r := m.Registry; r != nil {
		if r.Tenure == t.tenure {
			s.acked = r.Version
		}
		if m.Admitted && !t.covered {
			t.vouched = append(t.vouched, r.Sessions)
		}
	}
	for k, h := range t.holder { // what it does not list is free
		if h == id && !slices.ContainsFunc(m.Held, func(h machine.Held) bool { return h.Key == k }) {
			delete(t.holder, k)
		}
	}
	for _, h := range m.Held {
		if holder, held := t.holder[h.Key]; !held || holder == id {
			t.holder[h.Key], t.token[h.Key] = id, h.Token
		}
	}
	s.wants, s.overruns = map[machine.Key]int{}, map[twinWork]bool{}
	s.want(m.Wants)
	for _, h := range m.Overruns {
		s.overruns[twinWork{h.Key, h.Token}] = true
	}
}

func (s *twinSession) want(all []machine.Want) {
	for _, w := range all {
		s.wants[w.Key] = w.Priority
	}
}

func (t *twin) overrun(k machine.Key) bool {
	for _, s := range t.sessions {
		for o := range s.overruns {
			if o.key == k {
				return true
			}
		}
	}
	return false
}

// gives takes what the machine has given, and says what it must not.
func (t *twin) gives(fx *machine.Effects) string {
	for i := range fx.Sends {
		m := &fx.Sends[i].Message
		if m.Type != machine.Assign {
			continue
		}
		s := t.attached(fx.Sends[i].Conn)
		for _, h := range m.Held {
			holder, held := t.holder[h.Key]
			switch {
			case !t.covered:
				return fmt.Sprintf("%s is given during cover", h.Key)
			case t.resigns:
				return fmt.Sprintf("%s is given by a coordinator that resigns", h.Key)
			case s == nil || s.number != m.Number:
				return fmt.Sprintf("%s is given on a connection that is no latest attachment", h.Key)
			case !s.admitted || !s.shown:
				return fmt.Sprintf("%s is given to a session that is not admitted, or does not know", h.Key)
			case s.draining:
				return fmt.Sprintf("%s is given to a session that is to be emptied", h.Key)
			case held:
				return fmt.Sprintf("%s is given, and %v holds it", h.Key, holder)
			case t.overrun(h.Key):
				return fmt.Sprintf("%s is given, and an overrun covers it", h.Key)
			case h.Token.Tenure != t.tenure || h.Token.N <= t.given[h.Key].N:
				return fmt.Sprintf("%s is given under %v after %v", h.Key, h.Token, t.given[h.Key])
			}
			if p, wanted := s.wants[h.Key]; !wanted || p == protocol.NeverLead {
				return fmt.Sprintf("%s is given to a session that does not want it", h.Key)
			}
			t.holder[h.Key], t.token[h.Key], t.given[h.Key] = t.links[fx.Sends[i].Conn].session, h.Token, h.Token
		}
	}
	return ""
}

// differs says what the machine knows that the twin does not, and the other way round.
func (t *twin) differs(c *machine.Coordinator) string {
	if c.Covered() != t.covered {
		return fmt.Sprintf("cover is over: %v; want %v", c.Covered(), t.covered)
	}
	all := c.Sessions(nil)
	if len(all) != len(t.sessions) {
		return fmt.Sprintf("%d sessions; want %d", len(all), len(t.sessions))
	}
	for _, x := range all {
		s := t.sessions[x.Session]
		if s == nil {
			return fmt.Sprintf("%v is there; want it to be over", x.Session)
		}
		if x.Conn != s.conn || x.Promise != s.promise || x.Admitted != (s.admitted && s.shown) || x.Voucher != s.voucher {
			return fmt.Sprintf("%+v; want it on %d, promised until %v, admitted %v and shown %v, a voucher: %v", x, s.conn, s.promise, s.admitted, s.shown, s.voucher)
		}
	}
	known, held, what := 0, 0, ""
	c.Keys(func(k *machine.KeyState) bool {
		known++
		holder, is := t.holder[k.Key]
		if is {
			held++
		}
		if holder != k.Session || is && t.token[k.Key] != k.Token || t.overrun(k.Key) != k.Overrun {
			what = fmt.Sprintf("%+v; want it held by %v under %v, with an overrun: %v", *k, holder, t.token[k.Key], t.overrun(k.Key))
		}
		return what == ""
	})
	if what == "" && known != c.Known() {
		return fmt.Sprintf("it says that it knows %d keys; want the %d that it lists", c.Known(), known)
	}
	if what == "" && held != len(t.holder) {
		return fmt.Sprintf("it knows %d keys that are held; want %d", held, len(t.holder))
	}
	return what
}

// TestTwin: at each step of a coordinator in a world of faults the twin has the same sessions, with the same promises,
// admissions and vouchers, the same end of cover and the same holders, and what is given may be given.
func TestTwin(t *testing.T) {
	for _, p := range Profiles() {
		t.Run(p[0], func(t *testing.T) {
			t.Parallel()
			steps := 0
			for seed := range uint64(long.Or(long.FullOr(500, 150), 12)) {
				s, err := Generate(seed+1, Options{Profile: p[0]})
				if err != nil {
					t.Fatal(err)
				}
				w, err := New(s, nil)
				if err != nil {
					t.Fatal(err)
				}
				twins := map[*coordinator]*twin{}
				w.stepped = func(p *process, c *coordinator, in *machine.Input, fx *machine.Effects) {
					if in.Kind == machine.Begin {
						twins[c] = &twin{
							set: p.settings, tenure: c.tenure.count, links: map[machine.Conn]*twinLink{}, sessions: map[machine.Session]*twinSession{},
							number: map[protocol.Nonce]uint64{}, over: map[protocol.Nonce]uint64{}, holder: map[machine.Key]machine.Session{},
							token: map[machine.Key]machine.Token{}, given: map[machine.Key]machine.Token{},
						}
					}
					x := twins[c]
					x.step(in)
					what := x.gives(fx)
					if fx.Resign {
						delete(twins, c)
					} else if what == "" {
						x.decide(in.Now.Boot)
						what = x.differs(c.Coordinator)
					}
					if steps++; what != "" {
						t.Fatalf("seed %d, %v, coordinator %d of %s, %v %s: %s", seed+1, w.now, x.tenure, p.node.ID, in.Kind, in.Message.Type, what)
					}
				}
				for w.Step() {
				}
				if w.mishap != nil {
					t.Fatal(w.mishap)
				}
			}
			if steps < 1000 {
				t.Errorf("%d steps were compared; want 1000 at least", steps)
			}
		})
	}
}
