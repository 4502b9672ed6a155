package fence

import "context"

type contextKey struct{}

// NewContext returns a context that carries the token of the term for whose sake
// its work is done, so that clients further down can show it: those of
// fence/fencehttp and fence/fencegrpc do. What a resource checks is what was
// shown to it, never the context.
func NewContext(ctx context.Context, token Token) context.Context {
	return context.WithValue(ctx, contextKey{}, token)
}

// FromContext returns the token that the context carries, and false when it
// carries none.
func FromContext(ctx context.Context) (Token, bool) {
	token, ok := ctx.Value(contextKey{}).(Token)
	return token, ok && token.Valid()
}
