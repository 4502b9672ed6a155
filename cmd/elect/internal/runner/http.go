package runner

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/electprom"
)

// HTTP is the server of elect run --http. It answers in goroutines of its own, and the election waits for none of them.
type HTTP struct {
	Listener    net.Listener
	Shown       string // its URL, for people
	Certificate *tls.Certificate
	Handler     *electhttp.Handler
	Metrics     *electprom.Metrics // what Handler serves at /metrics
}

// attach makes the handler and the metrics observe the election. close ends that of the metrics; the handler ends with
// the server. A nil HTTP observes nothing.
func (s *HTTP) attach(e *elect.Election) (close func(), err error) {
	if s == nil {
		return func() {}, nil
	}
	if err := s.Handler.Attach(e); err != nil {
		return nil, err
	}
	s.Metrics.Attach(e)
	return s.Metrics.Close, nil
}

// onEvent tells both of them of an event.
func (s *HTTP) onEvent(e elect.Event) {
	if s != nil {
		s.Handler.OnEvent(e)
		s.Metrics.OnEvent(e)
	}
}

// Limits of the server. Watchers are fewer than the connections, so that probes find one.
const (
	maxConnections = 1280
	maxHeader      = 16 << 10
	headerTime     = 5 * time.Second
	readTime       = 10 * time.Second
	idleTime       = time.Minute
)

// serve answers until close is called, which cuts all connections and waits for no client. A nil HTTP serves nothing.
func (s *HTTP) serve(log *slog.Logger) (close func()) {
	if s == nil {
		return func() {}
	}
	server := &http.Server{
		Handler: s.Handler, ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: readTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelInfo),
	}
	l := net.Listener(&bounded{Listener: s.Listener, slots: make(chan struct{}, maxConnections), closed: make(chan struct{})})
	if s.Certificate != nil {
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*s.Certificate}, MinVersion: tls.VersionTLS12}
	}
	go func() {
		serve := server.Serve
		if s.Certificate != nil {
			serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
		}
		if err := serve(l); err != http.ErrServerClosed {
			log.Error("the HTTP server has ended", "error", err)
		}
	}()
	return func() {
		s.Handler.Close()
		_ = server.Close()
	}
}

// bounded is a listener with a bounded number of open connections.
type bounded struct {
	net.Listener
	slots  chan struct{}
	once   sync.Once
	closed chan struct{}
}

// Accept waits for a slot, and then for a connection.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.slots <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.slots
		return nil, err
	}
	return &slot{Conn: c, free: sync.OnceFunc(func() { <-b.slots })}, nil
}

// Close implements [net.Listener].
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// slot is a connection that frees its slot when it is closed.
type slot struct {
	net.Conn
	free func()
}

// Close implements [net.Conn].
func (s *slot) Close() error {
	defer s.free()
	return s.Conn.Close()
}
