package fenceredis_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fenceredis"
)

// A leader claims before it reads, and shows its token with each write. The resource was
// installed before, once.
func Example() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	orders, err := fenceredis.New(client, "orders", fenceredis.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, token := context.Background(), fence.Token(42) // term.Token()
	if err := orders.Claim(ctx, token); err != nil {
		fmt.Println(err)
		return
	}
	_, err = orders.Write(ctx, token,
		fenceredis.Set(orders.Key("total"), 7),
		fenceredis.HSet(orders.Key("last"), "id", 12))
	switch {
	case errors.Is(err, fence.ErrStale):
		fmt.Println("another one leads, and nothing was written")
	case errors.Is(err, fence.ErrUnknownOutcome):
		fmt.Println("it may have been written: read before doing it again")
	}
}

// What depends on what is there is a script. It finds its keys and arguments as any script
// of EVAL does, and the mark is not among them.
func ExampleGuard_Eval() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	orders, err := fenceredis.New(client, "orders", fenceredis.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	take := fenceredis.NewScript(`
local left = tonumber(redis.call('GET', KEYS[1]) or '0') - ARGV[1]
if left >= 0 then
  redis.call('SET', KEYS[1], left)
end
return left`)
	left, err := orders.Eval(context.Background(), 42, take, []string{orders.Key("stock")}, 3)
	fmt.Println(left, err)
}

// What is not a key of the resource is refused before anything is sent.
func ExampleGuard_Write() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	orders, _ := fenceredis.New(client, "orders", fenceredis.Config{})
	ctx := context.Background()
	_, err := orders.Write(ctx, 42, fenceredis.Set("total", 7))
	fmt.Println(err)
	_, err = orders.Write(ctx, 0, fenceredis.Set(orders.Key("total"), 7))
	fmt.Println(err)
	// Output:
	// no such guarded resource: the key "total" is not of orders; want {orders} in it, first
	// no fencing token shown: orders is guarded, and wants the token of the term that writes
}
