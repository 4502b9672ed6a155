package place

import "context"

type traceKey struct{}

// WithTrace returns a context with which the packages above tell of each operation on the file
// system before they do it, by its name and what it is done to. An error has the operation
// fail. It is for tests, which stop a process there; the names are not promised. The function
// is called by the goroutine that works.
func WithTrace(ctx context.Context, before func(operation string) error) context.Context {
	return context.WithValue(ctx, traceKey{}, before)
}

// TraceOf returns what [WithTrace] was given, or a function that does nothing.
func TraceOf(ctx context.Context) func(operation string) error {
	if before, ok := ctx.Value(traceKey{}).(func(string) error); ok {
		return before
	}
	return func(string) error { return nil }
}
