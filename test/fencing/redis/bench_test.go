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

// batch is how many are measured at once.
const batch = 20

// bench is a server and a number of keys.
type bench struct {
	ctx      context.Context
	client   *redis.Client
	guard    *fenceredis.Guard
	commands []fenceredis.Command
}

func newBench(b *testing.B, keys int, settings ...string) bench {
	b.Helper()
	client := server.StartRedis(b, settings...).Client(b)
	g := installed(b, client, "bench")
	if err := g.Claim(b.Context(), 5); err != nil {
		b.Fatal(err)
	}
	var commands []fenceredis.Command
	for i := range keys {
		commands = append(commands, fenceredis.Set(g.Key(fmt.Sprint(i)), "0123456789abcdef"))
	}
	return bench{b.Context(), client, g, commands}
}

func (b bench) bare() error {
	if len(b.commands) == 1 {
		return b.client.Set(b.ctx, b.commands[0].Key, b.commands[0].Args[0], 0).Err()
	}
	_, err := b.client.Pipelined(b.ctx, func(p redis.Pipeliner) error {
		for _, c := range b.commands {
			p.Set(b.ctx, c.Key, c.Args[0], 0)
		}
		return nil
	})
	return err
}

func (b bench) guarded() error {
	_, err := b.guard.Write(b.ctx, 5, b.commands...)
	return err
}

// BenchmarkSet compares guarded SETs with bare ones. "16" are 16 keys in one round trip: a
// Write of 16 commands against a pipeline of 16. "memory" is a server that keeps nothing,
// where a guard costs most.
func BenchmarkSet(b *testing.B) {
	for _, c := range []struct {
		name     string
		settings []string
	}{{"always", nil}, {"memory", []string{"--appendonly", "no"}}} {
		for _, keys := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", c.name, keys), func(b *testing.B) {
				at := newBench(b, keys, c.settings...)
				compare.Guarded(b, batch, at.bare, at.guarded)
			})
		}
	}
}

// BenchmarkForms shows the cost of the parts of a guarded write, at a server that keeps nothing,
// and of alternatives: a script that does nothing, one that writes and does not check, the guard's
// script as a function of Redis 7, and a transaction without a script. That is of one connection
// which watches the mark: MULTI, the writes, EXEC, and in the same message WATCH and GET of the
// mark for the next one.
func BenchmarkForms(b *testing.B) {
	for _, keys := range []int{1, 16} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			at := newBench(b, keys, "--appendonly", "no")
			compare.InTurns(b, batch,
				compare.Form{Name: "bare", Do: at.bare},
				compare.Form{Name: "guarded", Do: at.guarded},
				compare.Form{Name: "empty", Do: at.script(b, "return 1")},
				compare.Form{Name: "unchecked", Do: at.script(b, `local call, keys, args, replies = redis.call, KEYS, ARGV, {}
for i = 2, #keys do
  replies[i - 1] = call(args[3 * i - 3], keys[i], args[3 * i - 2])
end
return replies`)},
				compare.Form{Name: "function", Do: at.function(b)},
				compare.Form{Name: "watched", Do: at.watched(b)},
			)
		})
	}
}

// shown is what a Write of these commands shows.
func (b bench) shown() (keys []string, args []any) {
	keys, args = []string{b.guard.Key("elect:fence")}, []any{"5"}
	for _, c := range b.commands {
		keys, args = append(keys, c.Key), append(args, len(c.Args), c.Name, c.Args[0])
	}
	return keys, args
}

func (b bench) script(t testing.TB, source string) func() error {
	t.Helper()
	sha, err := b.client.ScriptLoad(b.ctx, source).Result()
	if err != nil {
		t.Fatal(err)
	}
	return func() error {
		keys, args := b.shown()
		return b.client.EvalSha(b.ctx, sha, keys, args...).Err()
	}
}

func (b bench) function(t testing.TB) func() error {
	t.Helper()
	if err := b.client.FunctionLoad(b.ctx, `#!lua name=bench
redis.register_function('bench', function(KEYS, ARGV)
  local call = redis.call
  if call('GET', KEYS[1]) ~= ARGV[1] then
    return redis.error_reply('STALETOKEN')
  end
  local keys, args, replies = KEYS, ARGV, {}
  for i = 2, #keys do
    replies[i - 1] = call(args[3 * i - 3], keys[i], args[3 * i - 2])
  end
  return replies
end)`).Err(); err != nil {
		t.Skipf("functions need Redis 7: %v", err)
	}
	return func() error {
		keys, args := b.shown()
		return b.client.FCall(b.ctx, "bench", keys, args...).Err()
	}
}

func (b bench) watched(t testing.TB) func() error {
	t.Helper()
	conn, mark := b.client.Conn(), b.guard.Key("elect:fence")
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.Do(b.ctx, "WATCH", mark).Err(); err != nil {
		t.Fatal(err)
	}
	return func() error {
		p := conn.Pipeline()
		p.Do(b.ctx, "MULTI")
		for _, c := range b.commands {
			p.Set(b.ctx, c.Key, c.Args[0], 0)
		}
		p.Do(b.ctx, "EXEC")
		p.Do(b.ctx, "WATCH", mark)
		armed := p.Get(b.ctx, mark)
		if _, err := p.Exec(b.ctx); err != nil { // redis.Nil: the mark has changed
			return err
		}
		if armed.Val() != "5" {
			return fmt.Errorf("the mark is %s", armed.Val())
		}
		return nil
	}
}
