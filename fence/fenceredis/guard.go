package fenceredis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/fence"
)

// Config configures a [Guard]. The zero value of each field is its documented default.
type Config struct {
	// Observe is called for each decision of Claim, Write and Eval, by several goroutines at once, as
	// [fence.GuardConfig] has it. It must not block. An unknown outcome is [fence.Failed]. nil: none.
	Observe func(fence.Decision)

	// Logger gets claims at level Info. At level Warn it gets refusals, with their [fence.Result], writes and claims
	// that have failed or have an unknown outcome, and the warnings of Install. nil: silence.
	Logger *slog.Logger
}

// Guard writes to the keys of one resource.
type Guard struct {
	client   redis.UniversalClient
	cfg      Config
	resource fence.Resource
	mark     string
	single   *Script // for one command
	several  *Script
}

// New returns the guard of a resource. The caller owns the client; the guard uses its dialer, timeouts and pool.
func New(client redis.UniversalClient, resource fence.Resource, cfg Config) (*Guard, error) {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Guard{client: client, cfg: cfg, resource: resource, single: newScript(single), several: newScript(commands)}
	g.mark = g.Key("elect:fence")
	return g, nil
}

// Key is a key of the resource: its name in braces, a colon, and rest.
func (g *Guard) Key(rest string) string { return "{" + string(g.resource) + "}:" + rest }

// Command is a command of Redis whose one key is its first argument: SET, HSET, DEL of one key, INCRBY, LPUSH, ZADD,
// EXPIRE and many more. Other commands need a [Script].
type Command struct {
	Name string
	Key  string
	Args []any // what follows the key, as redis.Client.Do takes it
}

// Set is SET of a key.
func Set(key string, value any) Command { return Command{Name: "SET", Key: key, Args: []any{value}} }

// HSet is HSET of fields, each followed by its value.
func HSet(key string, pairs ...any) Command { return Command{Name: "HSET", Key: key, Args: pairs} }

// Del is DEL of a key.
func Del(key string) Command { return Command{Name: "DEL", Key: key} }

// Claim raises the mark of the resource to the token. A new leader calls it before it reads any of the keys. If the
// mark is greater the error is a fence.StaleError; that for a resource that is not installed matches
// fence.ErrResource.
func (g *Guard) Claim(ctx context.Context, token fence.Token) error {
	if _, err := g.Write(ctx, token); err != nil {
		return err
	}
	g.cfg.Logger.Info("claimed", "resource", g.resource, "token", token)
	return nil
}

// most is the greatest number of arguments of a Write: Lua can unpack about 8,000.
const most = 7000

// Write runs the commands one after another, with no other client's in between, and returns their replies, unless the
// mark is above the token; it first raises a mark below the token. If the mark is greater the error is a
// fence.StaleError, and nothing was applied. An error of Redis itself (redis.Error) that does not match
// [fence.ErrUnknownOutcome] may be that of a later command: those before it have been applied, because Redis does not
// roll back.
//
// There may be up to 7,000 arguments in all, where each command counts as two more. One
// Write of several commands is cheaper than a pipeline of Writes of one.
func (g *Guard) Write(ctx context.Context, token fence.Token, all ...Command) ([]any, error) {
	keys, args := make([]string, 0, len(all)), make([]any, 0, 3*len(all))
	for _, c := range all {
		keys = append(keys, c.Key)
		args = append(append(args, len(c.Args), c.Name), c.Args...)
	}
	script := g.several
	if len(all) == 1 {
		script, args = g.single, args[1:]
	}
	reply, err := g.Eval(ctx, token, script, keys, args...)
	if err != nil {
		return nil, err
	}
	replies, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("fenceredis: %s: %w: the answer is %T; want a list", g.resource, fence.ErrUnknownOutcome, reply)
	}
	return replies, nil
}

// Eval runs a script and returns its reply, unless the mark is above the token; it first raises a mark below the
// token. The script must touch only the given keys. There may be up to 7,000 keys, and as many arguments. Errors are
// those of [Guard.Write].
func (g *Guard) Eval(ctx context.Context, token fence.Token, script *Script, keys []string, args ...any) (any, error) {
	reply, err := g.eval(ctx, token, script, keys, args)
	fence.DecisionOf(g.resource, token, 0, err).Report(g.cfg.Logger, g.cfg.Observe, err)
	return reply, err
}

func (g *Guard) eval(ctx context.Context, token fence.Token, script *Script, keys []string, args []any) (any, error) {
	if err := fence.CheckShown(g.resource, token); err != nil {
		return nil, err
	}
	if len(keys) > most || len(args) > most {
		return nil, fmt.Errorf("fenceredis: %s: %d keys and %d arguments; want at most %d of each", g.resource, len(keys), len(args), most)
	}
	for _, key := range keys {
		switch {
		case tag(key) != string(g.resource):
			return nil, fmt.Errorf("%w: the key %.200q is not of %s; want {%s} in it, first", fence.ErrResource, key, g.resource, g.resource)
		case key == g.mark:
			return nil, fmt.Errorf("%w: the key %q is the mark; want another", fence.ErrResource, key)
		}
	}
	shown := append(make([]any, 0, 5+len(keys)+len(args)), "EVALSHA", script.sha, 1+len(keys), g.mark)
	for _, key := range keys {
		shown = append(shown, key)
	}
	shown = append(append(shown, token.String()), args...)
	reply, err := g.once(ctx, shown)
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // it was not run
		shown[0], shown[1] = "EVAL", script.source
		reply, err = g.once(ctx, shown)
	}
	if err != nil {
		return nil, g.explain(token, err)
	}
	return reply, nil
}

// tag is the part of a key that determines its slot in Redis, "" if that is the whole key.
func tag(key string) string {
	_, rest, ok := strings.Cut(key, "{")
	inside, _, closed := strings.Cut(rest, "}")
	if !ok || !closed {
		return ""
	}
	return inside
}

// once is a command that the client does not send a second time.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

func (g *Guard) once(ctx context.Context, args []any) (any, error) {
	if ctx.Err() != nil {
		return nil, notSent{context.Cause(ctx)}
	}
	cmd := once{redis.NewCmd(ctx, args...)}
	_ = g.client.Process(ctx, cmd) // cmd has the error too
	reply, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return reply, err
}

// notSent is an error from before anything was sent.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// explain returns the meaning of an error for a write with the token.
func (g *Guard) explain(token fence.Token, err error) error {
	var answered redis.Error
	var early notSent
	switch {
	case errors.As(err, &early):
		return early.error
	case !errors.As(err, &answered):
		return fmt.Errorf("fenceredis: %s: %w: %w", g.resource, fence.ErrUnknownOutcome, err)
	case redis.HasErrorPrefix(err, "STALETOKEN"):
		words := strings.Fields(err.Error())
		if len(words) < 2 {
			break
		}
		highest, e := fence.ParseToken(words[1])
		if e != nil || highest <= token {
			break
		}
		return &fence.StaleError{Shown: token, Highest: highest}
	case redis.HasErrorPrefix(err, "UNGUARDED"):
		return fmt.Errorf("%w: %s has no mark %q in Redis: it was not installed, or the mark was lost; see that no earlier leader is left, and install it",
			fence.ErrResource, g.resource, g.mark)
	case redis.HasErrorPrefix(err, "DAMAGEDMARK"):
		return fmt.Errorf("fenceredis: %s: the mark %q is no token; want decimal digits", g.resource, g.mark)
	}
	return fmt.Errorf("fenceredis: %s: %w", g.resource, err)
}
