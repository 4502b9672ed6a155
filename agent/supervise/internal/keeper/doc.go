// Package keeper is the process that kills a family in time, and what it exchanges with its parent: see package
// supervise, which is the parent and has the promises.
//
// The package imports little, so that a keeper can begin before most of its program is initialized: see package early.
// Nothing here may import log/slog, path/filepath or net, which Go initializes after the packages of gRPC; a test of
// cmd/elect holds this.
//
// One goroutine, on the main thread, owns a keeper. A keeper reports its failures to the parent. If it cannot, it goes
// on: what it was last told stays in force.
package keeper
