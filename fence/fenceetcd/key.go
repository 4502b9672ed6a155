package fenceetcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/electd/elect/fence"
)

// ErrGone is what the refusal of a write matches whose leader's key has gone: its lease has
// run out, or it has resigned. It matches [fence.ErrStale], too.
var ErrGone = errors.New("the leader's key has gone")

// Key is the key that a leader holds in an election in etcd. It stands for one term: a
// later one of the same leader has another create revision.
//
// It protects what is written through it, in the same etcd, against leaders of the same
// election. Not protected are two elections that lead the same keys, and whatever is
// not in this etcd: use a [Guard] or another resource's guard with [Key.Token] there.
type Key struct {
	Name     string // such as that of concurrency.Election.Key
	Revision int64  // the create revision, from 1, such as that of concurrency.Election.Rev

	// Era is that of the token: 0 until etcd was restored from a backup or made anew, and
	// then greater each time.
	Era uint64
}

// KeyOf returns the key of a leader. It is to be asked after Campaign has returned nil,
// by the goroutine that uses the election, and again after each Campaign. While it waits, a
// candidate has a key, too, that stands for nothing yet.
//
// A leader that campaigns with another session closes its earlier one first: else its own
// earlier key, which that session keeps alive, is what it waits for.
func KeyOf(e *concurrency.Election) Key { return Key{Name: e.Key(), Revision: e.Rev()} }

// Token returns the token of the term, whose count is the create revision. Of two leaders
// of one election the later one has the greater: the key that was made first leads.
func (k Key) Token() (fence.Token, error) {
	if k.Name == "" || k.Revision <= 0 {
		return 0, fmt.Errorf("%w: the key %q at revision %d leads nothing", fence.ErrMissing, k.Name, k.Revision)
	}
	return fence.NewToken(k.Era, uint64(k.Revision))
}

// Condition is what has to hold in each transaction that writes for this term, for those
// who put transactions together by themselves.
func (k Key) Condition() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(k.Name), "=", k.Revision)
}

// Claim makes sure that the term has not ended: what a new leader does before it reads
// anything. It need not raise anything: etcd has let nobody lead while the key of an
// earlier leader was there. A candidate whose lease ran out while it waited is told here.
func (k Key) Claim(ctx context.Context, kv clientv3.KV) error {
	_, err := k.Write(ctx, kv)
	return err
}

// Write applies the operations in one transaction, if the key is there still. Otherwise it
// is refused with a [fence.StaleError] if somebody leads whose token is greater, whose
// Highest is that, and with [ErrGone] beside. If nobody leads, Highest is the token shown.
// After a refusal nothing was applied. A Key that is none is refused with
// [fence.ErrMissing] or [fence.ErrToken]; any other error is as in [Guard.Write].
//
// The operations are as in clientv3.Txn.Then.
func (k Key) Write(ctx context.Context, kv clientv3.KV, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	token, err := k.Token()
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // nothing is sent
	}
	election := k.Name[:strings.LastIndexByte(k.Name, '/')+1]
	first := clientv3.OpGet(k.Name)
	if election != "" {
		first = clientv3.OpGet(election, clientv3.WithFirstCreate()...)
	}
	resp, err := kv.Txn(ctx).If(k.Condition()).Then(ops...).Else(first).Commit()
	if err != nil {
		return nil, outcome(err)
	}
	if resp.Succeeded {
		return resp, nil
	}
	stale := &fence.StaleError{Shown: token, Highest: token}
	for _, leader := range resp.Responses[0].GetResponseRange().GetKvs() {
		if later, err := fence.NewToken(k.Era, uint64(leader.CreateRevision)); err == nil {
			stale.Highest = max(stale.Highest, later)
		}
	}
	if stale.Highest == token {
		return nil, fmt.Errorf("%w, and nobody leads: %w", ErrGone, stale)
	}
	return nil, fmt.Errorf("%w: %w", ErrGone, stale)
}
