//go:build linux

package etcd_test

import (
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/electd/elect/fence/fenceetcd"
	"github.com/electd/elect/test/fencing/server"
)

// BenchmarkWrite puts a key with each guard and without one, in turns, at the same server.
// bare/guarded is how many guarded writes there are in the time of a bare one, of the medians.
func BenchmarkWrite(b *testing.B) {
	c := server.StartEtcd(b).Client(b)
	f := fenceetcd.New(c, fenceetcd.Config{})
	ctx := b.Context()
	if err := f.Add(ctx, "r"); err != nil {
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
		"mark": func(op clientv3.Op) error { _, err := f.Write(ctx, "r", 42, op); return err },
		"key":  func(op clientv3.Op) error { _, err := key.Write(ctx, c, op); return err },
	} {
		b.Run(name, func(b *testing.B) {
			op := clientv3.OpPut("k", "a value of some thirty characters")
			var with, without []time.Duration
			for b.Loop() {
				began := time.Now()
				if _, err := c.Do(ctx, op); err != nil {
					b.Fatal(err)
				}
				between := time.Now()
				if err := guarded(op); err != nil {
					b.Fatal(err)
				}
				without, with = append(without, between.Sub(began)), append(with, time.Since(between))
			}
			slices.Sort(without)
			slices.Sort(with)
			bare, fenced := without[len(without)/2], with[len(with)/2]
			b.ReportMetric(float64(bare.Microseconds()), "bare-µs")
			b.ReportMetric(float64(fenced.Microseconds()), "guarded-µs")
			b.ReportMetric(bare.Seconds()/fenced.Seconds(), "bare/guarded")
		})
	}
}
