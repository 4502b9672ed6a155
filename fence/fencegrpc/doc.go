// Package fencegrpc guards gRPC services by fencing tokens.
//
// A [Server] has the interceptors of a server: each call shows RESOURCE;TOKEN ([fence.Shown]) in its metadata, and
// runs as a [fence.Guard] admits it. When a greater token comes, the contexts of calls with smaller ones end, their
// streams fail, and the greater one is admitted when their handlers have returned. [Client] has the interceptors of a
// client, which show the token of the context and translate refusals into errors. A new leader calls [Client.Claim]
// before it reads anything.
//
// A refusal is a status with a google.rpc.ErrorInfo of [Domain] as a detail, whose reason is
// the [fence.Result], and whose metadata are the resource, the token shown and the highest:
//
//	STALE                       FAILED_PRECONDITION
//	MISSING, MALFORMED, FOREIGN INVALID_ARGUMENT
//	BUSY, FAILED                UNAVAILABLE
//
// After these the handler has not run. ENDED is ABORTED: the handler was running when a greater token came, and it is
// not known what it did before.
//
// The package is safe for concurrent use. If the mark cannot be read or raised, nothing passes.
package fencegrpc
