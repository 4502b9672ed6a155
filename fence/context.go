package fence

import "context"

type contextKey struct{}

// NewContext returns a context that carries the token of a term. Clients further down, such as those of fence/fencehttp
// and fence/fencegrpc, show it. A resource checks what was shown to it, never the context.
func NewContext(ctx context.Context, token Token) context.Context {
	return context.WithValue(ctx, contextKey{}, token)
}

// FromContext returns the token that the context carries, and false if it carries none.
func FromContext(ctx context.Context) (Token, bool) {
	token, ok := ctx.Value(contextKey{}).(Token)
	return token, ok && token.Valid()
}
