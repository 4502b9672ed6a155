//go:build !mutants

package runtime

import "github.com/electd/elect/internal/protocol"

// This build has no mutants, and these functions do nothing.

func misread(*protocol.Input, protocol.Reading) {}

func misorder(*Runner) bool { return false }
