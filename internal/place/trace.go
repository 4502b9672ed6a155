package place

import "context"

type traceKey struct{}

// WithTrace returns a context with which the packages above report each operation on the file system before they do
// it: they call before with its name and its file. An error makes the operation fail. It is for tests, which stop a
// process there; the names may change. The working goroutine calls the function.
func WithTrace(ctx context.Context, before func(operation string) error) context.Context {
	return context.WithValue(ctx, traceKey{}, before)
}

// TraceOf returns the function of [WithTrace], or one that does nothing.
func TraceOf(ctx context.Context) func(operation string) error {
	if before, ok := ctx.Value(traceKey{}).(func(string) error); ok {
		return before
	}
	return func(string) error { return nil }
}
