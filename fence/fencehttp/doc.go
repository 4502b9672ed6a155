// Package fencehttp guards what is written over HTTP. A leader shows its token in the
// header [Header] of each request, in the form RESOURCE;TOKEN. A [Handler] in front of a
// server's own handler, or in front of a server that knows nothing of fencing
// ([NewProxy]), admits requests by it with a [fence.Guard]; a [Transport] shows the
// token of the request's context, and makes errors of refusals.
//
// A refusal says what it is in the header [ResultHeader] and in a small JSON body, and
// nothing of the request was applied:
//
//	400  malformed  the header is not RESOURCE;TOKEN, or there are several, or no leader can have the token
//	403  unclaimed  a greater token, or a claim, of a request that may not raise the mark
//	412  stale      a greater token was shown; Fencing-Token says which
//	421  foreign    the resource is not guarded here
//	428  missing    no token
//	503  busy       the work of smaller tokens has not ended; Retry-After says when to ask again
//	503  failed     the mark could not be read or raised; the same
//
// Only requests that [Config.MayClaim] lets raise the mark: a mark that is raised too far
// keeps all leaders out. The others, with the token of the mark, need no credential here.
//
// A foreign resource is 421 (Misdirected Request, RFC 9110, section 15.5.20) and not 403:
// the request may be right elsewhere, was not looked at here, and may be repeated there
// whatever its method is.
//
// The result is the guard's word. A [Handler] takes that header away from what is behind it,
// so that nobody else can say that nothing was applied.
//
// A request is at work until its handler has returned, streams and upgraded connections
// included. A greater token waits for that ([fence.GuardConfig.Drain] ends the contexts
// of those of smaller tokens, and then their connections are cut).
//
// # What a proxy cannot know
//
// A proxy that cuts a request closes its connection to the upstream. Of a request that had
// been sent in full the upstream may still be at work, and finish after the greater
// token was admitted. Only the upstream knows. So let Drain be longer than the longest
// request, or negative. The same holds where the connection to the upstream breaks by
// itself: such a request counts as at work for [Config.Lost] more. And [Settle] the mark by
// as much: a proxy that is killed closes its connections, too, and the next process knows
// nothing of them.
//
// An upstream that answers first and works afterwards, as with 202 (Accepted), is at work
// unseen. What it does then has to check the token itself.
//
// Nothing here is a package-level state; all types are safe for concurrent use.
package fencehttp
