package marks

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
)

// httpPlace is a guard in front of an HTTP server, such as elect fence proxy, by its URL or
// its socket for claims.
type httpPlace struct {
	base   string
	client *http.Client
	secret fencehttp.Secret
}

func openHTTP(u *url.URL, cfg Config) (*httpPlace, error) {
	if u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("%w: %s; want http://HOST:PORT, or https://", ErrURL, Shown(u.String()))
	}
	if cfg.TLS != nil && u.Scheme != "https" {
		return nil, fmt.Errorf("%w: %s takes no certificate; want https://", ErrURL, Shown(u.String()))
	}
	return newHTTPPlace(u.Scheme+"://"+u.Host, cfg, nil), nil
}

// openSocket opens a guard by its Unix socket, unix:PATH.
func openSocket(u *url.URL, cfg Config) (*httpPlace, error) {
	path := u.Path
	if u.Opaque != "" {
		var err error
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			path = ""
		}
	}
	if path == "" || u.Host != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("%w: %s; want unix:PATH, such as unix:/run/elect/claims", ErrURL, Shown(u.String()))
	}
	if cfg.TLS != nil {
		return nil, fmt.Errorf("%w: a socket takes no certificate; want https://", ErrURL)
	}
	return newHTTPPlace("http://socket", cfg, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}), nil
}

// newHTTPPlace makes a place with a client of its own.
func newHTTPPlace(base string, cfg Config, dial func(ctx context.Context, network, address string) (net.Conn, error)) *httpPlace {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = cfg.TLS
	if cfg.TLS == nil {
		t.TLSClientConfig = new(tls.Config)
	}
	if dial != nil {
		t.DialContext, t.Proxy = dial, nil
	}
	return &httpPlace{base: base, client: &http.Client{Transport: t}, secret: cfg.Secret}
}

func (p *httpPlace) Install(context.Context, fence.Resource, []string) ([]string, error) {
	return nil, fmt.Errorf("%w: a server is told at its start what it guards", ErrUnsupported)
}

func (p *httpPlace) Uninstall(context.Context, fence.Resource, []string) error {
	return fmt.Errorf("%w: a server is told at its start what it guards", ErrUnsupported)
}

func (p *httpPlace) Status(ctx context.Context, resource fence.Resource) ([]State, error) {
	if resource == "" {
		return nil, fmt.Errorf("%w: a server does not list its resources; want the name of one", ErrURL)
	}
	c, err := fencehttp.NewClient(p.base, resource, fencehttp.ClientConfig{HTTP: p.client})
	if err != nil {
		return nil, err
	}
	highest, err := c.Highest(ctx)
	return []State{{Resource: resource, Highest: highest}}, err
}

func (p *httpPlace) Claim(ctx context.Context, resource fence.Resource, token fence.Token) error {
	if resource == "" {
		return fmt.Errorf("%w: a server has several resources; want the name of one", ErrURL)
	}
	c, err := fencehttp.NewClient(p.base, resource, fencehttp.ClientConfig{HTTP: p.client, Secret: p.secret})
	if err != nil {
		return err
	}
	return c.Claim(ctx, token)
}

func (p *httpPlace) Close() error {
	p.client.CloseIdleConnections()
	return nil
}
