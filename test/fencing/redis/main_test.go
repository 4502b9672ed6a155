//go:build linux

package redis_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fenceredis"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/zombie"
)

func TestMain(m *testing.M) {
	zombie.Main(m, map[string]zombie.Opener{
		"guarded":  opener(guarded),
		"get-set":  opener(getThenSet),
		"no-watch": opener(transactionWithoutWatch),
		"bare":     opener(bare),
	})
}

// register is a resource whose value is one key.
type register struct {
	client *redis.Client
	guard  *fenceredis.Guard
	write  func(context.Context, *register, fence.Token, int64) error
}

const resource = "zombie"

func opener(write func(context.Context, *register, fence.Token, int64) error) zombie.Opener {
	return func(_ context.Context, where string, steps *zombie.Steps) (zombie.Resource, error) {
		client := redis.NewClient(&redis.Options{Addr: where, Dialer: steps.Dial, PoolSize: 1, DisableIdentity: true, Protocol: 2})
		guard, err := fenceredis.New(client, resource, fenceredis.Config{})
		return &register{client, guard, write}, err
	}
}

func (r *register) Claim(ctx context.Context, token fence.Token) error {
	return r.guard.Claim(ctx, token)
}

func (r *register) Read(ctx context.Context) (int64, error) { return read(ctx, r.client, r.guard) }

func read(ctx context.Context, client *redis.Client, guard *fenceredis.Guard) (int64, error) {
	n, err := client.Get(ctx, guard.Key("value")).Int64()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return n, err
}

func (r *register) Write(ctx context.Context, token fence.Token, value int64) error {
	return r.write(ctx, r, token, value)
}

func (r *register) Close() error { return r.client.Close() }

func guarded(ctx context.Context, r *register, token fence.Token, value int64) error {
	_, err := r.guard.Write(ctx, token, fenceredis.Set(r.guard.Key("value"), value))
	return err
}

// look reads the mark beforehand.
func look(ctx context.Context, r *register, token fence.Token) error {
	text, err := r.client.Get(ctx, r.guard.Key("elect:fence")).Result()
	if err != nil {
		return err
	}
	mark, err := strconv.ParseUint(text, 10, 63)
	if err == nil && token < fence.Token(mark) {
		return &fence.StaleError{Shown: token, Highest: fence.Token(mark)}
	}
	return err
}

// getThenSet is unsafe: a claim comes between the two.
func getThenSet(ctx context.Context, r *register, token fence.Token, value int64) error {
	if err := look(ctx, r, token); err != nil {
		return err
	}
	return bare(ctx, r, token, value)
}

// transactionWithoutWatch is as unsafe: MULTI keeps the writes together, but not the read with
// them.
func transactionWithoutWatch(ctx context.Context, r *register, token fence.Token, value int64) error {
	if err := look(ctx, r, token); err != nil {
		return err
	}
	_, err := r.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, r.guard.Key("elect:fence"), token.String(), 0)
		p.Set(ctx, r.guard.Key("value"), value, 0)
		return nil
	})
	return err
}

func bare(ctx context.Context, r *register, _ fence.Token, value int64) error {
	return r.client.Set(ctx, r.guard.Key("value"), value, 0).Err()
}

func stage(t *testing.T, name string) zombie.Config {
	t.Helper()
	r := server.StartRedis(t)
	client := r.Client(t)
	guard := installed(t, client, resource)
	return zombie.Config{Opener: name, Where: r.Addr, Read: func(ctx context.Context) (int64, error) { return read(ctx, client, guard) }}
}

func installed(t testing.TB, client *redis.Client, name fence.Resource) *fenceredis.Guard {
	t.Helper()
	guard, err := fenceredis.New(client, name, fenceredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Install(context.Background()); err != nil {
		t.Fatal(err)
	}
	return guard
}

// TestZombie: a leader that is frozen before any step of its claim and its write changes
// nothing afterwards.
func TestZombie(t *testing.T) {
	long.Test(t, "it starts a real server and freezes processes")
	t.Parallel()
	if r := zombie.Prove(t, stage(t, "guarded")); r.Waited > 0 {
		t.Errorf("the newer leader waited in %d plays; nothing holds a lock", r.Waited)
	}
}

// TestUnsafe: to read first and write afterwards is no fencing, not even in a transaction.
func TestUnsafe(t *testing.T) {
	long.Test(t, "it starts a real server and freezes processes")
	t.Parallel()
	for _, name := range []string{"get-set", "no-watch", "bare"} {
		t.Run(name, func(t *testing.T) {
			zombie.Disprove(t, stage(t, name))
		})
	}
}
