// Package http has the proof that fence/fencehttp and elect fence proxy protect the server behind
// them: leaders that are processes, a proxy that is the finished command, and an upstream that is a
// process of its own without fencing. It also shows how similar designs fail.
package http
