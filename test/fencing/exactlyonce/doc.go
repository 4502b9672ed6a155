// Package exactlyonce holds the test of examples/exactlyonce: three schedulers at one PostgreSQL,
// which are killed and frozen at random moments, and a service outside that keeps idempotency keys.
// Every time at which the job was due must have had its effect once. A failure logs the output of
// the schedulers.
package exactlyonce
