package group

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// word is the last that a coordinator has said of a member's settings.
type word uint8

const (
	unheard  word = iota
	fits          // the latest coordinator has admitted it
	unfitted      // the latest coordinator has refused it
)

// sight is what a member sees of E.
type sight uint8

const (
	unseen sight = iota // nothing yet, or not any more
	vacant              // nobody leads
	others              // another process leads
	own                 // its own process leads
	lately              // its own process led, and E cannot be observed now
)

// standing is G15: whether the process of a member may coordinate.
type standing struct {
	is    bool
	word  word
	sight sight
	top   uint64           // the greatest tenure of E that was seen
	cover time.Duration    // W of that, if it is another process's
	quiet protocol.Instant // when a coordinator was last seen or heard, unless one is seen now
	// Claims of before that tenure may need a wait of owed, until then.
	owed time.Duration
	then protocol.Instant
}

// led takes in who leads E.
func (m *Member) led(in *Input) {
	s, now := &m.standing, in.Now.Boot
	switch {
	case in.Tenure == 0:
		m.sees(vacant, now)
	case in.Session.Process == m.session.Process:
		m.sees(own, now)
	default:
		m.sees(others, now)
	}
	if s.sight == own && s.is {
		s.word = unheard // it was elected although it was refused, because nobody else was
	}
	if in.Tenure <= s.top {
		return
	}
	s.top, s.quiet = in.Tenure, now
	// The tenure before has ended by now, and the coordinator of this one knows of others.
	wait := s.cover
	if s.cover = 0; s.sight != own {
		wait, s.cover = max(wait, min(in.Wait, longest)), min(in.Cover, longest)
	}
	s.owed, s.then = max(s.owed, wait), max(s.then, now.Add(wait))
}

// sees takes in what is seen of E now.
func (m *Member) sees(what sight, now protocol.Instant) {
	s := &m.standing
	switch {
	case what == unseen && (s.sight == own || s.sight == lately): // a coordinator goes on
		what = lately
	case s.sight != unseen && s.sight != vacant:
		s.quiet = now
	}
	s.sight = what
}

// heard takes in that a coordinator has said something. When nobody leads E it was one before.
func (m *Member) heard(now protocol.Instant) {
	if s := &m.standing; s.top != 0 && s.word != fits && s.sight != vacant {
		s.quiet = now
	}
}

// judged takes in what a coordinator says of the member's settings, if none of a later tenure was seen.
func (m *Member) judged(w word, tenure uint64, now protocol.Instant) {
	s := &m.standing
	if s.top == 0 || tenure != s.top || w != fits && m.cfg.Mutant.Has("refused-stands") {
		return
	}
	if s.word = w; s.sight != vacant {
		s.quiet = now
	}
}

// forgotten takes in that the session is over: the group may have gone on without this member, with other settings.
func (m *Member) forgotten(now protocol.Instant) {
	s := &m.standing
	if s.word == fits {
		s.word = unheard
	}
	if s.sight == lately {
		s.sight, s.quiet = unseen, now
	}
}

// Cover is how long a coordinator of this process that begins now has to cover: for its own W, that of the coordinator
// before it, and what that one or an earlier one had to wait for.
func (m *Member) Cover() time.Duration {
	return max(m.cfg.Cover, m.standing.cover, m.standing.owed)
}

// Stands reports whether the process may coordinate (G15).
func (m *Member) Stands() bool { return m.standing.is }

// stand decides it anew.
func (m *Member) stand(now protocol.Instant) {
	s := &m.standing
	seen := s.sight == vacant || s.sight == own || s.sight == lately
	silent := s.sight != others && now >= s.quiet.Add(m.Cover())
	s.is = s.word == fits || s.word == unheard && seen || silent
}
