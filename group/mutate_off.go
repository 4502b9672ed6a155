//go:build !mutants

package group

import machine "github.com/electd/elect/internal/protocol/group"

// This build has no mutants, and these functions do nothing.

func mutateMember(*machine.MemberConfig)           {}
func mutateCoordinator(*machine.CoordinatorConfig) {}
