//go:build linux

package etcd_test

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/electd/elect/fence/fenceetcd"
	"github.com/electd/elect/test/fencing/compare"
	"github.com/electd/elect/test/fencing/server"
)

// BenchmarkWrite puts a key with each guard and without one, at the same server.
func BenchmarkWrite(b *testing.B) {
	c := server.StartEtcd(b).Client(b)
	f := guard(b, c, "r")
	ctx := b.Context()
	if err := f.Install(ctx); err != nil {
		b.Fatal(err)
	}
	grant, err := c.Grant(ctx, 3600)
	if err != nil {
		b.Fatal(err)
	}
	made, err := c.Put(ctx, "election/leader", "", clientv3.WithLease(grant.ID))
	if err != nil {
		b.Fatal(err)
	}
	key := fenceetcd.Key{Name: "election/leader", Revision: made.Header.Revision}
	for name, guarded := range map[string]func(clientv3.Op) error{
		"mark": func(op clientv3.Op) error { _, err := f.Write(ctx, 42, op); return err },
		"key":  func(op clientv3.Op) error { _, err := key.Write(ctx, c, op); return err },
	} {
		b.Run(name, func(b *testing.B) {
			op := clientv3.OpPut("k", "a value of some thirty characters")
			compare.Guarded(b, 1, func() error { _, err := c.Do(ctx, op); return err }, func() error { return guarded(op) })
		})
	}
}
