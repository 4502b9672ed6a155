//go:build !mutants

package protocols

import (
	"github.com/electd/elect/internal/protocol/lease"
	"github.com/electd/elect/internal/protocol/queue"
	"github.com/electd/elect/internal/protocol/quorum"
)

// There are no mutants in this build.
func mutateQuorum(*quorum.Config, string) {}
func mutateLease(*lease.Config, string)   {}
func mutateQueue(*queue.Config, string)   {}
