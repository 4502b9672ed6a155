package group

import (
	"errors"

	"github.com/electd/elect/group/placement"
)

// standard is the placement of groups that bring none.
func standard() (placement.Placer, error) {
	return nil, errors.New("package placement has no planner yet")
}
