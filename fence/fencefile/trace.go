package fencefile

import "context"

type traceKey struct{}

// WithTrace returns a context with which each operation on the file system is told
// before it is done, by its name and what it is done to. It is for tests, which can
// stop a process there; the names are not promised. The function is called by the
// goroutine that works.
func WithTrace(ctx context.Context, before func(operation string)) context.Context {
	return withTrace(ctx, func(operation string) error {
		before(operation)
		return nil
	})
}

// withTrace is WithTrace for a function that can have the operation fail.
func withTrace(ctx context.Context, before func(operation string) error) context.Context {
	return context.WithValue(ctx, traceKey{}, before)
}

func traceOf(ctx context.Context) func(string) error {
	if before, ok := ctx.Value(traceKey{}).(func(string) error); ok {
		return before
	}
	return func(string) error { return nil }
}
