// Package fencehttp guards writes over HTTP. A leader shows its token in the header [Header] of each request, as
// RESOURCE;TOKEN. A [Handler] in front of a server's own handler, or of a server without fencing ([NewProxy]), admits
// requests by it with a [fence.Guard]. A [Transport] shows the token of the request's context, and translates refusals
// into errors. All types are safe for concurrent use.
//
// A refusal has its result in the header [ResultHeader] and in a small JSON body, and nothing of the request was
// applied. A Handler removes that header from the answers behind it, so that only the guard can refuse:
//
//	400  malformed  the header is not RESOURCE;TOKEN, or there are several, or no leader can have the token
//	403  unclaimed  a greater token, or a claim, of a request that may not raise the mark
//	412  stale      a greater token was shown; Fencing-Token says which
//	421  foreign    the resource is not guarded here; the request may be repeated elsewhere (RFC 9110, 15.5.20)
//	428  missing    no token
//	503  busy       the work of smaller tokens has not ended; Retry-After says when to ask again
//	503  failed     the mark could not be read or raised; the same
//
// Only requests that [Config].MayClaim allows raise the mark: one that is raised too far excludes all leaders. The
// others, with the token of the mark, need no credential here.
//
// A request is in flight until its handler has returned, including streams and upgraded connections. A greater token
// waits for that; [fence.GuardConfig].Drain ends the contexts of smaller ones, and then their connections are cut.
//
// # What a proxy cannot know
//
// The upstream of a request that was sent in full and then cut may still work on it, after the greater token was
// admitted. So Drain should be longer than the longest request, or negative. If the connection to the upstream breaks
// by itself the request counts as in flight for a further [Config].Lost; [Settle] does the same for a proxy that was
// killed. Work that an upstream does after its answer, as with 202 (Accepted), has to check the token itself.
package fencehttp
