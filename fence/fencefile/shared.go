package fencefile

import "context"

type sharedKey struct{}

// WithSharedPlace returns a context with which a process of root works in directories that
// other users can write to, or can put another one in the place of. Without it, they are
// refused: what root reads and writes there could be another user's choice. To other users
// it means nothing.
func WithSharedPlace(ctx context.Context) context.Context {
	return context.WithValue(ctx, sharedKey{}, true)
}

func isShared(ctx context.Context) bool {
	shared, _ := ctx.Value(sharedKey{}).(bool)
	return shared
}
