package marks

import (
	"context"
	"fmt"
	"net/url"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
)

// httpPlace is a guard in front of an HTTP server, such as elect fence proxy, by its URL.
type httpPlace string

func openHTTP(u *url.URL) (httpPlace, error) {
	if u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
		return "", fmt.Errorf("%w: %s; want http://HOST:PORT, or https://", ErrURL, Shown(u.String()))
	}
	return httpPlace(u.Scheme + "://" + u.Host), nil
}

func (p httpPlace) Install(context.Context, fence.Resource, []string) ([]string, error) {
	return nil, fmt.Errorf("%w: what a server guards it was told when it was started", ErrUnsupported)
}

func (p httpPlace) Uninstall(context.Context, fence.Resource, []string) error {
	return fmt.Errorf("%w: what a server guards it was told when it was started", ErrUnsupported)
}

func (p httpPlace) Status(ctx context.Context, resource fence.Resource) ([]State, error) {
	if resource == "" {
		return nil, fmt.Errorf("%w: a server does not list its resources; want the name of one", ErrURL)
	}
	highest, err := fencehttp.Highest(ctx, nil, string(p), resource)
	return []State{{Resource: resource, Highest: highest}}, err
}

func (p httpPlace) Claim(ctx context.Context, resource fence.Resource, token fence.Token) error {
	if resource == "" {
		return fmt.Errorf("%w: a server has several resources; want the name of one", ErrURL)
	}
	return fencehttp.Claim(ctx, nil, string(p), resource, token)
}

func (p httpPlace) Close() error { return nil }
