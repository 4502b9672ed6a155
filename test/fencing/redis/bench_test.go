//go:build linux

package redis_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/fence/fenceredis"
	"github.com/electd/elect/test/fencing/compare"
	"github.com/electd/elect/test/fencing/server"
)

// BenchmarkSet compares guarded SETs with bare ones of the same client at the same
// server, in batches of 20. "16" are 16 keys in one round trip: a Write of 16 commands against a
// pipeline of 16. "memory" is a server that keeps nothing, where a guard costs most.
func BenchmarkSet(b *testing.B) {
	for _, c := range []struct {
		name     string
		settings []string
	}{{"always", nil}, {"memory", []string{"--appendonly", "no"}}} {
		for _, keys := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", c.name, keys), func(b *testing.B) { sets(b, keys, c.settings) })
		}
	}
}

func sets(b *testing.B, keys int, settings []string) {
	client := server.StartRedis(b, settings...).Client(b)
	g := installed(b, client, "bench")
	ctx := context.Background()
	var commands []fenceredis.Command
	for i := range keys {
		commands = append(commands, fenceredis.Set(g.Key(fmt.Sprint(i)), "0123456789abcdef"))
	}
	guarded := func() error {
		_, err := g.Write(ctx, 5, commands...)
		return err
	}
	bare := func() error {
		if keys == 1 {
			return client.Set(ctx, commands[0].Key, commands[0].Args[0], 0).Err()
		}
		_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, c := range commands {
				p.Set(ctx, c.Key, c.Args[0], 0)
			}
			return nil
		})
		return err
	}
	compare.Guarded(b, 20, bare, guarded)
}
