//go:build linux && cgo

package leases_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
)

// native is a candidate of etcd's own election, which etcdctl elect uses as well.
type native struct {
	*concurrency.Election
	session *concurrency.Session
}

func (k *keys) native(t *testing.T, ttl int) native {
	t.Helper()
	s, err := concurrency.NewSession(k.etcd.Client(t), concurrency.WithTTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	return native{concurrency.NewElection(s, k.prefix+"/e"), s}
}

// stand campaigns in the background. What is sent says why it did not win; nil: it has won.
func stand(ctx context.Context, n native) <-chan error {
	won := make(chan error, 1)
	go func() { won <- n.Campaign(ctx, "native-1:80") }()
	return won
}

// enters waits until an election has that many keys.
func (k *keys) enters(ctx context.Context, t *testing.T, want int64) {
	t.Helper()
	for {
		r, err := k.client.Get(ctx, k.prefix+"/e/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		if r.Count == want {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("the election has %d keys; want %d", r.Count, want)
		}
	}
}

// TestEtcdNatives has elect's participants and etcd's own candidates in one election. The order of
// entering decides, they take over from each other both ways, and tokens rise through all of them.
func TestEtcdNatives(t *testing.T) {
	long.Test(t, "it waits for leases")
	k := newKeys(t, server.StartEtcd(t))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	type victory struct {
		m   driver.Mandate
		err error
	}
	stands := func(e local) <-chan victory {
		won := make(chan victory, 1)
		go func() {
			m, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
			won <- victory{m, err}
		}()
		return won
	}

	// A native leads, one of ours waits, a native waits behind it.
	first := k.native(t, 4)
	if err := <-stand(ctx, first); err != nil {
		t.Fatal(err)
	}
	ours := stands(k.elector(t, "ours", nil))
	k.enters(ctx, t, 2)
	second := k.native(t, 4)
	next := stand(ctx, second)
	k.enters(ctx, t, 3)
	select {
	case v := <-ours:
		t.Fatalf("%v, %v: it does not wait for a native leader", v.m, v.err)
	case err := <-next:
		t.Fatalf("%v: the second native does not wait", err)
	case <-time.After(5 * time.Second): // longer than a lease
	}
	for s, err := range k.elector(t, "observer", nil).Watch(ctx) {
		if err != nil || s.Leader == nil || s.Leader.ID != "native-1:80" || uint64(s.Leader.Token) != uint64(first.Rev()) {
			t.Errorf("%+v, %v; want the native leader, with its revision %d as token", s, err, first.Rev())
		}
		break
	}

	// It resigns: ours leads, and the native behind it sees that.
	if err := first.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	v := <-ours
	if v.err != nil {
		t.Fatal(v.err)
	}
	if uint64(v.m.Token()) <= uint64(first.Rev()) {
		t.Errorf("token %v after the revision %d of a native leader", v.m.Token(), first.Rev())
	}
	r, err := second.Leader(ctx)
	if err != nil || r.Kvs[0].CreateRevision != int64(v.m.Token()) || !strings.Contains(string(r.Kvs[0].Value), `"id":"ours"`) {
		t.Errorf("%v, %v; want a native to see elect's leader with token %v", r, err, v.m.Token())
	}
	select {
	case err := <-next:
		t.Fatalf("%v: a native leads beside elect's leader", err)
	case <-time.After(5 * time.Second):
	}
	if err := v.m.Check(); err != nil {
		t.Errorf("%v; want it to lead on while a native waits", err)
	}

	// Ours releases: the native leads at once.
	ours = stands(k.elector(t, "ours-2", nil)) // behind it
	k.enters(ctx, t, 3)
	released(t, v.m)
	if err := <-next; err != nil {
		t.Fatal(err)
	}
	if second.Rev() <= int64(v.m.Token()) {
		t.Errorf("revision %d of a native after token %v", second.Rev(), v.m.Token())
	}

	// The native dies: ours leads when its lease has ended, and not before.
	second.session.Orphan()
	v = <-ours
	if v.err != nil {
		t.Fatal(v.err)
	}
	if uint64(v.m.Token()) <= uint64(second.Rev()) {
		t.Errorf("token %v after the revision %d of a native leader", v.m.Token(), second.Rev())
	}
	if r, err := k.client.TimeToLive(ctx, second.session.Lease()); err != nil || r.TTL > 0 {
		t.Errorf("%v, %v: it leads while the lease of a native leader lives", r, err)
	}
	released(t, v.m)
}

// TestEtcdNativeAfterDeath: when the process of elect's leader is killed, a native leads after its
// lease. When the process is frozen, it knows that it does not lead when it goes on.
func TestEtcdNativeAfterDeath(t *testing.T) {
	long.Test(t, "it waits for leases, in processes")
	k := newKeys(t, server.StartEtcd(t))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, freeze := range []bool{true, false} {
		p := k.participant(t, "e", "ours")
		m, err := p.Campaign(ctx, driver.Candidacy{Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		n := k.native(t, 4)
		won := stand(ctx, n)
		k.enters(ctx, t, 2)
		if freeze {
			p.Freeze(true)
		} else {
			p.Crash()
		}
		if err := <-won; err != nil {
			t.Fatal(err)
		}
		if freeze {
			p.Freeze(false)
			if err := m.Check(); err == nil {
				t.Error("it is proven right after it woke, while a native leads")
			}
			lost(t, ctx, m, driver.ErrSuperseded, driver.ErrExpired)
			released(t, m)
		}
		if n.Rev() <= int64(m.Token()) {
			t.Errorf("revision %d of a native after token %v", n.Rev(), m.Token())
		}
		if err := n.Resign(ctx); err != nil {
			t.Error(err)
		}
	}
}

// TestEtcdPhantom: a native candidate whose lease has ended while it waited can come out of its
// Campaign as a leader without a key (etcd issue 19597), beside the true leader. elect's waits for
// its turn, and is not deceived by a watch: its key is gone, so it enters again.
func TestEtcdPhantom(t *testing.T) {
	long.Test(t, "it waits for leases")
	k := newKeys(t, server.StartEtcd(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first := k.native(t, 30)
	if err := <-stand(ctx, first); err != nil {
		t.Fatal(err)
	}
	waiting, phantom := k.elector(t, "ours", nil), k.native(t, 30)
	won := make(chan driver.Mandate, 1)
	go func() {
		m, err := waiting.Campaign(ctx, driver.Candidacy{Exclusive: true})
		if err != nil {
			t.Error(err)
		}
		won <- m
	}()
	k.enters(ctx, t, 2)
	native := stand(ctx, phantom)
	k.enters(ctx, t, 3)
	r, err := k.client.Get(ctx, k.prefix+"/e/", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range r.Kvs[1:] { // of both that wait
		if _, err := k.client.Delete(ctx, string(kv.Key)); err != nil {
			t.Fatal(err)
		}
	}
	k.enters(ctx, t, 2) // elect's has entered again; the native does not notice
	select {
	case m := <-won:
		t.Fatalf("%v leads beside the first", m)
	case <-native:
		t.Fatal("the native leads beside the first")
	case <-time.After(time.Second):
	}
	if err := first.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	m := <-won
	if m == nil {
		t.FailNow()
	}
	switch err := <-native; {
	case errors.Is(err, context.DeadlineExceeded):
		t.Fatal("the native's Campaign has not returned")
	case err == nil:
		t.Log("the native takes itself for the leader, and has no key")
	}
	if err := m.Check(); err != nil {
		t.Errorf("%v; want the only candidate with a key to lead", err)
	}
	released(t, m)
}
