package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/electd/elect/store/internal/queue"
)

// store is one election in etcd. Sessions are leases, and orders are create revisions.
type store struct {
	client  *clientv3.Client
	*group  // shared by the elections of the client that have the same times
	key     string
	fixed   bool
	checked atomic.Bool
}

var _ queue.Queue = (*store)(nil)

func (s *store) prefix() string { return s.key + "/" }
func (s *store) mark() string   { return s.key + ".elect" }
func (s *store) wish() string   { return s.key + ".elect.wish" }
func (s *store) touch() string  { return s.key + ".elect.touch" }

// own is the key of a session.
func (s *store) own(session uint64) string { return s.prefix() + strconv.FormatUint(session, 16) }

// plain translates the error of a request.
func plain(err error) error {
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return queue.ErrGone
	}
	return err
}

// Open implements [queue.Queue].
func (s *store) Open(ctx context.Context, ttl time.Duration) (uint64, time.Duration, error) {
	if err := s.ready(ctx); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", queue.ErrNotSent, err)
	}
	r, err := s.client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return 0, 0, err
	}
	return uint64(r.ID), time.Duration(r.TTL) * time.Second, nil
}

// KeepAlive implements [queue.Queue].
func (s *store) KeepAlive(ctx context.Context, session uint64) (time.Duration, error) {
	ttl, err := s.renew(ctx, int64(session))
	switch {
	case err != nil:
		return 0, plain(err)
	case ttl <= 0:
		return 0, queue.ErrGone
	}
	return time.Duration(ttl) * time.Second, nil
}

// Close implements [queue.Queue]. The key is gone with the lease, unless someone has put it without.
func (s *store) Close(ctx context.Context, session uint64) error {
	_, revoked := s.client.Revoke(ctx, clientv3.LeaseID(session))
	if revoked != nil && !errors.Is(revoked, rpctypes.ErrLeaseNotFound) {
		return revoked
	}
	if _, err := s.client.Delete(ctx, s.own(session)); err != nil {
		return err
	}
	return plain(revoked)
}

// Enter implements [queue.Queue].
func (s *store) Enter(ctx context.Context, session uint64, text string) (queue.Entry, error) {
	key := s.own(session)
	r, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, text, clientv3.WithLease(clientv3.LeaseID(session)))).
		Else(clientv3.OpGet(key)).Commit()
	switch {
	case err != nil:
		return queue.Entry{}, plain(err)
	case r.Succeeded:
		return queue.Entry{Order: uint64(r.Header.Revision), Session: session, Key: key, Text: text}, nil
	}
	return entry(r.Responses[0].GetResponseRange().Kvs[0]), nil
}

func entry(kv *mvccpb.KeyValue) queue.Entry {
	return queue.Entry{Order: uint64(kv.CreateRevision), Session: uint64(kv.Lease), Key: string(kv.Key), Text: string(kv.Value)}
}

// List implements [queue.Queue].
func (s *store) List(ctx context.Context, own queue.Entry) (l queue.Listing, err error) {
	ops := []clientv3.Op{clientv3.OpGet(s.mark()), clientv3.OpGet(s.wish()), clientv3.OpGet(s.touch()), clientv3.OpGet(s.prefix(), clientv3.WithFirstCreate()...)}
	if own.Order != 0 {
		before := append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(int64(own.Order)-1))
		ops = append(ops, clientv3.OpGet(s.prefix(), before...), clientv3.OpGet(own.Key))
	}
	r, err := s.client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return l, err
	}
	l.Revision = uint64(r.Header.Revision)
	marked := int64(0)
	for i, found := range r.Responses {
		for _, kv := range found.GetResponseRange().Kvs {
			switch i {
			case 0:
				l.Mark, marked = string(kv.Value), kv.ModRevision
			case 1:
				l.Wish = string(kv.Value)
			case 2:
				if kv.ModRevision > marked { // none of this tenure is older than its mark
					l.Touch = touched(kv)
				}
			default:
				l.Entries = append(l.Entries, entry(kv))
			}
		}
	}
	slices.SortFunc(l.Entries, func(a, b queue.Entry) int { return cmp.Compare(a.Order, b.Order) })
	l.Entries = slices.CompactFunc(l.Entries, func(a, b queue.Entry) bool { return a.Order == b.Order })
	return l, nil
}

// Watch implements [queue.Queue].
func (s *store) Watch(ctx context.Context, e queue.Entry, after uint64) error {
	key, opts := e.Key, []clientv3.OpOption{clientv3.WithRev(int64(after) + 1)}
	if e.Order == 0 {
		key, opts = s.prefix(), append(opts, clientv3.WithPrefix())
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for r := range s.client.Watch(ctx, key, opts...) {
		if err := r.Err(); err != nil {
			return err
		}
		if len(r.Events) > 0 {
			return nil
		}
	}
	return errors.New("the watch has ended")
}

// Verify implements [queue.Queue].
func (s *store) Verify(ctx context.Context, own queue.Entry) (l queue.Listing, err error) {
	// The read includes the value: without it etcd 3.7 answers from its index, and may not tell the lease.
	reads := []clientv3.Op{clientv3.OpGet(own.Key), clientv3.OpGet(s.prefix(), clientv3.WithFirstCreate()...), clientv3.OpGet(s.wish())}
	r, err := s.checks.Do(ctx, reads, nil)
	if err != nil {
		return l, err
	}
	there := slices.ContainsFunc(r.answers[0].GetResponseRange().Kvs, func(kv *mvccpb.KeyValue) bool {
		return uint64(kv.CreateRevision) == own.Order && uint64(kv.Lease) == own.Session
	})
	if !there {
		return l, queue.ErrGone
	}
	return looked(r.answers[1:], r.revision), nil
}

// looked is a look at the first entry and the wish.
func looked(answers []*pb.ResponseOp, revision int64) queue.Listing {
	l := queue.Listing{Entries: []queue.Entry{entry(answers[0].GetResponseRange().Kvs[0])}, Revision: uint64(revision)}
	for _, kv := range answers[1].GetResponseRange().Kvs {
		l.Wish = string(kv.Value)
	}
	return l
}

// Touch implements [queue.Queue]. The revision of the key is that of the touch.
func (s *store) Touch(ctx context.Context, own queue.Entry) (l queue.Listing, err error) {
	there := []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(own.Key), "=", int64(own.Order)),
		clientv3.Compare(clientv3.LeaseValue(own.Key), "=", int64(own.Session)),
	}
	r, err := s.checks.Do(ctx, []clientv3.Op{clientv3.OpTxn(there, []clientv3.Op{
		clientv3.OpGet(s.prefix(), clientv3.WithFirstCreate()...), clientv3.OpGet(s.wish()),
		clientv3.OpPut(s.touch(), strconv.FormatUint(own.Order, 10)),
	}, nil)}, nil)
	if err != nil {
		return l, err
	}
	txn := r.answers[0].GetResponseTxn()
	if !txn.Succeeded {
		return l, queue.ErrGone
	}
	return looked(txn.Responses, r.revision), nil
}

// touched is what the key of touches tells; what was written there by hand tells of none.
func touched(kv *mvccpb.KeyValue) queue.Touch {
	order, err := strconv.ParseUint(string(kv.Value), 10, 64)
	if err != nil {
		return queue.Touch{}
	}
	return queue.Touch{Order: order, Revision: uint64(kv.ModRevision)}
}

// WatchTouch implements [queue.Queue].
func (s *store) WatchTouch(ctx context.Context, after uint64, seen func(queue.Touch)) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for r := range s.client.Watch(ctx, s.touch(), clientv3.WithRev(int64(after)+1), clientv3.WithFilterDelete()) {
		if err := r.Err(); err != nil {
			return err
		}
		if n := len(r.Events); n > 0 {
			seen(touched(r.Events[n-1].Kv))
		}
	}
	return errors.New("the watch has ended")
}

// Change implements [queue.Queue].
func (s *store) Change(ctx context.Context, own queue.Entry, c queue.Change) error {
	var ops []clientv3.Op
	if c.Mark != "" {
		ops = append(ops, clientv3.OpPut(s.mark(), c.Mark))
	}
	if c.Text != "" {
		ops = append(ops, clientv3.OpPut(own.Key, c.Text, clientv3.WithLease(clientv3.LeaseID(own.Session))))
	}
	if c.Wish != "" { // and the key is put again, unchanged: its participant watches it
		ops = append(ops, clientv3.OpPut(s.wish(), c.Wish, clientv3.WithLease(clientv3.LeaseID(own.Session))),
			clientv3.OpPut(own.Key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease()))
	}
	if c.Leave {
		ops = append(ops, clientv3.OpDelete(own.Key))
	}
	r, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(own.Key), "=", int64(own.Order))).Then(ops...).Commit()
	switch {
	case err != nil:
		return plain(err)
	case !r.Succeeded:
		return queue.ErrGone
	}
	return nil
}
