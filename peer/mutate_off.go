//go:build !mutants

package peer

import "github.com/electd/elect/protocol/quorum"

// mutate does nothing: there are no mutants in this build.
func mutate(*quorum.Config) {}
