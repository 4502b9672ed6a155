//go:build mutants

package redis

import (
	"testing"

	"github.com/electd/elect/internal/mutation/teeth"
)

// TestTeeth makes the mistakes that tests of this package catch.
func TestTeeth(t *testing.T) { teeth.Hunt(t, "cmd/elect/internal/recipe/redis") }
