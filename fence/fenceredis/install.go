package fenceredis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/fence"
)

// State is the state of a resource in Redis.
type State struct {
	// Highest is the mark, 0 before the first claim.
	Highest fence.Token

	// Warnings say how the mark could go back or be lost, as far as the server's settings tell, a sentence each. Their
	// absence is no proof that it cannot: a failover that is set up later is not known.
	Warnings []string
}

// Install makes the mark of the resource, unless it exists, and loads the scripts. It logs the warnings of [State].
func (g *Guard) Install(ctx context.Context) error {
	if err := g.client.SetNX(ctx, g.mark, "0", 0).Err(); err != nil {
		return fmt.Errorf("fenceredis: %s: %w", g.resource, err)
	}
	for _, script := range []*Script{g.single, g.several} {
		if err := g.client.ScriptLoad(ctx, script.source).Err(); err != nil {
			return fmt.Errorf("fenceredis: %s: %w", g.resource, err)
		}
	}
	s, err := g.Status(ctx)
	for _, w := range s.Warnings {
		g.cfg.Logger.Warn(w)
	}
	return err
}

// Uninstall removes the mark, and with it the memory of the resource's tokens: after another installation every token
// passes.
func (g *Guard) Uninstall(ctx context.Context) error {
	n, err := g.client.Del(ctx, g.mark).Result()
	switch {
	case err != nil:
		return fmt.Errorf("fenceredis: %s: %w", g.resource, err)
	case n == 0:
		return fmt.Errorf("%w: %s has no mark %q in Redis", fence.ErrResource, g.resource, g.mark)
	}
	return nil
}

// Status reads the mark and the settings that decide whether it lasts. A resource that is
// not installed matches fence.ErrResource.
func (g *Guard) Status(ctx context.Context) (State, error) {
	text, err := g.client.Get(ctx, g.mark).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return State{}, fmt.Errorf("%w: %s has no mark %q in Redis", fence.ErrResource, g.resource, g.mark)
	case err != nil:
		return State{}, fmt.Errorf("fenceredis: %s: %w", g.resource, err)
	}
	var s State
	if text != "0" {
		if s.Highest, err = fence.ParseToken(text); err != nil || s.Highest.String() != text {
			return State{}, fmt.Errorf("fenceredis: %s: the mark %q is %.100q, which is no token", g.resource, g.mark, text)
		}
	}
	s.Warnings = g.warnings(ctx)
	return s, nil
}

// server is one of the servers of a client.
type server interface {
	ConfigGet(ctx context.Context, parameter string) *redis.MapStringStringCmd
	Info(ctx context.Context, section ...string) *redis.StringCmd
}

func (g *Guard) warnings(ctx context.Context) (all []string) {
	var node server = g.client
	if cluster, ok := g.client.(interface {
		MasterForKey(context.Context, string) (*redis.Client, error)
	}); ok {
		all = append(all, "a failover of the cluster can make the mark go back: a replica may lack what was confirmed last")
		master, err := cluster.MasterForKey(ctx, g.mark)
		if err != nil {
			return append(all, fmt.Sprintf("the settings cannot be read: %v", err))
		}
		node = master
	}
	settings := map[string]string{}
	for _, name := range []string{"appendonly", "appendfsync", "maxmemory-policy"} {
		got, err := node.ConfigGet(ctx, name).Result()
		if err != nil {
			return append(all, fmt.Sprintf("the settings cannot be read, and must be appendonly yes and appendfsync always: %v", err))
		}
		settings[name] = got[name]
	}
	if info, err := node.Info(ctx, "replication").Result(); err != nil {
		all = append(all, fmt.Sprintf("whether there are replicas cannot be read: %v", err))
	} else if !strings.Contains(info, "role:master") || !strings.Contains(info, "connected_slaves:0\r") {
		all = append(all, "there are replicas: a failover to one can make the mark go back, for it may lack what was confirmed last")
	}
	return append(all, judge(settings)...)
}

// judge returns what is wrong with settings.
func judge(settings map[string]string) (all []string) {
	switch {
	case settings["appendonly"] != "yes":
		all = append(all, "appendonly is not yes: a restart takes the mark back to the last snapshot, or loses it")
	case settings["appendfsync"] != "always":
		all = append(all, fmt.Sprintf("appendfsync is %s: a loss of power takes back what was confirmed last; it must be always", settings["appendfsync"]))
	}
	if policy := settings["maxmemory-policy"]; strings.HasPrefix(policy, "allkeys-") {
		all = append(all, fmt.Sprintf("maxmemory-policy is %s: the mark can be evicted, and then all writes are refused; want noeviction or a volatile one", policy))
	}
	return all
}
