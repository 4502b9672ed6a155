//go:build !mutants

package register

import "github.com/electd/elect/internal/protocol/lease"

// This build has no mutants, and this function does nothing.

func mutate(*lease.Config) {}
