package fenceetcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/electd/elect/fence"
)

// DefaultPrefix is the prefix of marks if [Config.Prefix] is empty.
const DefaultPrefix = "elect/fence/"

// Config configures a [Guard] or a [Mark]. The zero value of each field is its documented default.
type Config struct {
	// Prefix is the beginning of the keys of marks; the name of the resource follows. No other keys may have it. "":
	// [DefaultPrefix].
	Prefix string

	// Observe is called for each decision of Claim and Write, by several goroutines at once, as [fence.GuardConfig] has
	// it. It must not block. An unknown outcome is [fence.Failed]. nil: none.
	Observe func(fence.Decision)

	// Logger gets claims at level Info. At level Warn it gets refusals, with their [fence.Result], and writes and claims
	// that have failed or have an unknown outcome. nil: silence.
	Logger *slog.Logger
}

// Guard guards one resource by its mark in etcd: a key that holds the greatest token as 19
// digits ([fence.Token.Fixed]), since etcd compares values as text.
//
// A mark is as durable as etcd's writes: committed by a majority, and on its disks.
type Guard struct {
	mark     *Mark
	resource fence.Resource
}

// New returns the guard of a resource. It makes no request. The caller owns kv, such as a *clientv3.Client, and
// closes it.
func New(kv clientv3.KV, resource fence.Resource, cfg Config) (*Guard, error) {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return nil, err
	}
	return &Guard{NewMark(kv, cfg), resource}, nil
}

// MarkKey is the key of the mark.
func (g *Guard) MarkKey() string { return g.mark.key(g.resource) }

// Install is [Mark.Install] for the resource.
func (g *Guard) Install(ctx context.Context) error { return g.mark.Install(ctx, g.resource) }

// Uninstall is [Mark.Uninstall] for the resource.
func (g *Guard) Uninstall(ctx context.Context) error { return g.mark.Uninstall(ctx, g.resource) }

// Status returns the state of the resource. One that is not installed is refused with [fence.ErrResource].
func (g *Guard) Status(ctx context.Context) (State, error) { return g.mark.status(ctx, g.resource) }

// Claim raises the mark to token. A new leader calls it before it reads anything. Claiming again with the same token
// succeeds. If the mark is greater the error is a [fence.StaleError]; a resource that is not installed is refused
// with [fence.ErrResource]. After an error that matches [fence.ErrUnknownOutcome] the mark may have been raised; the
// leader should claim again.
func (g *Guard) Claim(ctx context.Context, token fence.Token) error {
	return g.mark.Raise(ctx, g.resource, token)
}

// Write applies the operations in one transaction, in which the mark is compared, and
// raised if token is greater. The responses are those of the operations. Errors are those
// of [Guard.Claim]: after a refusal nothing was applied.
//
// The operations are as in clientv3.Txn.Then: no key may be put twice, nor may the mark be put or deleted. There may
// be one less than the server's max-txn-ops, 128 by default. Further conditions go into a clientv3.OpTxn among the
// operations; the mark is raised whether or not that succeeds.
func (g *Guard) Write(ctx context.Context, token fence.Token, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	return g.mark.told(ctx, g.resource, token, ops)
}

// Mark is the marks under a prefix, for a [fence.Guard] of data that is not in etcd. It is no [fence.Sharer]: a
// resource has one such guard.
type Mark struct {
	kv  clientv3.KV
	cfg Config
}

var _ fence.Mark = (*Mark)(nil)

// NewMark returns the marks under a prefix. It makes no request. The caller owns kv, and closes it.
func NewMark(kv clientv3.KV, cfg Config) *Mark {
	if cfg.Prefix == "" {
		cfg.Prefix = DefaultPrefix
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Mark{kv: kv, cfg: cfg}
}

func (m *Mark) key(resource fence.Resource) string { return m.cfg.Prefix + string(resource) }

// Install installs a resource, so that it can be claimed. Its mark is 0. If the resource is already installed, its
// mark stays.
func (m *Mark) Install(ctx context.Context, resource fence.Resource) error {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return err
	}
	key := m.key(resource)
	_, err := m.kv.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, fence.Token(0).Fixed())).
		Commit()
	if err != nil {
		return outcome(err)
	}
	return nil
}

// Uninstall removes a resource and its mark. From then on all writes for it are refused with [fence.ErrResource].
// After another installation every old token passes again.
func (m *Mark) Uninstall(ctx context.Context, resource fence.Resource) error {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return err
	}
	if _, err := m.kv.Delete(ctx, m.key(resource)); err != nil {
		return outcome(err)
	}
	return nil
}

// Raise implements [fence.Mark].
func (m *Mark) Raise(ctx context.Context, resource fence.Resource, token fence.Token) error {
	if _, err := m.told(ctx, resource, token, nil); err != nil {
		return err
	}
	m.cfg.Logger.Info("claimed", "resource", resource, "token", token)
	return nil
}

// told is write, and logs and counts the decision.
func (m *Mark) told(ctx context.Context, resource fence.Resource, token fence.Token, ops []clientv3.Op) (*clientv3.TxnResponse, error) {
	resp, err := m.write(ctx, resource, token, ops)
	fence.DecisionOf(resource, token, 0, err).Report(m.cfg.Logger, m.cfg.Observe, err)
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// below is less than every mark, as text. The empty value and "0", which a user may have put by hand, are not
// greater: they are no marks, and no token passes with them.
const below = "000000000000000000"

func (m *Mark) write(ctx context.Context, resource fence.Resource, token fence.Token, ops []clientv3.Op) (*clientv3.TxnResponse, error) {
	if err := fence.CheckShown(resource, token); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // nothing was sent
	}
	key := m.key(resource)
	resp, err := m.kv.Txn(ctx).
		If(
			// etcd fails each comparison with the value of a key that does not exist.
			clientv3.Compare(clientv3.Value(key), ">", below),
			// There is no "<=". 2^63, which follows the greatest token, has 19 digits too.
			clientv3.Compare(clientv3.Value(key), "<", (token+1).Fixed()),
		).
		Then(append([]clientv3.Op{clientv3.OpPut(key, token.Fixed())}, ops...)...).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return nil, outcome(err)
	}
	if !resp.Succeeded {
		return nil, m.refusal(resource, token, resp.Responses[0].GetResponseRange().GetKvs())
	}
	resp.Responses = resp.Responses[1:]
	return resp, nil
}

// errMark means that the value is no mark: something else has put it.
var errMark = errors.New("not a mark")

// refusal returns why a transaction was refused that has found this mark.
func (m *Mark) refusal(resource fence.Resource, token fence.Token, found []*mvccpb.KeyValue) error {
	if len(found) == 0 {
		return fmt.Errorf("%w: %s is not installed; there is no key %q", fence.ErrResource, resource, m.key(resource))
	}
	highest, err := parseMark(found[0])
	if err != nil {
		return err
	}
	return &fence.StaleError{Shown: token, Highest: highest}
}

func parseMark(kv *mvccpb.KeyValue) (fence.Token, error) {
	text := string(kv.GetValue())
	if text == fence.Token(0).Fixed() {
		return 0, nil
	}
	token, err := fence.ParseToken(text)
	if err != nil || token.Fixed() != text {
		return 0, fmt.Errorf("fenceetcd: the value of %q is %.50q, %w; want the token as 19 digits", kv.GetKey(), text, errMark)
	}
	return token, nil
}

// Highest implements [fence.Mark]. A resource that is not installed is refused with
// [fence.ErrResource].
func (m *Mark) Highest(ctx context.Context, resource fence.Resource) (fence.Token, error) {
	s, err := m.status(ctx, resource)
	return s.Highest, err
}

// State is the state of a resource.
type State struct {
	Highest  fence.Token // the mark, 0 before the first claim
	Revision int64       // the revision of its last put
}

func (m *Mark) status(ctx context.Context, resource fence.Resource) (State, error) {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return State{}, err
	}
	resp, err := m.kv.Get(ctx, m.key(resource))
	if err != nil {
		return State{}, fmt.Errorf("fenceetcd: the mark of %s: %w", resource, err)
	}
	if len(resp.Kvs) == 0 {
		return State{}, m.refusal(resource, 0, nil)
	}
	highest, err := parseMark(resp.Kvs[0])
	if err != nil {
		return State{}, err
	}
	return State{Highest: highest, Revision: resp.Kvs[0].ModRevision}, nil
}
