//go:build !mutants

package peer

import (
	"github.com/electd/elect/internal/protocol/quorum"
)

// This build has no mutants, and these functions do nothing.

func mutate(*quorum.Config) {}
