package fencehttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect/fence"
)

// NewProxy returns a handler that guards an upstream without fencing: a reverse proxy that forwards what the guard
// admits, after the mark was raised durably. The upstream is a URL of http, https, or h2c, which is HTTP/2 without TLS;
// its path is put before that of requests. Streams, trailers and WebSockets (not to h2c) pass. The upstream sees the
// header [Header], and X-Forwarded-For, -Host and -Proto.
//
// A request is in flight until the upstream has answered it in full. If the upstream was lost before, it counts as in
// flight for a further [Config].Lost, unless no connection was made; so does a connection that has switched protocols,
// unless the upstream has ended it. A request that is cut counts for [Config].Lost from the last part that was
// forwarded after the greater token had come, and not at all if there was none. A request is sent again only if its
// method is safe.
//
// A nil transport is that of [NewTransport]. Another one must not follow HTTP_PROXY, decompress, or send requests
// again. A request that is cut ([fence.GuardConfig].Drain) is answered with 502 and the result ended if no response had
// begun; otherwise its connection is closed. If the upstream fails the answer is 502. After both the outcome is not
// known.
func NewProxy(guard *fence.Guard, upstream *url.URL, transport http.RoundTripper, cfg Config) (*Handler, error) {
	target, err := checkUpstream(upstream)
	if err != nil {
		return nil, err
	}
	if transport == nil {
		transport = NewTransport(upstream.Scheme)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Linger == 0 {
		cfg.Linger = proxyLinger
	}
	if cfg.Lost == 0 {
		cfg.Lost = cfg.Linger
		if cfg.Lost < 0 {
			cfg.Lost = proxyLinger
		}
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.SetXForwarded()
			if p.In.Trailer != nil && p.Out.Body != nil {
				// The server fills in the trailers when it has read the body.
				p.Out.Trailer = p.In.Trailer.Clone()
				p.Out.Body = &trailing{ReadCloser: p.Out.Body, from: p.In, to: p.Out}
			}
			sendOnce(p.Out)
		},
		Transport:      transport,
		BufferPool:     new(buffers),
		ModifyResponse: watchUpgrade,
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { badGateway(w.(*writer), r, err, cfg.Logger) },
		ErrorLog:       slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelWarn),
	}
	return NewHandler(guard, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := rw.(*writer) // of Handler
		if w.http1 {
			// Otherwise, when an upstream begins to answer before it has read the whole body, the server would discard the
			// rest of it.
			_ = w.control.EnableFullDuplex()
		}
		if w.pass != nil && r.ContentLength != 0 {
			w.coming = true
			r.Body = &forwarded{ReadCloser: r.Body, w: w} // of a copy of the server's request
		}
		if IsUpgrade(r) {
			r = r.WithContext(context.WithValue(r.Context(), upgradeKey{}, w))
		}
		answered := false
		defer func() {
			if !answered { // a panic: one of the two connections broke in the middle of the answer
				w.setLost(true)
			}
		}()
		proxy.ServeHTTP(rw, r)
		answered = true
	}), cfg), nil
}

// proxyLinger is the default [Config.Linger] of a proxy.
const proxyLinger = 30 * time.Second

// upgradeKey is the context key of the *writer of a request that asks for another protocol.
type upgradeKey struct{}

// watchUpgrade implements httputil.ReverseProxy.ModifyResponse.
func watchUpgrade(resp *http.Response) error {
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return nil
	}
	w, _ := resp.Request.Context().Value(upgradeKey{}).(*writer)
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if w == nil || !ok {
		return errors.New("the upstream switches protocols without a request for it")
	}
	w.setLost(true)               // until it has closed its connection
	resp.Header.Del(ResultHeader) // it bypasses the writer on its way to the client
	resp.Body = &upgraded{ReadWriteCloser: conn, w: w}
	return nil
}

// sendOnce keeps net/http from sending a request again if its connection turns out to be dead: the upstream may be
// working on the first attempt, and the answer to the second does not tell when that ends. net/http does so for
// requests without a body that have a safe method, which write nothing, or an Idempotency-Key. It compares that name
// in canonical form only, but field names are case-insensitive (RFC 9110, section 5.1).
func sendOnce(r *http.Request) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := r.Header[name]; ok {
			delete(r.Header, name)
			r.Header[strings.ToLower(name)] = values
		}
	}
}

// buffers implements httputil.BufferPool. The zero value is ready.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10 // as httputil.ReverseProxy's own

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return buffer[:]
	}
	return make([]byte, bufferSize)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) { b.pool.Put((*[bufferSize]byte)(buffer)) }

// ParseUpstream reads the URL of an upstream in the form for [NewProxy].
func ParseUpstream(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" {
		return nil, errors.New("fencehttp: the upstream is no URL; want one such as http://127.0.0.1:9000") // it may have a password
	}
	_, err = checkUpstream(u)
	return u, err
}

// checkUpstream returns the URL that requests go to.
func checkUpstream(upstream *url.URL) (*url.URL, error) {
	target := *upstream
	switch target.Scheme {
	case "http", "https":
	case "h2c":
		target.Scheme = "http"
	default:
		return nil, fmt.Errorf("fencehttp: upstream %q; want http://HOST:PORT, https://HOST:PORT or h2c://HOST:PORT", upstream.Redacted())
	}
	if target.Host == "" || target.User != nil || target.RawQuery != "" || target.Fragment != "" {
		return nil, fmt.Errorf("fencehttp: upstream %q; want a host, and no user, query or fragment", upstream.Redacted())
	}
	return &target, nil
}

// NewTransport returns the default transport of [NewProxy] for an upstream of http, https or h2c, for programs that
// change a part of it.
func NewTransport(scheme string) *http.Transport {
	protocols := new(http.Protocols)
	switch scheme {
	case "h2c":
		protocols.SetUnencryptedHTTP2(true)
	case "https":
		protocols.SetHTTP2(true)
		fallthrough
	default:
		protocols.SetHTTP1(true)
	}
	return &http.Transport{
		Protocols:           protocols,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
	}
}

// badGateway answers that the outcome is not known.
func badGateway(w *writer, r *http.Request, err error, log *slog.Logger) {
	w.disown() // headers that came from the upstream
	w.own = true
	if w.http1 && w.isComing() {
		// The transport may still be reading the body, which would conflict with the server.
		w.Header().Set("Connection", "close")
	}
	if !isDial(err) {
		w.setLost(true)
	}
	a := answer{Error: "the upstream has not answered: " + fence.ErrUnknownOutcome.Error()}
	cause := context.Cause(r.Context())
	if stale, ok := errors.AsType[*fence.StaleError](cause); ok {
		a = answer{Result: fence.Ended, Shown: stale.Shown, Highest: stale.Highest, Error: "cut, for a greater token came: " + fence.ErrUnknownOutcome.Error()}
	}
	if cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	log.Warn("a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	a.write(w, http.StatusBadGateway)
}

// forwarded is the body of a request on its way to the upstream.
type forwarded struct {
	io.ReadCloser
	w *writer
}

// Read implements io.Reader.
func (f *forwarded) Read(b []byte) (int, error) {
	n, err := f.ReadCloser.Read(b)
	if n > 0 || err == io.EOF {
		f.w.piece(err == nil)
	}
	return n, err
}

// trailing is the body of a request whose trailers are forwarded.
type trailing struct {
	io.ReadCloser
	from, to *http.Request
}

// Read implements io.Reader.
func (t *trailing) Read(b []byte) (int, error) {
	n, err := t.ReadCloser.Read(b)
	if err == io.EOF {
		maps.Copy(t.to.Trailer, t.from.Trailer)
	}
	return n, err
}
