// Package exactlyonce holds the test of examples/exactlyonce: three schedulers at one
// PostgreSQL, which are killed and frozen at random moments, and a service outside that
// keeps idempotency keys. Every time at which the job was due must have had its effect
// once. It has no code beside its tests, which are of one goroutine each but for the
// service; a failure logs what the schedulers have said.
package exactlyonce
