package blazingmq

import (
	"cmp"
	"fmt"
)

// LSN is a leader sequence number: the Counter-th message of the leader of Term,
// counted from 1. Messages of an older leader are older, whatever their counter.
// It is only as good as the term is unique; see the package's comment.
type LSN struct{ Term, Counter uint64 }

// Compare orders by term, then by counter.
func (l LSN) Compare(o LSN) int {
	return cmp.Or(cmp.Compare(l.Term, o.Term), cmp.Compare(l.Counter, o.Counter))
}

// String is the number as the article writes it, such as (5, 2).
func (l LSN) String() string { return fmt.Sprintf("(%d, %d)", l.Term, l.Counter) }

// LSN is that of the newest leader's message that this participant sent or
// followed in this life.
func (m *Machine) LSN() LSN { return m.lsn }
