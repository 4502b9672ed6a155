package fenceetcd_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fenceetcd"
)

// A leader of any election claims before it reads, and writes in guarded transactions. The
// resource was installed before, once.
func Example() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"localhost:2379"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()

	orders, err := fenceetcd.New(client, "orders", fenceetcd.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	token := fence.Token(42) // term.Token()
	if err := orders.Claim(ctx, token); err != nil {
		fmt.Println(err)
		return
	}
	_, err = orders.Write(ctx, token, clientv3.OpPut("orders/7", "shipped"))
	switch {
	case errors.Is(err, fence.ErrStale):
		fmt.Println("another one leads, and nothing was written")
	case errors.Is(err, fence.ErrUnknownOutcome):
		fmt.Println("it may have been written: read before doing it again")
	}
}

// A leader of an election in the same etcd needs no mark.
func ExampleKeyOf() {
	var client *clientv3.Client // connected
	lead := func(ctx context.Context) error {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(5))
		if err != nil {
			return err
		}
		defer session.Close() // the next term begins with another one
		election := concurrency.NewElection(session, "orders/leader")
		if err := election.Campaign(ctx, "this one"); err != nil {
			return err
		}
		key := fenceetcd.KeyOf(election)
		if err := key.Claim(ctx, client); err != nil { // before anything is read
			return err
		}
		_, err = key.Write(ctx, client, clientv3.OpPut("orders/7", "shipped"))
		return err
	}
	_ = lead
}

// The token of a term guards what is elsewhere, too.
func ExampleKey_Token() {
	key := fenceetcd.Key{Name: "orders/leader/694d7", Revision: 1234}
	fmt.Println(key.Token())
	key.Era = 1 // etcd was restored from a backup
	fmt.Println(key.Token())
	// Output:
	// 1234 <nil>
	// 281474976711890 <nil>
}
