// Package nats is the module of nats-server as its makers build it, so that the tests that run it need none of what it
// is made of. It has no code.
package nats
