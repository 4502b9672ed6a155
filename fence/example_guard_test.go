package fence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/electd/elect/fence"
)

// A server of one's own checks the token of each request. A real one has a mark that is
// durable: fence/fencefile's, or fence/fencesql's.
func ExampleNewGuard() {
	guard, err := fence.NewGuard(new(fence.Memory), []fence.Resource{"orders"}, fence.GuardConfig{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	fmt.Println(guard.Claim(ctx, "orders", 41)) // before the first read
	write := func(token fence.Token, what string) {
		err := guard.Do(ctx, "orders", token, func(context.Context) error { // ends when a greater token comes
			fmt.Println("written:", what)
			return nil
		})
		if err != nil {
			fmt.Println(err, errors.Is(err, fence.ErrStale))
		}
	}
	write(41, "by the first leader")
	fmt.Println(guard.Claim(ctx, "orders", 42))
	write(41, "by the first leader, who has not heard")
	write(42, "by the second leader")
	// Output:
	// <nil>
	// written: by the first leader
	// <nil>
	// stale fencing token: 41 shown, the resource has seen 42 true
	// written: by the second leader
}

// What takes longer, or is not one function, has a pass, which ends when its work has.
func ExampleGuard_Begin() {
	guard, err := fence.NewGuard(new(fence.Memory), []fence.Resource{"orders"}, fence.GuardConfig{})
	if err != nil {
		panic(err)
	}
	pass, err := guard.Begin(context.Background(), "orders", 41)
	if err != nil {
		panic(err)
	}
	claimed := make(chan error)
	go func() { claimed <- guard.Claim(context.Background(), "orders", 42) }()
	<-pass.Context().Done()
	fmt.Println(context.Cause(pass.Context()))
	fmt.Println(pass.End()) // only now the greater token is admitted
	fmt.Println(<-claimed)
	// Output:
	// stale fencing token: 41 shown, the resource has seen 42
	// <nil>
	// <nil>
}

// The token of a term goes with its context, down to the clients that show it.
func ExampleNewContext() {
	ctx := fence.NewContext(context.Background(), 42) // term.Token()
	token, ok := fence.FromContext(ctx)
	fmt.Println(token, ok)
	_, ok = fence.FromContext(context.Background())
	fmt.Println(ok)
	// Output:
	// 42 true
	// false
}
