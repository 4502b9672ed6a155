// Package dial lets a test choose how clients of peers connect: by a function that a
// context carries. A context may be used by any number of goroutines.
package dial

import (
	"context"
	"net"
)

// A Func connects with an address by TCP or what stands for it.
type Func func(ctx context.Context, addr string) (net.Conn, error)

type key struct{}

// By returns a context whose clients connect by f.
func By(ctx context.Context, f Func) context.Context { return context.WithValue(ctx, key{}, f) }

// Of returns the function that ctx carries, nil if there is none.
func Of(ctx context.Context) Func {
	f, _ := ctx.Value(key{}).(Func)
	return f
}
