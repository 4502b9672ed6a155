// Package server starts the servers that the tests of fencing need: each on a free
// loopback port, with a temporary directory, as an unprivileged user where the server
// wants that, and gone with the test. What is not installed skips the test, and fails it
// in CI.
package server
