// Package server starts the servers that the tests of fencing need: each on a free loopback port,
// with a temporary directory, as an unprivileged user where the server requires that, until the end
// of the test. A test is skipped if its server is not installed, and fails in CI.
package server
