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

// standing is G15: whether the process of a member may coordinate.
type standing struct {
	is     bool
	word   word
	vacant bool          // nobody leads E, as far as was seen
	own    bool          // the process itself leads E
	top    uint64        // the greatest tenure of E that was seen
	cover  time.Duration // of that, if it is another process's
	quiet  protocol.Instant
}

// led takes in who leads E.
func (m *Member) led(in *Input) {
	s := &m.standing
	s.vacant = in.Tenure == 0
	s.own = !s.vacant && in.Session.Process == m.session.Process
	if s.own && s.is {
		s.word = unheard // it was elected although it was refused, because nobody else was
	}
	if in.Tenure <= s.top {
		return
	}
	s.top = in.Tenure
	if s.quiet = in.Now.Boot; !s.own {
		s.cover = min(in.Cover, longest)
	}
}

// heard takes in that a coordinator has said something.
func (m *Member) heard(now protocol.Instant) {
	if s := &m.standing; s.top != 0 && s.word != fits {
		s.quiet = now
	}
}

// judged takes in what a coordinator says of the member's settings, if none of a later tenure was seen.
func (m *Member) judged(w word, tenure uint64, now protocol.Instant) {
	if s := &m.standing; s.top != 0 && tenure == s.top && (w == fits || !m.cfg.Mutant.Has("refused-stands")) {
		s.word, s.quiet = w, now
	}
}

// forgotten takes in that the session is over: the group may have gone on without this member, with other settings.
func (m *Member) forgotten() {
	if s := &m.standing; s.word == fits {
		s.word = unheard
	}
}

// Cover is how long a coordinator of this process has to cover: it may have seen a coordinator with a longer cover.
func (m *Member) Cover() time.Duration { return max(m.cfg.Cover, m.standing.cover) }

// Stands reports whether the process may coordinate (G15).
func (m *Member) Stands() bool { return m.standing.is }

// stand decides it anew.
func (m *Member) stand(now protocol.Instant) {
	s := &m.standing
	s.is = s.word == fits || s.word == unheard && (s.own || s.vacant) || now >= s.quiet.Add(m.Cover())
}
