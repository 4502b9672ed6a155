package peer

import (
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// An election that has grown has voters that its founders' URL does not list. A founder that lost its disk and starts
// with its old URL may need no other voter to found the election again. That would be a second election with the
// same name and with tokens of its own. Such a node is apart. It learns so from the nodes of the first election: they
// call it by its id and refuse its directory.
//
// A node believes them only if all of these hold:
//
//   - The caller has told, in a Hello that its connection vouches for, that it has a membership of a version above 1:
//     one that a leader made, with a majority.
//   - The caller knows this node by another directory. A membership never changes directly from one directory of an
//     id to another. A membership without that id is settled in between. From then on version 1 has no majority, and
//     cannot elect.
//   - This node has version 1, or none. With a later version it is a voter because a leader asked its directory, and
//     then the caller may be the one that is wrong.
//   - At least as many callers say so as this node needs to be elected: one if it is alone. So a single caller from
//     elsewhere ends no leader that others follow. Where the first election can have a leader there are always as
//     many: more than half of its voters, and this node's own are fewer than half.
//
// A node that is apart ends its term at once, and neither sends nor receives any more. It marks its directory as
// void, so that it has no later life.

// loneFounder is how long a voter that founds an election by itself, with an empty directory, waits for a node that
// knows it. Nodes dial each other once a second.
const loneFounder = 1500 * time.Millisecond // and at least a promise

// maxRivals bounds how many callers with a changed membership are remembered.
const maxRivals = 64

// called records that a node has said Hello with that membership.
func (f *founding) called(by protocol.NodeID, held protocol.ConfigID) {
	if _, known := f.rivals[by]; known || held.Version > 1 && len(f.rivals) < maxRivals {
		f.rivals[by] = held
	}
}

// compareNotes compares this node's membership with that of a node that has let it in. An observer is known by its id
// alone. In an election of one founding, a voter with a later term of version 1 cannot have become an observer since.
func (f *founding) compareNotes(by protocol.NodeID, other *protocol.Membership) {
	own := f.membership.Load()
	if other == nil || other.Version <= 1 || own.Version > 1 || !own.Has(f.self) || other.Compare(own) > 0 || !slices.Contains(other.Observers, f.self.ID) {
		return
	}
	f.refusals.from[by] = refusal{&wire.Refusal{Code: wire.CodeDirectory, Says: fmt.Sprintf(
		"%s knows it as an observer, in membership %v", by, other.ID())}, f.run.Latest().Boot}
	f.parted()
}

// parted reports whether this node is apart, and ends its part in the election if
// that has just been found out.
func (f *founding) parted() bool {
	if f.apart.Load() {
		return true
	}
	need := len(f.cfg.Voters)/2 + 1
	ms := f.membership.Load()
	switch {
	case ms != nil && ms.Version > 1, ms == nil && (f.cfg.Join || !f.cfg.voter()):
		return false
	case ms != nil:
		need = len(ms.Voters)/2 + 1
	}
	f.refusals.forget()
	said := 0
	for by, r := range f.refusals.from {
		if by != f.cfg.ID && r.Code == wire.CodeDirectory && f.rivals[by].Version > 1 {
			said++
		}
	}
	if said < need {
		return false
	}
	f.part(ms, f.refusals.refusers(func(r refusal) bool { return r.Code == wire.CodeDirectory }))
	return true
}

// part ends this node's part in the election that it has founded, ms, or was about to found. The work is stopped
// first.
func (f *founding) part(ms *protocol.Membership, said string) {
	says := fmt.Sprintf("the election that %s would found by its configuration is another one than that which the others are in: %s. %s", f.cfg.ID, said, f.dialect.remedy())
	if ms != nil {
		says = fmt.Sprintf("%s has founded its election a second time (membership %v, %s), beside that which the others are in: %s. %s", f.cfg.ID, ms.ID(), who(ms), said, f.dialect.remedy())
	}
	f.apart.Store(true)
	f.run.Lose(fmt.Errorf("%w: %s", driver.ErrSuperseded, says))
	f.log.Error("this node takes no part any more", "says", says)
	f.run.Command(protocol.Command{Verb: protocol.Withdraw})
	f.refusals.refuse(f.cfg.ID, &wire.Refusal{Code: wire.CodeDirectory, Says: says, Final: true})
	if ms == nil {
		return // the directory has nothing in it to mark as void
	}
	f.contacts.SetPeers(ms.ID(), link.Peers{}, func(protocol.NodeID) *wire.Refusal { return f.noPart() })
	f.voids.Go(func() {
		if err := f.dir.Void(says); err != nil {
			f.log.Error("it cannot be written down that the data directory is void; it must not be used again", "error", err)
		}
	})
}

// noPart is the answer of a node that is apart. The other nodes go on without it.
func (f *founding) noPart() *wire.Refusal {
	return &wire.Refusal{Code: wire.CodeUnfounded, Says: fmt.Sprintf("%s has found out that it is in another election than the others, and takes no part", f.cfg.ID)}
}

// early reports whether it is too early to found an election alone. If so, it arranges that found is called when the
// time has come.
func (f *founding) early() bool {
	if len(f.cfg.Voters) > 1 {
		return false
	}
	rest := f.began.Add(max(loneFounder, f.plan.Promise)).Sub(f.run.Latest().Boot)
	if rest <= 0 {
		return false
	}
	if f.lone == nil {
		f.lone = time.AfterFunc(rest, func() { f.run.Do(f.found) })
	}
	return true
}

// close ends what founding has begun, after the last turn.
func (f *founding) close() {
	if f.lone != nil {
		f.lone.Stop()
	}
	f.voids.Wait()
}
