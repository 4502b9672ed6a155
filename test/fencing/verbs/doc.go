// Package verbs holds the test of elect fence install, claim, status and uninstall at
// real servers. It has no code beside its tests, each of which runs the command as a user
// would; a server that is not installed skips its test, and fails it in CI.
package verbs
