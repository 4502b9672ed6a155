//go:build !mutants

package peer

import (
	"github.com/electd/elect/internal/protocol/quorum"
)

// There are no mutants in this build, and these do nothing.

func mutate(*quorum.Config) {}
