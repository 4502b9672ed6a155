package marks

import (
	"context"
	"fmt"
	"net/url"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fenceredis"
)

// redisPlace is a server of Redis.
type redisPlace struct{ client *redis.Client }

func openRedis(u *url.URL) (*redisPlace, error) {
	options, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %s: want redis://USER@HOST:PORT/DB", ErrURL, Shown(u.String()))
	}
	options.MaxRetries, options.DialerRetries = -1, 1
	return &redisPlace{redis.NewClient(options)}, nil
}

// QuietRedis keeps go-redis from writing to stderr in this process: its lines are in the errors too.
func QuietRedis() { redis.SetLogger(silence{}) }

// silence is a logger of go-redis.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func (p *redisPlace) guard(resource fence.Resource, tables []string) (*fenceredis.Guard, error) {
	switch {
	case resource == "":
		return nil, fmt.Errorf("%w: Redis does not list its resources; want the name of one", ErrURL)
	case len(tables) > 0:
		return nil, fmt.Errorf("%w: Redis has no tables", ErrUnsupported)
	}
	return fenceredis.New(p.client, resource, fenceredis.Config{})
}

func (p *redisPlace) Install(ctx context.Context, resource fence.Resource, tables []string) ([]string, error) {
	g, err := p.guard(resource, tables)
	if err != nil {
		return nil, err
	}
	if err := g.Install(ctx); err != nil {
		return nil, err
	}
	s, err := g.Status(ctx)
	return s.Warnings, err
}

func (p *redisPlace) Uninstall(ctx context.Context, resource fence.Resource, tables []string) error {
	g, err := p.guard(resource, tables)
	if err != nil {
		return err
	}
	return g.Uninstall(ctx)
}

func (p *redisPlace) Status(ctx context.Context, resource fence.Resource) ([]State, error) {
	g, err := p.guard(resource, nil)
	if err != nil {
		return nil, err
	}
	s, err := g.Status(ctx)
	if err != nil {
		return nil, err
	}
	return []State{{Resource: resource, Highest: s.Highest, Warnings: s.Warnings}}, nil
}

func (p *redisPlace) Claim(ctx context.Context, resource fence.Resource, token fence.Token) error {
	g, err := p.guard(resource, nil)
	if err != nil {
		return err
	}
	return g.Claim(ctx, token)
}

func (p *redisPlace) Close() error { return p.client.Close() }
