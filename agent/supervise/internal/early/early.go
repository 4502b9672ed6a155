//go:build unix && !aix && !netbsd && !solaris

// Package early runs the keeper of a program before most packages of the program are initialized, if the keeper needs
// no witness. Package supervise imports it for that effect alone.
//
// Go initializes packages in the order of their import paths, each as soon as all that it imports is initialized. This
// package and package keeper import little, and nothing late in that order, such as log/slog. So a keeper does not wait
// for what a large program initializes: gRPC and its messages take a large one several milliseconds, which a takeover
// would wait for. No keeper runs this way in a program whose main does not call supervise.KeeperMain: such a program
// starts none. In all other processes the package does nothing.
package early

import "github.com/electd/elect/agent/supervise/internal/keeper"

var _ = keeper.Early()
