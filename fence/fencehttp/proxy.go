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
	"time"

	"github.com/electd/elect/fence"
)

// NewProxy returns a handler that guards an upstream which knows nothing of fencing: a
// reverse proxy that forwards what the guard admits. The mark is raised durably before the
// first request of a token is forwarded. The upstream is a URL of http, of https, or of
// h2c, which is HTTP/2 without TLS; its path is put before that of requests. Streams,
// trailers and WebSockets (not to h2c) pass. The upstream sees the header [Header], and
// X-Forwarded-For, -Host and -Proto.
//
// A nil transport is that of [NewTransport]. Another one must not follow HTTP_PROXY or
// decompress. What is cut ([fence.GuardConfig.Drain]) gets 502 and the result ended if
// no response had begun, and else a broken connection. An upstream that fails is 502.
// After both the outcome is not known.
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
		cfg.Linger = 30 * time.Second
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
		},
		Transport:    transport,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { badGateway(w, r, err, cfg.Logger) },
		ErrorLog:     slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelWarn),
	}
	return NewHandler(guard, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 {
			// The server would else swallow what is left of the body when an upstream
			// begins to answer before it has read all of it.
			_ = http.NewResponseController(w).EnableFullDuplex()
		}
		proxy.ServeHTTP(w, r)
	}), cfg), nil
}

// ParseUpstream reads the URL of an upstream, as [NewProxy] wants it.
func ParseUpstream(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("fencehttp: the upstream is no URL; want one such as http://127.0.0.1:9000") // it may have a password
	}
	_, err = checkUpstream(u)
	return u, err
}

// checkUpstream returns where requests go.
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

// NewTransport returns what NewProxy makes for an upstream of http, https or h2c, for those
// who want to change something of it: certificates, timeouts.
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

// badGateway says that nothing is known.
func badGateway(w http.ResponseWriter, r *http.Request, err error, log *slog.Logger) {
	a := answer{Error: "the upstream has not answered: " + fence.ErrUnknownOutcome.Error()}
	cause := context.Cause(r.Context())
	if stale, ok := errors.AsType[*fence.StaleError](cause); ok {
		a = answer{Result: fence.Ended, Shown: stale.Shown, Highest: stale.Highest, Error: "cut, for a greater token came: " + fence.ErrUnknownOutcome.Error()}
	}
	log.Warn("a request failed", "method", r.Method, "path", r.URL.Path, "cause", cause, "error", err)
	a.write(w, http.StatusBadGateway)
}

// trailing is the body of a request whose trailers go along.
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
