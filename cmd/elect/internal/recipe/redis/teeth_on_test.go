//go:build mutants

package redis

import (
	"testing"

	"github.com/electd/elect/internal/mutation/teeth"
)

// TestDrivingTeeth makes the mistakes that tests of this package catch.
func TestDrivingTeeth(t *testing.T) { teeth.Hunt(t, "cmd/elect/internal/recipe/redis") }
