package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/register"
)

// A version is the content of the key after "=", and "" where there is no key.

// read returns the replication id and the version.
const read = identify + `local kept = redis.call('GET', KEYS[1])
return {id, kept and '=' .. kept or ''}
`

// write replaces the version ARGV[1] by the content ARGV[2], and returns the replication id and "=". If the key has
// another version, it returns "". Its subscribers are told if there is news (ARGV[3]). A user who may not publish only
// makes them poll.
const write = identify + `local kept = redis.call('GET', KEYS[1])
if (kept and '=' .. kept or '') ~= ARGV[1] then
  return {id, ''}
end
redis.call('SET', KEYS[1], ARGV[2])
if ARGV[3] == '1' then
  redis.pcall('PUBLISH', KEYS[1], '')
end
return {id, '='}
`

// try needs the rights of a write, and changes nothing.
const try = identify + `local kept = redis.call('GET', KEYS[1])
if kept then
  redis.call('SET', KEYS[1], kept)
else
  redis.call('SET', KEYS[1], '', 'XX')
end
return {id, '='}
`

// identify is the beginning of each script. What a replica shows may be old, even if the replica is writable. Clients
// of Redis drop a connection after READONLY, and look for the master.
const identify = `local info = redis.call('INFO', 'replication')
if not string.find(info, 'role:master', 1, true) then
  return redis.error_reply('READONLY the server is a replica')
end
local id = string.match(info, 'master_replid:(%x+)')
if not id then
  return redis.error_reply('NOREPLID the server tells no replication id')
end
`

// script is one of the above, and the name by which Redis knows it.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(sum[:])}
}

// key is the key of one election.
type key struct {
	client   *redis.Client
	name     string
	replicas int
	volatile bool
	log      *slog.Logger
	listener *listener // nil: nothing is notified

	accepted atomic.Pointer[string] // the replication id with which the settings were accepted last
}

var _ interface {
	register.Watcher
	register.Admitter
} = (*key)(nil)

// Read implements [register.Register].
func (k *key) Read(ctx context.Context) (register.Kept, error) {
	id, version, err := k.run(ctx, newScript(read), 0)
	if err != nil {
		return register.Kept{}, err
	}
	kept := register.Kept{Version: version, Store: id}
	if version != "" {
		kept.Text = version[1:]
	}
	return kept, nil
}

// Write implements [register.Register].
func (k *key) Write(ctx context.Context, version, text string) (register.Kept, error) {
	news := "0"
	if version == "" || register.News(version[1:], text) {
		news = "1"
	}
	id, done, err := k.run(ctx, newScript(write), max(k.replicas, 0), version, text, news)
	switch {
	case err != nil:
		return register.Kept{}, err
	case done == "":
		return register.Kept{}, register.ErrConflict
	}
	return register.Kept{Text: text, Version: "=" + text, Store: id}, nil
}

// Watch implements [register.Watcher].
func (k *key) Watch(ctx context.Context, changed func()) {
	if k.listener != nil {
		k.listener.watch(ctx, k.name, changed)
	}
}

// Admit implements [register.Admitter]. If the server was accepted before, only a missing right to write refuses it for
// good: it may be accepted again after a failover.
func (k *key) Admit(ctx context.Context) error {
	before := k.accepted.Load() != nil
	err := k.ready(ctx, newScript(try))
	if before && driver.IsPermanent(err) && !forbids(err) {
		return errors.New(oneLine(err))
	}
	return err
}

// run runs a script, and returns the replication id and its answer, after that many replicas have what was written.
// The answer of a server with another id counts when its settings were accepted.
func (k *key) run(ctx context.Context, s script, replicas int, args ...any) (id, answer string, err error) {
	command := append([]any{"EVALSHA", s.sha, 1, k.name}, args...)
	reply, err := k.send(ctx, command, replicas)
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // it was not run
		command[0], command[1] = "EVAL", s.source
		reply, err = k.send(ctx, command, replicas)
	}
	if err != nil {
		return "", "", err
	}
	all, _ := reply.([]any)
	if len(all) == 2 {
		id, _ = all[0].(string)
		answer, _ = all[1].(string)
	}
	if id == "" {
		return "", "", fmt.Errorf("the answer is %.100q; want a replication id and a version", fmt.Sprint(reply))
	}
	if accepted := k.accepted.Load(); accepted == nil || *accepted != id {
		if err := k.check(ctx, id); err != nil {
			return "", "", err
		}
	}
	return id, answer, nil
}

// once is a command that the client does not send a second time.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// send sends a command, and has the server wait until that many replicas have what the connection has written.
func (k *key) send(ctx context.Context, command []any, replicas int) (any, error) {
	asked := once{redis.NewCmd(ctx, command...)}
	if replicas == 0 {
		_ = k.client.Process(ctx, asked) // asked has the error too
		return asked.Result()
	}
	patience := time.Second
	if end, ok := ctx.Deadline(); ok {
		patience = time.Until(end) / 2
	}
	wait := once{redis.NewCmd(ctx, "WAIT", replicas, max(patience.Milliseconds(), 1))}
	p := k.client.Pipeline()
	_ = p.Process(ctx, asked) // it is sent by Exec
	_ = p.Process(ctx, wait)
	_, _ = p.Exec(ctx) // both have their errors
	reply, err := asked.Result()
	if err != nil {
		return nil, err
	}
	switch n, err := wait.Int(); {
	case err != nil:
		return nil, fmt.Errorf("WAIT: %w", err)
	case n < replicas:
		return nil, fmt.Errorf("%d replicas have the write; want %d", n, replicas)
	}
	return reply, nil
}
