package consul

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/secure"
)

// client makes the requests of all elections that share an agent.
type client struct {
	scheme, host string
	http         *http.Client
	token        token
	basic        *url.Userinfo // for a proxy before the agent, or nil
	watches      chan struct{} // has room for mostWatches
}

// mostWatches is how many blocking queries a client has at a time: each keeps a connection, and an agent allows an
// address 200 by default (http_max_conns_per_client). Further elections only poll.
const mostWatches = 32

// client returns one for an agent of which the program takes care.
func (a Agent) client() (*client, error) {
	if a.Address == "" {
		a.Address = "http://127.0.0.1:8500"
	}
	u, err := url.Parse(a.Address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return nil, errors.New("Agent.Address; want http://HOST:PORT or https://HOST:PORT, without user, path and parameters")
	}
	own := http.Client{Transport: http.DefaultTransport}
	if a.HTTP != nil {
		own = *a.HTTP
	}
	return newClient(u.Scheme, u.Host, &own, "", a.Token), nil
}

func newClient(scheme, host string, c *http.Client, tokenFile, tokenText string) *client {
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // it would get the token
	return &client{scheme: scheme, host: host, http: c, token: token{file: tokenFile, text: tokenText}, watches: make(chan struct{}, mostWatches)}
}

// token is an ACL token, which may be in a file that other programs write anew.
type token struct {
	file string // "": it stays
	mu   sync.Mutex
	text string
}

func (t *token) get() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text
}

// read reads the file, if there is one.
func (t *token) read() error {
	if t.file == "" {
		return nil
	}
	text, err := os.ReadFile(t.file)
	if err != nil {
		return err
	}
	one := strings.TrimSpace(string(text))
	if err := checkToken(one); err != nil {
		return fmt.Errorf("%s has %w", t.file, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = one
	return nil
}

// checkToken refuses what cannot be a header.
func checkToken(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("no token; want one line with a token, such as its SecretID")
	}
	return nil
}

// answer is what a request was answered with.
type answer struct {
	status int
	index  string // X-Consul-Index: only Consul sets it
	body   []byte
}

// maxAnswer is far beyond any answer that is asked for, except for a value that is not elect's, of at most 512 KiB by
// Consul's default, as base64.
const maxAnswer = 1 << 20

// do makes a request, and returns an error if the answer's status is none of those. A program that proxies may have
// sent any answer. The outcome of a request with an error is not known.
func (c *client) do(ctx context.Context, method, path string, query url.Values, body any, want ...int) (a answer, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return a, err
		}
	}
	u := url.URL{Scheme: c.scheme, Host: c.host, Path: "/v1/" + path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(text))
	if err != nil {
		return a, err
	}
	if t := c.token.get(); t != "" {
		req.Header.Set("X-Consul-Token", t)
	}
	if c.basic != nil {
		password, _ := c.basic.Password()
		req.SetBasicAuth(c.basic.Username(), password)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // the URL says nothing that the user does not know
		}
		return a, explained(err)
	}
	defer resp.Body.Close()
	a.status, a.index = resp.StatusCode, resp.Header.Get("X-Consul-Index")
	if a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return a, err
	}
	if slices.Contains(want, a.status) {
		return a, nil
	}
	return a, c.refusal(a)
}

// status is the error for an answer that was not wanted.
type status struct {
	code int
	says string
}

func (s *status) Error() string { return fmt.Sprintf("Consul answers %d: %s", s.code, s.says) }

// refusal is the error of an answer that says what is wrong.
func (c *client) refusal(a answer) error {
	says := strings.Join(strings.Fields(string(a.body)), " ")
	err := &status{a.status, fmt.Sprintf("%.300s", says)}
	switch {
	case says == "":
		err.says = http.StatusText(a.status)
	case strings.Contains(says, "HTTP request to an HTTPS server"):
		return driver.Permanent(fmt.Errorf("%w; want tls=on, or CONSUL_HTTP_SSL=true", err))
	}
	switch a.status {
	case http.StatusForbidden:
		_ = c.token.read() // the next request has a new one; if the file cannot be read, the old one may become valid
	case http.StatusBadRequest: // a name space in the free edition, a key that it does not allow
		return driver.Permanent(err)
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return fmt.Errorf("%w; want the address of an agent of Consul", err)
	}
	return err
}

// isDenied reports whether an error says that the token lacks a right, or that there is no such token.
func isDenied(err error) bool {
	s, ok := errors.AsType[*status](err)
	return ok && s.code == http.StatusForbidden
}

// explained adds to the error of a connection what would be right, and makes it permanent if only another URL mends it.
func explained(err error) error {
	want, lasting := secure.Remedy(err)
	switch {
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		want, lasting = "tls=off, or CONSUL_HTTP_ADDR without https, if the agent has no TLS", true
	case want == "":
		return err
	}
	if err = fmt.Errorf("%w; want %s", err, want); lasting {
		err = driver.Permanent(err)
	}
	return err
}
