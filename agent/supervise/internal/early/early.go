//go:build unix && !aix && !netbsd && !solaris

// Package early runs the keeper of a program before most packages of the program are initialized, if the keeper needs
// no witness. Package supervise imports it for that effect alone.
//
// Go initializes packages in the order of their import paths, each as soon as all that it imports is initialized. This
// package and package keeper import little, and nothing late in that order, such as log/slog. So a takeover does not
// wait for what a large program initializes, such as gRPC and its messages, which take several milliseconds. A program
// whose main does not call supervise.KeeperMain starts no keepers. In a process that is no keeper the package does
// nothing.
package early

import "github.com/electd/elect/agent/supervise/internal/keeper"

var _ = keeper.Early()
