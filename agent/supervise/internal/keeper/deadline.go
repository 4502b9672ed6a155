//go:build unix && !aix && !netbsd && !solaris

package keeper

import (
	"time"

	"github.com/electd/elect/internal/clock"
)

// KillTime is how long before the end of a lease the keeper begins to kill a small
// family. It begins earlier if the family is large, see keeper.count. To kill a small
// family takes 2 to 7 ms; on a busy machine 27 ms were seen.
const KillTime = 20 * time.Millisecond

// LeaseEnd is the end of the lease whose deadline is that; 0 is never.
func LeaseEnd(deadline int64) int64 {
	if deadline == 0 {
		return 0
	}
	return deadline + int64(KillTime)
}

// Shared is an instant in the form for the keeper, where 0 is never.
func Shared(at clock.Boot) int64 { return max(int64(at), 1) }
