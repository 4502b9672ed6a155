package runner

import (
	"container/list"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

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
	Group       *electhttp.Group   // instead of Handler, for the server of an agent
	Groups      *Groups            // their metrics, beside Metrics
}

// handler is what it serves.
func (s *HTTP) handler() interface {
	http.Handler
	Close()
} {
	if s.Group != nil {
		return s.Group
	}
	return s.Handler
}

// Limits of the server.
const (
	maxConnections = 1280
	maxHeader      = 16 << 10
	headerTime     = 5 * time.Second
	readTime       = 10 * time.Second
	idleTime       = time.Minute
)

// HTTPLimits returns how many connections the server has at most, and how many of them may watch. The election keeps
// at least three quarters of the file descriptors of this process, and probes a fifth of the connections.
func HTTPLimits() (connections, watchers int) {
	connections = max(min(maxConnections, descriptors()/4), 5)
	return connections, connections * 4 / 5
}

// Serve answers until close is called, which cuts all connections and waits for no client. A nil HTTP serves nothing.
func (s *HTTP) Serve(log *slog.Logger) (close func()) {
	if s == nil {
		return func() {}
	}
	most, _ := HTTPLimits()
	l := newBounded(s.Listener, most)
	server := &http.Server{
		Handler: l.serving(s.handler()), ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: readTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelInfo),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, slotKey{}, slotOf(c))
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateIdle {
				slotOf(c).rest()
			}
		},
	}
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
		s.handler().Close()
		l.cut() // TLS would take up to 5 s to say goodbye to a client that does not read
		_ = server.Close()
	}
}

// bounded is a listener with a bounded number of open connections. When there is no room for the next one, it closes
// the connection that has had no request for longest: it is idle, or its header is incomplete. If all have a request,
// Accept waits.
type bounded struct {
	net.Listener
	slots chan struct{}
	over  chan struct{} // closed by cut

	mu   sync.Mutex
	ends bool
	all  map[*slot]bool
	idle list.List // of *slot: those without a request, the longest idle first
}

func newBounded(l net.Listener, most int) *bounded {
	return &bounded{Listener: l, slots: make(chan struct{}, most), over: make(chan struct{}), all: map[*slot]bool{}}
}

// slot is a connection that frees its place when it is closed.
type slot struct {
	net.Conn
	of      *bounded
	resting *list.Element // in of.idle, or nil
}

// Accept waits for a connection, and for room.
func (b *bounded) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case b.slots <- struct{}{}:
	default:
		b.mu.Lock()
		longest := b.idle.Front()
		b.mu.Unlock()
		if longest != nil {
			_ = longest.Value.(*slot).Close()
		}
		select {
		case b.slots <- struct{}{}:
		case <-b.over:
			_ = c.Close()
			return nil, net.ErrClosed
		}
	}
	s := &slot{Conn: c, of: b}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ends {
		<-b.slots
		_ = c.Close()
		return nil, net.ErrClosed
	}
	b.all[s] = true
	s.resting = b.idle.PushBack(s)
	return s, nil
}

// slotKey is the key of a slot in the contexts of its requests.
type slotKey struct{}

// slotOf returns the slot of a connection of a server, or nil.
func slotOf(c net.Conn) *slot {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	s, _ := c.(*slot)
	return s
}

// serving marks the connections that have a request.
func (b *bounded) serving(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(slotKey{}).(*slot).work()
		h.ServeHTTP(w, r)
	})
}

func (s *slot) work() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.resting != nil {
		s.of.idle.Remove(s.resting)
		s.resting = nil
	}
}

func (s *slot) rest() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.resting == nil && s.of.all[s] {
		s.resting = s.of.idle.PushBack(s)
	}
}

// Close implements [net.Conn].
func (s *slot) Close() error {
	b := s.of
	b.mu.Lock()
	open := b.all[s]
	delete(b.all, s)
	b.mu.Unlock()
	s.work()
	err := s.Conn.Close()
	if open {
		<-b.slots
	}
	return err
}

// cut closes all connections, and makes Accept fail.
func (b *bounded) cut() {
	b.mu.Lock()
	if b.ends {
		b.mu.Unlock()
		return
	}
	b.ends = true
	close(b.over)
	all := b.all
	b.all = map[*slot]bool{}
	b.mu.Unlock()
	for s := range all {
		_ = s.Conn.Close()
		<-b.slots
	}
}

// Close implements [net.Listener].
func (b *bounded) Close() error {
	b.cut()
	return b.Listener.Close()
}
