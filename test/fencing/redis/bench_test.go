//go:build linux

package redis_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/fence/fenceredis"
	"github.com/electd/elect/test/fencing/server"
)

// BenchmarkSet compares guarded SETs with bare ones of the same client at the same
// server, in turns, by the medians of rounds: how many guarded ones there are in the time
// of 100 bare ones. "16" are 16 keys in one round trip: a Write of 16 commands against a
// pipeline of 16. "memory" is a server that keeps nothing, where a guard costs most.
func BenchmarkSet(b *testing.B) {
	for _, c := range []struct {
		name     string
		settings []string
	}{{"always", nil}, {"memory", []string{"--appendonly", "no"}}} {
		for _, keys := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", c.name, keys), func(b *testing.B) { compare(b, keys, c.settings) })
		}
	}
}

func compare(b *testing.B, keys int, settings []string) {
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
	const round = 20
	took := func(do func() error) float64 {
		start := time.Now()
		for range round {
			if err := do(); err != nil {
				b.Fatal(err)
			}
		}
		return float64(time.Since(start).Nanoseconds()) / round
	}
	took(guarded)
	took(bare)
	var ours, theirs []float64
	for i := 0; b.Loop(); i++ {
		if i%2 == 0 {
			ours = append(ours, took(guarded))
			theirs = append(theirs, took(bare))
			continue
		}
		theirs = append(theirs, took(bare))
		ours = append(ours, took(guarded))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	one, other := ours[len(ours)/2], theirs[len(theirs)/2]
	b.ReportMetric(one/1000, "µs-guarded")
	b.ReportMetric(other/1000, "µs-bare")
	b.ReportMetric(100*other/one, "%-of-bare")
	b.ReportMetric(0, "ns/op")
}
