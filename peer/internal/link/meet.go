package link

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/wire"
)

// check returns why a caller cannot be admitted, as far as the host itself can tell.
func check(self, h *wire.Hello, id string, secure bool) *wire.Refusal {
	say := func(code wire.Code, format string, args ...any) *wire.Refusal {
		return &wire.Refusal{Code: code, Says: fmt.Sprintf(format, args...), Final: true}
	}
	switch {
	case min(h.Version, self.Version) < max(h.Oldest, self.Oldest):
		return versions(self, h)
	case h.Cluster != self.Cluster:
		return say(wire.CodeCluster, "%s belongs to cluster %q; %s to %q", name(h), h.Cluster, name(self), self.Cluster)
	case h.Caller == wire.ClientOf: // any certificate of the cluster will do
		return nil
	case secure && id != string(h.ID):
		if role, _ := certs.RoleOf(id); role != "" {
			return say(wire.CodeIdentity, "it says that it is %s, with an operator's certificate; want the certificate of %s", h.ID, h.ID)
		}
		return say(wire.CodeIdentity, "it says that it is %s, with the certificate of %s", h.ID, id)
	case h.ID == self.ID && h.Life == self.Life:
		return say(wire.CodeIdentity, "%s called itself: the address is its own", h.ID)
	case h.ID == self.ID && h.Caller == wire.Node:
		return say(wire.CodeIdentity, "both sides are %s; each node wants an id of its own", h.ID)
	}
	return nil
}

func versions(self, h *wire.Hello) *wire.Refusal {
	return &wire.Refusal{Code: wire.CodeVersion, Final: true, Says: fmt.Sprintf(
		"no version of the protocol in common: %s speaks %s, the other side %s", name(self), span(self.Oldest, self.Version), span(h.Oldest, h.Version))}
}

// name describes the sender of a Hello.
func name(h *wire.Hello) string {
	switch h.Caller {
	case wire.ClientOf:
		return "the client"
	case wire.WitnessOf:
		return "the witness of " + string(h.ID)
	}
	return string(h.ID)
}

func span(oldest, newest uint32) string {
	if oldest == newest {
		return fmt.Sprint(newest)
	}
	return fmt.Sprintf("%d to %d", oldest, newest)
}

// expectHello reads the first frame of an accepted connection.
func expectHello(s *stream, self *wire.Hello) (*wire.Hello, *wire.Refusal, error) {
	f, err := s.frames.Next()
	if err != nil {
		if _, ok := errors.AsType[*wire.VersionError](err); ok && f.Hello != nil {
			return nil, versions(self, f.Hello), nil
		}
		if big, ok := errors.AsType[*wire.TooLarge](err); ok && big.Size>>16 == 0x1603 { // a record of TLS
			return nil, &wire.Refusal{Code: wire.CodeCertificate, Final: true,
				Says: "it calls with TLS; this node speaks plain text (insecure=true, or an older version): want that at both sides or at none"}, nil
		}
		// between two frames, and with a certificate of this cluster
		if s.id != "" && (errors.Is(err, io.EOF) || isReset(err)) {
			err = errLeft
		}
		return nil, nil, fmt.Errorf("want a Hello: %w", s.ended(err))
	}
	if f.Hello == nil {
		return nil, nil, errors.New("it began with another frame than Hello")
	}
	return f.Hello, nil, nil
}

// greet sends Hello on a dialled connection, and reads the answer: the other side's Hello and its Welcome. An error
// may be a *wire.Refusal: that of the other side, or, if mine is set, this side's own.
func greet(s *stream, self *wire.Hello, expect protocol.NodeID) (h *wire.Hello, mine bool, err error) {
	if err := s.put(&wire.Frame{Hello: self}); err != nil {
		return nil, false, err
	}
	f, err := s.frames.Next()
	switch _, foreign := errors.AsType[*wire.VersionError](err); {
	case foreign && f.Hello != nil:
		return nil, true, versions(self, f.Hello)
	case err != nil:
		return nil, false, err
	case f.Refusal != nil:
		return nil, false, f.Refusal
	case f.Hello == nil:
		return nil, false, errors.New("it did not answer with Hello")
	}
	h = f.Hello
	if h.Caller != wire.Node {
		return nil, true, &wire.Refusal{Code: wire.CodeIdentity, Says: "it answers as a " + string(h.Caller) + "; want a node", Final: true}
	}
	if expect != "" && h.ID != expect {
		return nil, true, &wire.Refusal{Code: wire.CodeIdentity, Final: true,
			Says: fmt.Sprintf("%s answers where %s was expected; the address is not that node's", h.ID, expect)}
	}
	if r := check(self, h, s.id, s.id != ""); r != nil {
		return nil, true, r
	}
	s.frames.SetMax(wire.MaxFrame) // a Welcome may hold all addresses
	switch f, err = s.frames.Next(); {
	case err != nil:
		return nil, false, err
	case f.Refusal != nil:
		return nil, false, f.Refusal
	case f.Welcome == nil || f.Welcome.Number != 0:
		return nil, false, errors.New("it said neither Welcome nor Refusal")
	}
	return h, false, nil
}

// meet is the handshake with a node that was dialled. The connection that it returns is complete and counts.
func (l *Link) meet(s *stream, p *peer) (*conn, error) {
	h, mine, err := greet(s, l.self(), p.id)
	if err != nil {
		if r, ok := errors.AsType[*wire.Refusal](err); ok {
			if mine {
				s.refuse(r)
			} else {
				l.refusedBy(p.id, r)
			}
		}
		return nil, err
	}
	if r := l.duplicate(h); r != nil {
		s.refuse(r)
		return nil, r
	}
	c := newConn(l, s, h, true)
	c.say(&wire.Frame{Welcome: l.welcome()}) // before anything else
	if r := l.join(c, h); r != nil {
		s.refuse(r)
		return nil, r
	}
	return c, nil
}

// receive is the handshake with a caller, and what follows.
func (l *Link) receive(g *guest) {
	_ = g.raw.SetDeadline(time.Now().Add(l.idle()))
	addr := g.raw.RemoteAddr().String()
	s, r, err := answer(g.raw, l.cfg.TLS)
	var h *wire.Hello
	if err == nil && r == nil {
		h, r, err = expectHello(s, l.self())
	}
	who := "a stranger"
	if h != nil {
		who = name(h)
		r = check(l.self(), h, s.id, l.cfg.TLS != nil)
	}
	if r == nil {
		kept := l.known(g) // a refused caller may still be dropped
		if err != nil {
			_ = g.raw.Close()
			l.dropped(g, kept, err)
			return
		}
	}
	switch {
	case r == nil && h.Caller == wire.Node:
		r = l.receiveNode(s, h)
	case r == nil && h.Caller == wire.WitnessOf:
		r = l.receiveWitness(s, h)
	case r == nil:
		r = l.receiveClient(s, h)
	}
	if r != nil {
		l.strange.log(l.log, who+r.Says, "refused", "who", who, "from", addr, "code", r.Code, "cause", r.Says)
		s.refuse(r)
	}
}

// dropped logs why a guest was dropped, unless it was dropped for others (not kept). A caller that closes before its
// Hello may have an answer from another node, or checks whether the port is open. A node that cannot connect logs
// that itself.
func (l *Link) dropped(g *guest, kept bool, err error) {
	switch gone := errors.Is(err, errSilent) || errors.Is(err, errLeft); {
	case l.ctx.Err() != nil || !kept:
	case gone:
		l.log.Debug("a connection was closed", "from", g.raw.RemoteAddr(), "cause", err)
	default:
		l.strange.log(l.log, g.ip.String()+" "+reason(err), "a connection was dropped", "from", g.raw.RemoteAddr(), "cause", err)
	}
}

// receiveNode continues with a node. It returns a refusal for it.
func (l *Link) receiveNode(s *stream, h *wire.Hello) *wire.Refusal {
	over, r := l.calls(h.ID)
	if r != nil {
		return r
	}
	defer over()
	if r := l.duplicate(h); r != nil {
		return r
	}
	s.frames.SetMax(wire.MaxFrame)
	if err := s.put(&wire.Frame{Hello: l.self()}, &wire.Frame{Welcome: l.welcome()}); err != nil {
		l.broken(s, h, err)
		return nil
	}
	f, err := s.frames.Next()
	switch {
	case err != nil:
		l.broken(s, h, err)
		return nil
	case f.Refusal != nil:
		l.refusedBy(h.ID, f.Refusal)
		l.broken(s, h, fmt.Errorf("it refuses this node (%s): %w", f.Refusal.Code, f.Refusal))
		return nil
	case f.Welcome == nil || f.Welcome.Number != 0:
		return &wire.Refusal{Code: wire.CodeFrame, Says: "want a Welcome or a Refusal"}
	}
	c := newConn(l, s, h, false)
	if r := l.join(c, h); r != nil {
		return r
	}
	over()
	l.run(c)
	return nil
}

// broken ends a handshake that has failed.
func (l *Link) broken(s *stream, h *wire.Hello, err error) {
	_ = s.raw.Close()
	if l.ctx.Err() == nil && h.Caller != wire.ClientOf { // a client has its answer, and goes
		l.strange.log(l.log, string(h.ID)+reason(err), "a handshake came to nothing", "peer", h.ID, "from", s.addr(), "cause", err)
	}
}

// receiveWitness continues with a witness. It returns a refusal for it.
func (l *Link) receiveWitness(s *stream, h *wire.Hello) *wire.Refusal {
	l.mu.Lock()
	many := l.witnesses[h.ID] >= maxWitnesses
	if !many {
		l.witnesses[h.ID]++
	}
	l.mu.Unlock()
	if many {
		return &wire.Refusal{Code: wire.CodeBusy, Says: fmt.Sprintf("%d witnesses of %s are connected already", maxWitnesses, h.ID)}
	}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.witnesses[h.ID]--; l.witnesses[h.ID] == 0 {
			delete(l.witnesses, h.ID)
		}
	}()
	if !l.greetGuest(s, h) {
		return nil
	}
	l.hear(s, h.ID)
	return nil
}

// hear reads what a witness sends until its connection ends.
func (l *Link) hear(s *stream, id protocol.NodeID) {
	entered := make(map[uint32]*Election)
	defer s.raw.Close()
	for {
		f, err := s.frames.Next()
		switch {
		case err != nil:
			return // it has sent its message, or never will
		case f.Enter != nil:
			answer := wire.Frame{Welcome: &wire.Welcome{Number: f.Enter.Number}}
			e, r := l.admitWitness(id, f.Enter)
			if r == nil && len(entered) >= MaxElections {
				r = &wire.Refusal{Code: wire.CodeBusy, Says: fmt.Sprintf("this witness has entered %d times; want fewer", MaxElections)}
			}
			if entered[f.Enter.Number] = e; r != nil {
				delete(entered, f.Enter.Number)
				l.strange.log(l.log, "the witness of "+string(id)+r.Says, "refused", "who", "the witness of "+string(id), "from", s.addr(), "code", r.Code, "cause", r.Says)
				refusal := *r
				refusal.Number = f.Enter.Number
				answer = wire.Frame{Refusal: &refusal}
			}
			if s.put(&answer) != nil {
				return
			}
		case f.Letter != nil && f.Letter.Message.Type == protocol.WitnessRelease:
			e := entered[f.Letter.Number]
			if e == nil || !e.begin() {
				continue // it was refused, and may not have read that yet
			}
			e.cfg.Receive(id, f.Letter)
			e.busy.Done()
			if s.put(&wire.Frame{Response: &wire.Response{Call: uint64(f.Letter.Number)}}) != nil { // the receipt
				return
			}
		default:
			s.refuse(&wire.Refusal{Code: wire.CodeFrame, Final: true,
				Says: "a witness says " + string(protocol.WitnessRelease) + " and nothing else"})
			return
		}
	}
}

// admitWitness asks the election that a witness enters.
func (l *Link) admitWitness(id protocol.NodeID, enter *wire.Enter) (*Election, *wire.Refusal) {
	e := l.election(enter.Election)
	if e == nil {
		return nil, l.noElection(enter.Election)
	}
	defer e.busy.Done()
	_, r := e.cfg.Admit(id, enter, wire.WitnessOf)
	return e, r
}

// welcome is this side's Welcome on a connection.
func (l *Link) welcome() *wire.Welcome { return &wire.Welcome{Program: l.cfg.Hello.Program} }

// greetGuest admits a witness or a client to the connection. It returns false if the caller is gone.
func (l *Link) greetGuest(s *stream, h *wire.Hello) bool {
	if err := s.put(&wire.Frame{Hello: l.self()}, &wire.Frame{Welcome: l.welcome()}); err != nil {
		l.broken(s, h, err)
		return false
	}
	_ = s.raw.SetDeadline(time.Time{})
	return true
}
