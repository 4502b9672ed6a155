//go:build mutants

package check

import (
	"errors"
	"fmt"
	"slices"

	"github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/internal/protocol/quorum"
)

// ErrNoMutants says that rules cannot be switched off in this build.
var ErrNoMutants = errors.New("this build has mutants")

func mutate(c *quorum.Config, name string) error {
	if !slices.ContainsFunc(quorum.Mutants(), func(m quorum.Mutant) bool { return m.Name == name }) {
		return fmt.Errorf("mutant %q; package quorum lists those that there are", name)
	}
	c.Mutate(name)
	return nil
}

func mutateGroup(m *group.MemberConfig, c *group.CoordinatorConfig, name string) error {
	if !slices.ContainsFunc(group.Mutants(), func(m group.Mutant) bool { return m.Name == name }) {
		return fmt.Errorf("mutant %q; package group lists those that there are", name)
	}
	m.Mutate(name)
	c.Mutate(name)
	return nil
}
