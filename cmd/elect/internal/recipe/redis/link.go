package redis

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// conn is one connection to a server or an elector. It is never made again by itself. It belongs to one goroutine.
type conn struct {
	net.Conn
	r *bufio.Reader
}

// do sends requests at once, and returns their replies; errors of the server are among these. Any error of its own is
// that of the connection, which is of no use any more.
func (c *conn) do(limit time.Duration, requests ...[]string) ([]any, error) {
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	var b []byte
	for _, args := range requests {
		b = appendRequest(b, args...)
	}
	if _, err := c.Write(b); err != nil {
		return nil, err
	}
	var replies []any
	for range requests {
		v, err := readReply(c.r, 0)
		if err != nil {
			return nil, err
		}
		replies = append(replies, v)
	}
	return replies, nil
}

// one is do for one request, with the server's error as an error.
func (c *conn) one(limit time.Duration, args ...string) (any, error) {
	replies, err := c.do(limit, args)
	if err != nil {
		return nil, err
	}
	if e, failed := replies[0].(replyError); failed {
		return nil, e
	}
	return replies[0], nil
}

// idle waits until a time, and returns an error at once when the connection ends.
func (c *conn) idle(until time.Time) error {
	if err := c.SetReadDeadline(until); err != nil {
		return err
	}
	_, err := c.r.Peek(1)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	if err == nil {
		return fmt.Errorf("%w: a reply to no request", errProtocol)
	}
	return err
}

// dialer makes connections to servers.
type dialer struct {
	dial           func(ctx context.Context, address string) (net.Conn, error) // nil is TCP
	tls            *tls.Config
	user, password string
}

// open connects, and gives the connection a name that CLIENT LIST shows.
func (d *dialer) open(ctx context.Context, address, name string, limit time.Duration) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dial := d.dial
	if dial == nil {
		tcp := net.Dialer{KeepAlive: 10 * time.Second}
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return tcp.DialContext(ctx, "tcp", address)
		}
	}
	raw, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	if d.tls != nil {
		cfg := d.tls.Clone()
		cfg.ServerName, _, _ = net.SplitHostPort(address)
		t := tls.Client(raw, cfg)
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		raw = t
	}
	c := &conn{raw, bufio.NewReader(raw)}
	var requests [][]string
	if d.password != "" {
		auth := []string{"AUTH", d.password}
		if d.user != "" {
			auth = []string{"AUTH", d.user, d.password}
		}
		requests = append(requests, auth)
	}
	requests = append(requests, []string{"CLIENT", "SETNAME", name})
	replies, err := c.do(limit, requests...)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	// A server that loads its data knows no names yet, and it is enough that it says so.
	if e, failed := replies[0].(replyError); failed && len(replies) > 1 {
		return nil, errors.Join(fmt.Errorf("the server does not know the user: %w", e), c.Close())
	}
	return c, nil
}

// refused reports whether nobody listens at an address whose machine answers.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// tlsOf shows a certificate, if there is one, and believes those that ca signs, or as a client without ca those that the
// system believes.
func tlsOf(ca, cert, key string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: there is no certificate in it; want some, in PEM", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
