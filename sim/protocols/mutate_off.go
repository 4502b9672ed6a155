//go:build !mutants

package protocols

import (
	"github.com/electd/elect/protocol/lease"
	"github.com/electd/elect/protocol/queue"
	"github.com/electd/elect/protocol/quorum"
)

// There are no mutants in this build.
func mutateQuorum(*quorum.Config, string) {}
func mutateLease(*lease.Config, string)   {}
func mutateQueue(*queue.Config, string)   {}
