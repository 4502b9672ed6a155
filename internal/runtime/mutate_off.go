//go:build !mutants

package runtime

import "github.com/electd/elect/internal/protocol"

// There are no mutants in this build, and these do nothing.

func misread(*protocol.Input, protocol.Reading) {}

func misorder(*Runner) bool { return false }
