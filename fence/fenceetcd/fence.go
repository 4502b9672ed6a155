package fenceetcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/electd/elect/fence"
)

// DefaultPrefix is where marks are unless [Config.Prefix] says otherwise.
const DefaultPrefix = "elect/fence/"

// Config is what a [Fence] may be told. The zero value of each field is its documented
// default.
type Config struct {
	// Prefix is what the keys of marks begin with; the name of the resource follows.
	// Nothing else may be kept beneath it. "": [DefaultPrefix].
	Prefix string

	// Observe is told of each decision of Claim and Write, by several goroutines at once,
	// as [fence.GuardConfig] has it. It must not block. An unknown outcome is
	// [fence.Failed]. nil: nobody.
	Observe func(fence.Decision)

	// Logger gets claims at level Info; at level Warn refusals, with their [fence.Result],
	// and writes and claims that have failed or whose outcome is not known. nil: silence.
	Logger *slog.Logger
}

// Fence guards resources by marks in etcd: keys that hold the greatest token as 19
// digits ([fence.Token.Fixed]), since etcd compares values as text.
//
// A mark is as durable as etcd's writes: committed by a majority, and on its disks.
type Fence struct {
	kv  clientv3.KV
	cfg Config
}

// New returns a Fence. It does not ask etcd anything. The caller keeps kv, such as a
// *clientv3.Client, and closes it.
func New(kv clientv3.KV, cfg Config) *Fence {
	if cfg.Prefix == "" {
		cfg.Prefix = DefaultPrefix
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Fence{kv: kv, cfg: cfg}
}

// MarkKey is the key of a resource's mark.
func (f *Fence) MarkKey(resource fence.Resource) string { return f.cfg.Prefix + string(resource) }

// Add makes a resource one that can be claimed. Its mark is 0, unless it was added
// before: then it stays what it is.
func (f *Fence) Add(ctx context.Context, resource fence.Resource) error {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return err
	}
	key := f.MarkKey(resource)
	_, err := f.kv.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, fence.Token(0).Fixed())).
		Commit()
	if err != nil {
		return outcome(err)
	}
	return nil
}

// Remove forgets a resource and its mark. From then on all that is written for it is
// refused with [fence.ErrResource]. If it is added again, every old token passes again.
func (f *Fence) Remove(ctx context.Context, resource fence.Resource) error {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return err
	}
	if _, err := f.kv.Delete(ctx, f.MarkKey(resource)); err != nil {
		return outcome(err)
	}
	return nil
}

// Claim raises the mark of the resource to token. It is what a new leader does before it
// reads anything. The same token again is no error. A greater mark is a
// [fence.StaleError]; a resource that was not added is refused with [fence.ErrResource].
// After an error that matches [fence.ErrUnknownOutcome] the mark may have been raised;
// claiming again is right.
func (f *Fence) Claim(ctx context.Context, resource fence.Resource, token fence.Token) error {
	if _, err := f.Write(ctx, resource, token); err != nil {
		return err
	}
	f.cfg.Logger.Info("claimed", "resource", resource, "token", token)
	return nil
}

// Write applies the operations in one transaction, in which the mark is compared, and
// raised if token is greater. The responses are those of the operations. Errors are those
// of [Fence.Claim]: after a refusal nothing was applied.
//
// The operations are as in clientv3.Txn.Then: no key may be put twice, nor may the mark be
// put or deleted. There may be one less than the server's max-txn-ops, 128 unless it was
// told otherwise. What else the transaction is to depend on goes into a
// clientv3.OpTxn among the operations; the mark is raised whether or not that succeeds.
func (f *Fence) Write(ctx context.Context, resource fence.Resource, token fence.Token, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	resp, err := f.write(ctx, resource, token, ops)
	f.tell(resource, token, err)
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// tell logs and counts a decision.
func (f *Fence) tell(resource fence.Resource, token fence.Token, err error) {
	fence.DecisionOf(resource, token, 0, err).Report(f.cfg.Logger, f.cfg.Observe, err)
}

// below is what every mark is greater than, as text. The empty value and "0", which somebody
// may have put by hand, are not greater: they are no marks, and let nobody pass.
const below = "000000000000000000"

func (f *Fence) write(ctx context.Context, resource fence.Resource, token fence.Token, ops []clientv3.Op) (*clientv3.TxnResponse, error) {
	if err := fence.CheckShown(resource, token); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // nothing is sent
	}
	key := f.MarkKey(resource)
	resp, err := f.kv.Txn(ctx).
		If(
			// etcd fails each comparison with the value of a key that does not exist.
			clientv3.Compare(clientv3.Value(key), ">", below),
			// There is no "<=". Above the greatest token, 2^63-1, is 2^63, of 19 digits, too.
			clientv3.Compare(clientv3.Value(key), "<", (token+1).Fixed()),
		).
		Then(append([]clientv3.Op{clientv3.OpPut(key, token.Fixed())}, ops...)...).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return nil, outcome(err)
	}
	if !resp.Succeeded {
		return nil, f.refusal(resource, token, resp.Responses[0].GetResponseRange().GetKvs())
	}
	resp.Responses = resp.Responses[1:]
	return resp, nil
}

// errMark is a mark that somebody else has put.
var errMark = errors.New("not a mark")

// refusal says why a transaction was refused that has found this mark.
func (f *Fence) refusal(resource fence.Resource, token fence.Token, found []*mvccpb.KeyValue) error {
	if len(found) == 0 {
		return fmt.Errorf("%w: %s was not added; there is no key %q", fence.ErrResource, resource, f.MarkKey(resource))
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

// Highest returns the mark of the resource, 0 if it was never claimed. A resource that was
// not added is [fence.ErrResource].
func (f *Fence) Highest(ctx context.Context, resource fence.Resource) (fence.Token, error) {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return 0, err
	}
	resp, err := f.kv.Get(ctx, f.MarkKey(resource))
	if err != nil {
		return 0, fmt.Errorf("fenceetcd: the mark of %s: %w", resource, err)
	}
	if len(resp.Kvs) == 0 {
		return 0, f.refusal(resource, 0, nil)
	}
	return parseMark(resp.Kvs[0])
}

// State is what is known of a resource.
type State struct {
	Resource fence.Resource
	Highest  fence.Token // the mark; 0: never claimed
	Revision int64       // of etcd, at which it was put last
}

// Status returns what is known of all resources, by name.
func (f *Fence) Status(ctx context.Context) ([]State, error) {
	resp, err := f.kv.Get(ctx, f.cfg.Prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
	if err != nil {
		return nil, fmt.Errorf("fenceetcd: the marks: %w", err)
	}
	var all []State
	for _, kv := range resp.Kvs {
		resource, err := fence.ParseResource(strings.TrimPrefix(string(kv.Key), f.cfg.Prefix))
		if err != nil {
			return nil, fmt.Errorf("fenceetcd: the key %.200q: %w", kv.Key, err)
		}
		highest, err := parseMark(kv)
		if err != nil {
			return nil, err
		}
		all = append(all, State{Resource: resource, Highest: highest, Revision: kv.ModRevision})
	}
	return all, nil
}

// Mark returns the keys as a mark for a [fence.Guard], which guards what is not in etcd.
// It is no [fence.Sharer]: a resource that it guards has one guard.
func (f *Fence) Mark() fence.Mark { return mark{f} }

type mark struct{ *Fence }

// Raise implements [fence.Mark].
func (m mark) Raise(ctx context.Context, resource fence.Resource, token fence.Token) error {
	return m.Claim(ctx, resource, token)
}
