//go:build linux && cgo

package leases_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/long"
)

// TestEtcdWish: an operator's wish ends the term of elect's leader at once. A native candidate that
// waits behind it leads next, and is not asked itself.
func TestEtcdWish(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	t.Parallel()
	k := newKeys(t, startEtcd(t))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	ours, operator := k.elector(t, "ours", nil), k.elector(t, "operator", nil).Elector.(driver.Resigner)
	m := ours.campaign(ctx)
	native := k.native(t, 60)
	next := stand(ctx, native)
	k.enters(ctx, t, 2)
	if err := operator.Resign(ctx, m.Token()+1); !errors.Is(err, driver.ErrSuperseded) {
		t.Errorf("another token: %v; want ErrSuperseded", err)
	}
	if err := operator.Resign(ctx, m.Token()); err != nil {
		t.Fatal(err)
	}
	lost(t, ctx, m, driver.ErrResigned)
	select {
	case err := <-next:
		t.Errorf("%v: the native has stopped waiting, and the work has not returned", err)
	default:
	}
	released(t, m)
	if err := <-next; err != nil {
		t.Fatal(err)
	}
	before, err := k.client.Get(ctx, native.Key())
	if err != nil {
		t.Fatal(err)
	}
	if err := operator.Resign(ctx, 0); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a native: %v; want ErrUnsupported", err)
	}
	after, err := k.client.Get(ctx, native.Key())
	if err != nil {
		t.Fatal(err)
	}
	if len(before.Kvs) != 1 || len(after.Kvs) != 1 || before.Kvs[0].ModRevision != after.Kvs[0].ModRevision || before.Header.Revision != after.Header.Revision {
		t.Errorf("%v became %v", before, after)
	}
	if r, err := k.client.Get(ctx, k.prefix+"/e.elect.wish"); err != nil || len(r.Kvs) != 0 {
		t.Errorf("the wish outlives its leader: %v, %v", r, err)
	}
	if err := native.Resign(ctx); err != nil {
		t.Error(err)
	}
}
