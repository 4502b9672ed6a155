// Package electhttp shows one election over HTTP: to load balancers, to probes of an orchestrator, to programs in any
// language that want to know who leads, and to operators.
//
// A [Handler] learns of its own participant from the events of the election, and of the leader from one subscription,
// which all clients share. No request asks the back end, except the verbs of operators. docs/http.md lists the paths
// and what each answer means; GET /openapi.json describes them for programs.
//
// [NewKeys] serves who holds which key of a group, and asks a client of that group.
//
// Any number of goroutines may use a Handler. Nothing in it delays the election: an event is stored under a lock that
// is held for a few assignments, and each client is served by its own goroutine. A client that reads slowly misses all
// events but the last. When the back end fails, answers are marked stale.
package electhttp
