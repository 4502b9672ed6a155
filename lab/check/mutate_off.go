//go:build !mutants

package check

import (
	"errors"

	"github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/internal/protocol/quorum"
)

// ErrNoMutants says that rules cannot be switched off in this build.
var ErrNoMutants = errors.New("this build has no mutants; build it with -tags mutants")

func mutate(*quorum.Config, string) error { return ErrNoMutants }

func mutateGroup(*group.MemberConfig, *group.CoordinatorConfig, string) error { return ErrNoMutants }
