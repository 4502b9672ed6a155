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

// ErrGone is matched by the refusal of a write whose leader's key is gone: its lease has run out, or it has resigned.
// It also matches [fence.ErrStale].
var ErrGone = errors.New("the leader's key has gone")

// Key is the key that a leader holds in an election in etcd. It identifies one term: a later one of the same leader
// has another create revision.
//
// It protects what is written through it, in the same etcd, against leaders of the same election. It does not protect
// keys that two elections write, nor data outside this etcd: for those use a [Guard] or another resource's guard with
// [Key.Token].
type Key struct {
	Name     string // such as that of concurrency.Election.Key
	Revision int64  // the create revision, from 1, such as that of concurrency.Election.Rev

	// Era is that of the token: 0 until etcd was restored from a backup or made anew, and greater after each time.
	Era uint64
}

// KeyOf returns the key of a leader. Call it after Campaign has returned nil, from the goroutine that uses the
// election, and again after each Campaign. A waiting candidate has a key too, which does not mean that it leads.
//
// A leader that campaigns with another session must close its earlier one first: otherwise it waits for its own
// earlier key, which that session keeps alive.
func KeyOf(e *concurrency.Election) Key { return Key{Name: e.Key(), Revision: e.Rev()} }

// Token returns the token of the term, whose count is the create revision. Of two leaders
// of one election the later one has the greater: the key that was made first leads.
func (k Key) Token() (fence.Token, error) {
	if k.Name == "" || k.Revision <= 0 {
		return 0, fmt.Errorf("%w: the key %q at revision %d leads nothing", fence.ErrMissing, k.Name, k.Revision)
	}
	return fence.NewToken(k.Era, uint64(k.Revision))
}

// Condition is the condition of each transaction that writes for this term, for programs that build their own
// transactions.
func (k Key) Condition() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(k.Name), "=", k.Revision)
}

// Claim checks that the term has not ended. A new leader calls it before it reads anything. It need not raise a mark:
// etcd has elected no other leader while the key of an earlier one existed. It refuses a candidate whose lease ran
// out while it waited.
func (k Key) Claim(ctx context.Context, kv clientv3.KV) error {
	_, err := k.Write(ctx, kv)
	return err
}

// Write applies the operations in one transaction, if the key still exists. Otherwise the refusal matches [ErrGone]
// and is a [fence.StaleError]. Its Highest is the token of the present leader if that is greater; without a leader it
// is the token shown. After a refusal nothing was applied. An invalid Key is refused with [fence.ErrMissing] or
// [fence.ErrToken]; any other error is as in [Guard.Write].
//
// The operations are as in clientv3.Txn.Then.
func (k Key) Write(ctx context.Context, kv clientv3.KV, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	token, err := k.Token()
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // nothing was sent
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
