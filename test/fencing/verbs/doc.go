// Package verbs holds the test of elect fence install, claim, status and uninstall at real servers.
// Each test runs the command as a user would; it is skipped if its server is not installed, and
// fails in CI.
package verbs
