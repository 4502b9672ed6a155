//go:build linux && cgo

package leases_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
)

// TestNATSMeeting: of writes at three servers that meet, with one revision as their condition, one is carried out. Servers
// before 2.10 break that, and are refused: with one of these in ELECT_TEST_NATS_SERVER this fails.
func TestNATSMeeting(t *testing.T) {
	long.Test(t, "it starts three servers")
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var values []jetstream.KeyValue
	for i, m := range server.StartNATSCluster(t, 3) {
		c, err := nats.Connect("nats://"+m.Addr, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		js, err := jetstream.New(c)
		if err != nil {
			t.Fatal(err)
		}
		var kv jetstream.KeyValue
		for deadline := time.Now().Add(time.Minute); kv == nil; <-time.After(100 * time.Millisecond) {
			asking, end := context.WithTimeout(ctx, 5*time.Second)
			if i == 0 {
				kv, err = js.CreateKeyValue(asking, jetstream.KeyValueConfig{Bucket: "meeting", Replicas: 3})
			} else {
				kv, err = js.KeyValue(asking, "meeting")
			}
			if end(); err != nil && time.Now().After(deadline) {
				t.Fatal(err)
			} else if err != nil {
				kv = nil
			}
		}
		values = append(values, kv)
	}
	var last uint64
	for deadline := time.Now().Add(30 * time.Second); last == 0; <-time.After(100 * time.Millisecond) {
		var err error
		if last, err = values[0].Put(ctx, "k", []byte("0")); err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	for round := range 50 {
		const meet = 24
		done, condition := make(chan uint64), last
		for i := range meet {
			go func() {
				revision, err := values[i%len(values)].Update(ctx, "k", []byte("1"), condition)
				if err != nil {
					revision = 0
				}
				done <- revision
			}()
		}
		carried := 0
		for range meet {
			if revision := <-done; revision != 0 {
				carried++
				last = max(last, revision)
			}
		}
		if carried > 1 {
			t.Fatalf("round %d: %d writes with one condition were carried out; want one", round, carried)
		}
	}
}
