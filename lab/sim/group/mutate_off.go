//go:build !mutants

package group

import machine "github.com/electd/elect/internal/protocol/group"

const mutated = false

// There are no mutants of the machines in this build.
func mutateMember(*machine.MemberConfig, string)           {}
func mutateCoordinator(*machine.CoordinatorConfig, string) {}
