package blazingmq

import (
	"cmp"
	"fmt"
)

// LSN is a leader sequence number: message number Counter of the leader of Term, counted from 1.
// Messages of an earlier term are older, whatever their counter. Two leaders in one term can use
// the same LSN; see the package comment.
type LSN struct{ Term, Counter uint64 }

// Compare orders by term, then by counter.
func (l LSN) Compare(o LSN) int {
	return cmp.Or(cmp.Compare(l.Term, o.Term), cmp.Compare(l.Counter, o.Counter))
}

// String is the number as the article writes it, such as (5, 2).
func (l LSN) String() string { return fmt.Sprintf("(%d, %d)", l.Term, l.Counter) }

// LSN is that of the newest leader message that this participant has sent or followed since it
// started.
func (m *Machine) LSN() LSN { return m.lsn }
