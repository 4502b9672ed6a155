package link

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/wire"
)

// stream is a connection from which frames are read and to which they are written, with the identity of the other end
// as far as TLS knows it.
type stream struct {
	net.Conn          // TLS, or the same as out
	out      *outlet  // beneath TLS
	raw      net.Conn // TCP
	frames   *wire.Reader
	version  uint64 // of this side's identity when the handshake began
	id       string // of the certificate: a node's or an operator's, see certs.RoleOf; "" without TLS
}

// newStream returns a connection that has no TLS yet.
func newStream(raw net.Conn) *stream {
	o := newOutlet(raw)
	return &stream{Conn: o, out: o, raw: raw, frames: wire.NewReader(o, wire.MaxHello)}
}

// over returns the same connection with TLS.
func (s *stream) over(c *tls.Conn) *stream {
	return &stream{Conn: c, out: s.out, raw: s.raw, frames: wire.NewReader(c, wire.MaxHello), version: s.version}
}

// shown is what TLS knows of the connection; secure is false without TLS.
func (s *stream) shown() (state tls.ConnectionState, secure bool) {
	c, secure := s.Conn.(*tls.Conn)
	if secure {
		state = c.ConnectionState()
	}
	return state, secure
}

// answer makes an accepted connection secure. It returns a refusal for the caller.
func answer(raw net.Conn, identity *certs.Identity) (*stream, *wire.Refusal, error) {
	plain := newStream(raw)
	if identity == nil {
		return plain, nil, nil
	}
	config := identity.Server()
	config.VerifyConnection = nil // done below, so that the caller can be told
	plain.version = identity.Version()
	c := tls.Server(plain.out, config)
	if err := c.Handshake(); err != nil {
		if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
			// A caller that speaks plain text is told so in plain text.
			return plain, &wire.Refusal{Code: wire.CodeCertificate, Final: true,
				Says: "it calls without TLS; this node wants TLS 1.3 with a certificate of cluster " + identity.Cluster}, nil
		}
		if plain.out.heard && endedThere(err) {
			err = errLeft
		}
		return nil, nil, explain(plain.ended(err), identity)
	}
	s := plain.over(c)
	id, err := identity.Caller(c.ConnectionState())
	if err != nil {
		return s, &wire.Refusal{Code: wire.CodeCertificate, Says: err.Error(), Final: !errors.Is(err, certs.ErrExpired)}, nil
	}
	s.id = id
	return s, nil, nil
}

// call makes a dialled connection secure, with the expected node ("" is any).
func call(raw net.Conn, identity *certs.Identity, expect protocol.NodeID) (*stream, error) {
	plain := newStream(raw)
	if identity == nil {
		return plain, nil
	}
	plain.version = identity.Version()
	c := tls.Client(plain.out, identity.Client(string(expect)))
	if err := c.Handshake(); err != nil {
		if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
			return nil, errors.New("it does not answer with TLS: it speaks plain text (insecure=true, or an older version); want that at both sides or at none")
		}
		return nil, explain(err, identity)
	}
	s := plain.over(c)
	_, id, err := certs.PeerOf(c.ConnectionState())
	s.id = id
	return s, err
}

// errSilent means that a caller closed before it sent anything, as a check for an open port does.
var errSilent = errors.New("it was closed before it said anything")

// errLeft means that a caller closed before the handshake was complete, without an alert.
var errLeft = errors.New("it was closed in the middle of the handshake")

// ended is err, or errSilent if nothing was ever read.
func (s *stream) ended(err error) error {
	if !s.out.heard && endedThere(err) {
		return errSilent
	}
	return err
}

// explain replaces an error of TLS by one in plain words.
func explain(err error, identity *certs.Identity) error {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" {
		return fmt.Errorf("the other side does not accept this node's certificate, which is for %s (%w)", identity, err)
	}
	return err
}

// put writes frames directly.
func (s *stream) put(frames ...*wire.Frame) error {
	var buf []byte
	for _, f := range frames {
		var err error
		if buf, err = wire.Append(buf, f); err != nil {
			return err
		}
	}
	_, err := s.Write(buf)
	return err
}

// refuse sends a refusal and closes, so that the other side can still read it: closing with unread data would send a
// reset after it.
func (s *stream) refuse(r *wire.Refusal) {
	_ = s.raw.SetDeadline(time.Now().Add(flushTime))
	if s.put(&wire.Frame{Refusal: r}) == nil {
		s.closeWrite()
		_, _ = io.CopyN(io.Discard, s.raw, wire.MaxHello)
	}
	_ = s.raw.Close()
}

// closeWrite signals that nothing more comes.
func (s *stream) closeWrite() {
	if c, ok := s.Conn.(*tls.Conn); ok {
		_ = c.CloseWrite()
	}
	_ = s.out.drain()
	if c, ok := s.raw.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	} else {
		_ = s.raw.Close()
	}
}

// addr is the address of the other side.
func (s *stream) addr() string { return s.raw.RemoteAddr().String() }

// endedThere reports whether an error of reading or writing means that the other side closed or reset the connection.
func endedThere(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err)
}

// reason is the text of an error that stays the same when the error repeats: those of package net contain a port that
// changes.
func reason(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Err != nil {
		text = strings.Replace(text, e.Error(), e.Op+": "+e.Err.Error(), 1)
	}
	return text
}

// isTimeout reports whether nothing came through for too long.
func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT)
}
