// Package members is what the protocols share whose members are a plain list of ids: the check of
// that list, a member's place in it, and sets of members.
//
// A list is shared by all machines of a world and never written. A [Set] belongs to one machine,
// and to the goroutine that owns it; it allocates only when it is made. The only errors are those
// of wrong input.
package members

import (
	"fmt"
	"slices"

	"github.com/electd/elect/internal/protocol"
)

// Max is the greatest number of members.
const Max = 10_000

// Check says what is invalid: all must be 1 to [Max] members, each once, ordered by
// [protocol.NodeID.Compare], and self one of them with a well-formed id. Of the other members it
// checks only the order, because a world of n machines makes n checks: each checks its own id.
func Check(self protocol.NodeID, all []protocol.NodeID) error {
	if _, err := protocol.ParseNodeID(string(self)); err != nil {
		return fmt.Errorf("self: %w", err)
	}
	if n := len(all); n < 1 || n > Max {
		return fmt.Errorf("%d members; want 1 to %d", n, Max)
	}
	for i := 1; i < len(all); i++ {
		if all[i-1].Compare(all[i]) >= 0 {
			return fmt.Errorf("member %q after %q; want each once, ordered by id", all[i], all[i-1])
		}
	}
	if Place(all, self) < 0 {
		return fmt.Errorf("%s is none of the %d members; want it among them", self, len(all))
	}
	return nil
}

// Place is where id stands among all, counted from 0; -1 if it does not.
func Place(all []protocol.NodeID, id protocol.NodeID) int {
	i, ok := slices.BinarySearchFunc(all, id, protocol.NodeID.Compare)
	if !ok {
		return -1
	}
	return i
}
