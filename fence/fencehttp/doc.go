// Package fencehttp guards writes over HTTP. A leader shows its token in the header [Header] of each request, in the
// form RESOURCE;TOKEN. A [Handler] in front of a server's own handler, or in front of a server without fencing
// ([NewProxy]), admits requests by it with a [fence.Guard]. A [Transport] shows the token of the request's context,
// and translates refusals into errors.
//
// A refusal has its result in the header [ResultHeader] and in a small JSON body, and nothing of the request was
// applied:
//
//	400  malformed  the header is not RESOURCE;TOKEN, or there are several, or no leader can have the token
//	403  unclaimed  a greater token, or a claim, of a request that may not raise the mark
//	412  stale      a greater token was shown; Fencing-Token says which
//	421  foreign    the resource is not guarded here
//	428  missing    no token
//	503  busy       the work of smaller tokens has not ended; Retry-After says when to ask again
//	503  failed     the mark could not be read or raised; the same
//
// Only requests that [Config.MayClaim] allows raise the mark: a mark that is raised too far excludes all leaders. The
// others, with the token of the mark, need no credential here.
//
// A foreign resource is 421 (Misdirected Request, RFC 9110, section 15.5.20) and not 403: the request may be right
// elsewhere, was not processed here, and may be repeated there with any method.
//
// The result comes from the guard only. A [Handler] removes that header from the answers of the handler behind it, so
// that only the guard can say that nothing was applied.
//
// A request is in flight until its handler has returned, including streams and upgraded connections. A greater token
// waits for that ([fence.GuardConfig.Drain] ends the contexts of those of smaller tokens, and then their connections
// are cut).
//
// # What a proxy cannot know
//
// A proxy that cuts a request closes its connection to the upstream. If the request had been sent in full the
// upstream may still work on it, and finish after the greater token was admitted. Only the upstream knows. So Drain
// should be longer than the longest request, or negative. The same holds if the connection to the upstream breaks by
// itself: such a request counts as in flight for a further [Config.Lost]. [Settle] delays the mark by as much: a
// proxy that is killed closes its connections too, and the next process does not know them.
//
// A proxy does not see the work of an upstream that answers first and works afterwards, as with 202 (Accepted). Such
// work has to check the token itself.
//
// The package has no state of its own; all types are safe for concurrent use.
package fencehttp
