package fencehttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/electd/elect/fence"
)

// Transport shows the token of each request's context ([fence.NewContext]) for one resource, and translates a guard's
// refusals into errors: a *[fence.StaleError], or one that matches [fence.ErrMissing], [fence.ErrToken],
// [fence.ErrResource], [fence.ErrUnclaimed] or [fence.ErrBusy]. After these nothing was applied. An error of the
// connection, and that of a request that was cut, matches [fence.ErrUnknownOutcome], unless no connection was made. All
// other answers are ordinary responses, including a 412 that is not a guard's, and a 502 of a proxy, after which the
// outcome is not known.
//
// A request with a body is sent once. Without a body, net/http sends it again if a kept connection is dead and its
// method is safe (RFC 9110, 9.2.1) or it has an Idempotency-Key. The first attempt may have been applied then, so a
// refusal or an error of a later one also matches [fence.ErrUnknownOutcome].
//
// A request without a token in its context is sent unchanged.
type Transport struct {
	Resource fence.Resource

	// Base sends the requests. One that is no *http.Transport, and calls none, must send a request once: attempts are
	// counted by their [httptrace.ClientTrace]. nil: http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	// How many times the headers were written: an attempt that ended before that has sent nothing.
	var sent atomic.Int32
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Add(1) }}
	shown := fence.Shown{Resource: t.Resource}
	if token, ok := fence.FromContext(r.Context()); ok {
		if err := fence.CheckShown(t.Resource, token); err != nil {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
		}
		shown.Token = token
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), trace)) // a copy, with the trailers of the original
		r.Header = r.Header.Clone()
		if r.Header == nil {
			r.Header = http.Header{}
		}
		SetHeader(r.Header, shown)
		r.GetBody = nil // send it once
	} else {
		if own, err := FromHeader(r.Header); err == nil {
			shown = own
		}
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), trace))
	}
	resp, err := base.RoundTrip(r)
	if err != nil {
		if isDial(err) && sent.Load() == 0 {
			return nil, err
		}
		if fence.ResultOf(err) != fence.Failed {
			// net/http returns the cause of the end of the context. For the work of another guard that is a refusal, but not
			// of this request.
			err = errors.Join(r.Context().Err(), opaque{err})
		}
		return nil, &unknown{err}
	}
	if err := readAnswer(resp, r.URL.Host, shown); err != nil {
		_ = resp.Body.Close()
		if sent.Load() > 1 {
			return nil, &unknown{fmt.Errorf("sent %d times, and the last: %w", sent.Load(), opaque{err})}
		}
		return nil, err
	}
	return resp, nil
}

// isDial reports whether no connection was made.
func isDial(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}

// opaque keeps the text of an error and breaks the chain.
type opaque struct{ err error }

func (o opaque) Error() string { return o.err.Error() }

// unknown is an error with an unknown outcome.
type unknown struct{ err error }

func (u *unknown) Error() string   { return fence.ErrUnknownOutcome.Error() + ": " + u.err.Error() }
func (u *unknown) Unwrap() []error { return []error{fence.ErrUnknownOutcome, u.err} }

// Timeout is for the http.Client, which calls it.
func (u *unknown) Timeout() bool {
	t, ok := u.err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

// ClientConfig configures a [Client]. The zero value is valid.
type ClientConfig struct {
	// HTTP sends the requests. If it has a [Transport], its Base is used. nil: http.DefaultClient.
	HTTP *http.Client

	// Secret is shown with claims, in [ClaimHeader]. Without one the guard must know the leader by a certificate or a
	// Unix socket.
	Secret Secret
}

// Client is a leader's side of a [Handler], for one resource. It is safe for concurrent use and need not be closed.
type Client struct {
	base     url.URL
	resource fence.Resource
	secret   Secret
	writes   http.Client // follows redirects as that of the configuration does
	asks     http.Client // follows none
}

// NewClient returns the client of a server with a URL such as "http://orders:8080", whose path it ignores. It makes no
// request.
func NewClient(base string, resource fence.Resource, cfg ClientConfig) (*Client, error) {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return nil, err
	}
	at, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	if at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return nil, fmt.Errorf("fencehttp: %q; want http://HOST:PORT or https://HOST:PORT", strings.TrimSpace(at.Redacted()))
	}
	c := &Client{base: url.URL{Scheme: at.Scheme, Host: at.Host, User: at.User}, resource: resource, secret: cfg.Secret}
	if cfg.HTTP != nil {
		c.writes = *cfg.HTTP
	}
	plain := c.writes.Transport
	if t, ok := plain.(*Transport); ok {
		plain = t.Base
	}
	c.writes.Transport = &Transport{Resource: resource, Base: plain}
	c.asks = c.writes
	c.asks.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// Claim raises the mark and returns when no work of a smaller token is left. A new leader calls it before it reads
// anything. Errors are those of [Transport]; an answer that is not a guard's is an error too. After [fence.ErrBusy],
// [fence.ErrUnknownOutcome] and a failure of the mark, which matches it, the leader should claim again.
func (c *Client) Claim(ctx context.Context, token fence.Token) error {
	if err := fence.CheckShown(c.resource, token); err != nil {
		return err
	}
	resp, err := c.ask(fence.NewContext(ctx, token), http.MethodPost, ClaimPath, "", c.secret)
	if errors.Is(err, errFailed) {
		return &unknown{err} // the mark may have been raised
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	shown, err := FromHeader(resp.Header)
	if resp.StatusCode != http.StatusNoContent || err != nil || shown != (fence.Shown{Resource: c.resource, Token: token}) {
		return fmt.Errorf("%w: %s answers a claim with %s; is %s guarded there?", fence.ErrUnknownOutcome, resp.Request.URL.Host, resp.Status, c.resource)
	}
	return nil
}

// Highest returns the mark, 0 if it was never claimed.
func (c *Client) Highest(ctx context.Context) (fence.Token, error) {
	resp, err := c.ask(ctx, http.MethodGet, StatusPath, "resource="+url.QueryEscape(string(c.resource)), Secret{})
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var a answer
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&a); err != nil || resp.StatusCode != http.StatusOK || a.Resource != c.resource {
		return 0, fmt.Errorf("fencehttp: %s answers with %s; is %s guarded there?", resp.Request.URL.Host, resp.Status, c.resource)
	}
	return a.Highest, nil
}

// Write sends a request with the token, under ctx. Errors are those of [Transport].
func (c *Client) Write(ctx context.Context, token fence.Token, r *http.Request) (*http.Response, error) {
	if err := fence.CheckShown(c.resource, token); err != nil {
		return nil, err
	}
	return c.writes.Do(r.WithContext(fence.NewContext(ctx, token)))
}

// ask sends a request to one of the guard's own paths.
func (c *Client) ask(ctx context.Context, method, path, query string, secret Secret) (*http.Response, error) {
	at := c.base
	at.Path, at.RawQuery = path, query
	r, err := http.NewRequestWithContext(ctx, method, at.String(), nil)
	if err != nil {
		return nil, err
	}
	if !secret.IsZero() {
		r.Header.Set(ClaimHeader, secret.text)
	}
	return c.asks.Do(r)
}
