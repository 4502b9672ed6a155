package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
)

// change is one change on the leader's node. The goroutine that serves the request calls its methods, except for the
// parts that run in a turn.
type change struct {
	*changes
	want memberRequest
	tell func(string)

	found NodeStatus     // what the new participant said of itself
	dir   protocol.DirID // of it
	steps []string
}

func refusedf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...)
}

func (c *change) do(ctx context.Context) (*MemberChange, error) {
	if err := c.leads(func(protocol.Reconfigurable) error { return nil }); err != nil {
		return nil, err
	}
	what := c.want.String()
	if err := c.alone(ctx, &what); err != nil {
		return nil, err
	}
	defer c.changing.Store(nil)
	if err := c.meet(ctx); err != nil {
		return nil, c.halfway(err)
	}
	for {
		base, _ := c.newest()
		next, did, err := c.next(base)
		if err == nil && next == nil {
			lonely := c.hears(ctx, base)
			done := c.done()
			done.Warnings = append(lonely, done.Warnings...)
			return done, nil
		}
		if err == nil {
			err = c.make(ctx, base, next)
		}
		if errors.Is(err, errMoved) {
			continue
		}
		if err != nil {
			return nil, c.halfway(err)
		}
		now, _ := c.newest()
		did = fmt.Sprintf("%s (membership %v)", did, now.ID())
		c.steps = append(c.steps, did)
		c.log.Info("the membership was changed", "change", what, "step", did)
		c.tell(did)
	}
}

// alone refuses to begin while another change is under way. It waits for the end of an equal change: its operator was
// interrupted and has repeated it.
func (c *change) alone(ctx context.Context, what *string) error {
	for !c.changing.CompareAndSwap(nil, what) {
		if now := c.changing.Load(); now != nil && *now != *what {
			return refusedf("another change is under way (%s); want one at a time", *now)
		}
		if !wait(ctx, c.look()) {
			return refusedf("the same change (%s), of an earlier request, is still under way", *what)
		}
	}
	return nil
}

// errMoved means that a step was based on a membership that is no longer the newest: another leader was in between.
// The next step is computed anew, so that nothing is undone that this leader has changed.
var errMoved = errors.New("the membership has changed")

// halfway wraps the error of an incomplete change with what holds now.
func (c *change) halfway(err error) error {
	if len(c.steps) == 0 {
		return err
	}
	ms, _ := c.newest()
	again := "repeat the command to go on from there"
	if c.want.Op == opReplace && ms.Index(c.want.ID) < 0 && !slices.Contains(ms.Observers, c.want.ID) {
		// A participant outside the membership has no address there.
		again = fmt.Sprintf("elect member replace %s@%s goes on from there", c.want.ID, c.want.Addr)
	}
	return fmt.Errorf("%w. Until then: %s; membership %v has %s: %s", err, strings.Join(c.steps, ", "), ms.ID(), who(ms), again)
}

func (c *change) done() *MemberChange {
	ms, settled := c.newest()
	return &MemberChange{
		Changed: len(c.steps) > 0, Steps: append([]string{}, c.steps...),
		Membership: *membershipStatus(ms, settled, nil, 0), Warnings: warnings(len(ms.Voters)),
	}
}

// hearLimit is how long a new voter may take to connect with the others before that is worth a warning. They dial
// each other once a second.
const hearLimit = 2 * time.Second

// hears is lonely, after the new voter has had its time.
func (c *change) hears(ctx context.Context, ms *protocol.Membership) []string {
	ctx, stop := context.WithTimeout(ctx, hearLimit)
	defer stop()
	for {
		lonely := c.lonely(ms)
		if lonely == nil {
			return nil
		}
		if !wait(ctx, hearLimit/20) {
			return lonely
		}
		if s, _, err := c.ask(ctx); err == nil {
			c.found.Peers = s.Peers
		}
	}
}

// lonely warns that the new voter hears too few of the others to help when the leader is gone; nil if it hears
// enough.
func (c *change) lonely(ms *protocol.Membership) []string {
	if c.found.Peers == nil || ms.Index(c.want.ID) < 0 || len(ms.Voters) <= 2 {
		return nil
	}
	var deaf []protocol.NodeID
	hears := 1 // itself
	for _, v := range ms.Voters {
		switch i := slices.IndexFunc(c.found.Peers, func(p PeerStatus) bool { return p.ID == string(v.ID) }); {
		case v.ID == c.want.ID || v.ID == c.cfg.ID:
		case i >= 0 && c.found.Peers[i].Connected:
			hears++
		default:
			deaf = append(deaf, v.ID)
		}
	}
	if hears > len(ms.Voters)/2 || len(deaf) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s was not connected with %s when it became a voter: without %s it could elect no leader; check that they can reach each other (elect status)",
		c.want.ID, list(deaf), c.cfg.ID)}
}

// leads returns ErrNoLeader unless this node has a proven term. If it has, a turn calls do.
func (c *change) leads(do func(protocol.Reconfigurable) error) error {
	err := driver.ErrNoLeader
	if !c.run.Call(func() {
		switch r, ok := c.run.Machine().(protocol.Reconfigurable); {
		case c.run.Machine() == nil || !c.run.View().Active:
		case !ok:
			err = fmt.Errorf("%w: this machine knows no change of membership", driver.ErrUnsupported)
		default:
			err = do(r)
		}
	}) {
		return errClosed
	}
	return err
}

// newest returns the newest membership. Only a founded node gets here.
func (c *change) newest() (ms *protocol.Membership, settled bool) {
	ms = c.membership.Load()
	c.run.Call(func() {
		if r, ok := c.run.Machine().(protocol.Reconfigurable); ok {
			ms, settled = r.Membership()
		}
	})
	return ms, settled
}

// meet finds out which node is at the address of the new participant, and refuses a change that could not be
// completed.
func (c *change) meet(ctx context.Context) error {
	q := &c.want
	ms, _ := c.newest()
	if q.Op == opRemove {
		return nil
	}
	place := slices.Contains(ms.Observers, q.ID) || ms.Index(q.ID) >= 0
	bare := q.Op == opReplace && q.Addr == ""
	if bare {
		if q.Addr = c.peerOf(ms, q.ID).Addr; q.Addr == "" {
			return refusedf("%s is not in membership %v, which has %s, so that its address is not known; want %s@HOST:PORT", q.ID, ms.ID(), who(ms), q.ID)
		}
	}
	if i := ms.Index(q.ID); q.ID == c.cfg.ID && i >= 0 && !q.Observer && (bare || q.Addr == ms.Address(q.ID)) {
		q.Addr = ms.Address(q.ID) // it is so: the leader itself is there
		c.dir = ms.Voters[i].Dir
		return nil
	}
	for _, p := range slices.Concat(c.voters(), c.observers()) {
		if p.ID != string(q.ID) && p.Addr == q.Addr {
			return refusedf("%s is the address of %s; want that of %s", q.Addr, p.ID, q.ID)
		}
	}
	if !c.cfg.secured() && !c.cfg.Insecure && !loopback(q.Addr) {
		return refusedf("%s is an address on a network, and this election has no certificates but those of one user on the loopback; want it there, or certs=DIR at all nodes", q.Addr)
	}
	switch {
	case q.Op == opAdd && q.Observer && ms.Index(q.ID) >= 0:
		return refusedf("%s is a voter; to make an observer of it, remove it first", q.ID)
	case !place && !q.Observer && len(ms.Voters) >= protocol.MaxVoters:
		return refusedf("there are %d voters, the most that are possible; remove one first, or add %s as an observer", len(ms.Voters), q.ID)
	case !place && len(ms.Observers) >= protocol.MaxObservers:
		return refusedf("there are %d observers, the most that are possible; remove one first", len(ms.Observers))
	}
	found, dir, err := c.ask(ctx)
	if err != nil {
		return refusedf("%s, from where %s leads, does not answer: %w. Want it running first, with join=true in its URL, as in %s",
			peerAt(q.ID, q.Addr), c.cfg.ID, err, c.start(ms))
	}
	c.found, c.dir = *found, dir
	i := ms.Index(q.ID)
	same := i >= 0 && ms.Voters[i].Dir == dir
	switch id := found.config(); {
	case dir == protocol.DirID{}:
		return refusedf("%s is of a version that does not tell its data directory; want one of this version", q.ID)
	case !found.Founded && !found.Join:
		return refusedf("%s was started without join=true, and waits to found an election of its own; start it again, as in %s", q.ID, c.start(ms))
	case id.Compare(ms.ID()) > 0:
		return refusedf("%s has membership %v, and the newest here is %v: its data directory is of another founding; want it empty", q.ID, id, ms.ID())
	case q.Op == opReplace && i < 0 && found.Observes:
		// A voter whose replacement was interrupted is in its own list of voters.
		return refusedf("%s is an observer by its own URL, and has no vote to be replaced; elect member add %s@%s makes a voter of it", q.ID, q.ID, q.Addr)
	case q.ID == c.cfg.ID && !same:
		return refusedf("%s leads with the data directory %s, and the one at %s has %s; want elect transfer first, then elect member replace %s@%s",
			q.ID, c.self.Dir, q.Addr, found.Dir, q.ID, q.Addr)
	case i >= 0 && !same && q.Op == opAdd:
		return refusedf("%s is a voter with the data directory %s, and the one at %s has %s: its disk was wiped, or it is another machine; want elect member replace %s@%s",
			q.ID, ms.Voters[i].Dir, q.Addr, found.Dir, q.ID, q.Addr)
	}
	if q.Observer || same {
		return nil
	}
	// A reason to refuse the last step is a reason not to take the first.
	without := c.without(ms)
	for _, way := range []*protocol.Membership{without, c.voter(without)} {
		if err := c.holds(way); err != nil {
			return refusedf("%w", err)
		}
	}
	if i < 0 {
		if err := c.clear(ctx, nil, c.voter(without)); err != nil {
			return err
		}
	}
	return nil
}

// start returns a command that starts the new participant, for people.
func (c *change) start(ms *protocol.Membership) string {
	var all []string
	for _, v := range ms.Voters {
		if v.ID != c.want.ID {
			all = append(all, c.peerOf(ms, v.ID).String())
		}
	}
	all = append(all[:min(len(all), protocol.MaxVoters-1)], peerAt(c.want.ID, c.want.Addr).String())
	return fmt.Sprintf("elect run --election 'peer://%s?join=true' --id %s --name %s -- COMMAND", strings.Join(all, ","), c.want.ID, c.cfg.Name)
}

// ask asks the new participant for its status.
func (c *change) ask(ctx context.Context) (s *NodeStatus, dir protocol.DirID, err error) {
	ctx, stop := context.WithTimeoutCause(ctx, statusLimit, fmt.Errorf("no answer within %v", statusLimit))
	defer stop()
	conn, err := c.relay.dial(ctx, peerAt(c.want.ID, c.want.Addr))
	if err != nil {
		return nil, dir, because(ctx, err)
	}
	defer conn.Close()
	s = new(NodeStatus)
	err = conn.Call(ctx, verbStatus, 0, nil, func(body json.RawMessage) error { return json.Unmarshal(body, s) })
	switch {
	case err != nil:
	case s.ID != string(c.want.ID):
		err = fmt.Errorf("%s is there", s.ID)
	case s.Dir != "":
		dir, err = protocol.ParseDirID(s.Dir)
	}
	return s, dir, understood(because(ctx, err))
}

// next returns the next step from ms towards the wanted membership, nil if nothing is missing, and a description of
// what the step does.
func (c *change) next(ms *protocol.Membership) (next *protocol.Membership, did string, err error) {
	q := &c.want
	i, observer := ms.Index(q.ID), slices.Contains(ms.Observers, q.ID)
	moved := q.Addr != "" && ms.Address(q.ID) != q.Addr
	switch {
	case q.Op == opRemove && i < 0 && !observer:
		return nil, "", nil
	case q.Op == opRemove && i >= 0 && len(ms.Voters) == 1:
		return nil, "", refusedf("%s is the only voter", q.ID)
	case q.Op == opRemove && q.ID == c.cfg.ID:
		return nil, "", refusedf("%s leads, and a leader cannot remove itself; want elect transfer first, then the same again", q.ID)
	case q.Op == opRemove:
		return c.without(ms), fmt.Sprintf("%s is removed", q.ID), nil
	case i >= 0 && ms.Voters[i].Dir != c.dir:
		return c.without(ms), fmt.Sprintf("%s with the data directory %s is removed", q.ID, ms.Voters[i].Dir), nil
	case (i >= 0 || observer) && moved:
		return c.moved(ms), fmt.Sprintf("%s is at %s", q.ID, q.Addr), nil
	case i >= 0, observer && q.Observer:
		return nil, "", nil
	case observer:
		return c.voter(c.without(ms)), fmt.Sprintf("%s is a voter", q.ID), nil
	}
	next = c.moved(c.without(ms))
	next.Observers = append(next.Observers, q.ID)
	return next, fmt.Sprintf("%s is an observer", q.ID), nil
}

// without is ms without the participant.
func (c *change) without(ms *protocol.Membership) *protocol.Membership {
	id := c.want.ID
	return &protocol.Membership{
		Voters:    slices.DeleteFunc(slices.Clone(ms.Voters), func(v protocol.Voter) bool { return v.ID == id }),
		Observers: slices.DeleteFunc(slices.Clone(ms.Observers), func(o protocol.NodeID) bool { return o == id }),
		Addresses: slices.DeleteFunc(slices.Clone(ms.Addresses), func(a protocol.Address) bool { return a.ID == id }),
	}
}

// moved is ms with the participant at its new address.
func (c *change) moved(ms *protocol.Membership) *protocol.Membership {
	next := &protocol.Membership{Voters: ms.Voters, Observers: slices.Clone(ms.Observers), Addresses: slices.Clone(ms.Addresses)}
	next.Addresses = slices.DeleteFunc(next.Addresses, func(a protocol.Address) bool { return a.ID == c.want.ID })
	next.Addresses = append(next.Addresses, protocol.Address{ID: c.want.ID, Addr: c.want.Addr})
	return next
}

// voter is ms, which does not have the participant, with it as a voter.
func (c *change) voter(ms *protocol.Membership) *protocol.Membership {
	next := c.moved(ms)
	next.Voters = append(slices.Clone(ms.Voters), protocol.Voter{ID: c.want.ID, Dir: c.dir})
	slices.SortFunc(next.Voters, func(a, b protocol.Voter) int { return a.ID.Compare(b.ID) })
	return next
}

// make takes one step from base, and returns when it is durable at a majority.
func (c *change) make(ctx context.Context, base, next *protocol.Membership) error {
	if err := c.holds(next); err != nil {
		return refusedf("%w", err)
	}
	if next.Index(c.want.ID) >= 0 && base.Index(c.want.ID) < 0 {
		if err := c.ready(ctx, base); err != nil {
			return err
		}
	}
	if err := c.clear(ctx, base, next); err != nil {
		return err
	}
	return c.settle(ctx, base, next)
}

// clear waits until the machine accepts a change of the membership, and makes next, if not nil, as the one after
// base. A victory or a change of a moment ago needs a round trip first. If the machine objects for longer than a
// voter may be silent, clear refuses. If base is not the newest membership it returns errMoved.
func (c *change) clear(ctx context.Context, base, next *protocol.Membership) error {
	late, stop := context.WithTimeout(ctx, 2*c.plan.Promise+5*c.plan.Heartbeat)
	defer stop()
	for {
		var silent []string
		err := c.leads(func(r protocol.Reconfigurable) error {
			if now, _ := r.Membership(); base != nil && now.Compare(base) != 0 {
				return errMoved
			}
			if err := r.Objection(next); err != nil {
				silent = c.silent(r.Members(nil))
				return err
			}
			if base != nil {
				c.run.Command(protocol.Command{Verb: protocol.Reconfigure, Membership: next})
			}
			return nil
		})
		switch {
		case err == nil, errors.Is(err, errMoved), errors.Is(err, errClosed):
			return err
		case errors.Is(err, driver.ErrNoLeader):
			return fmt.Errorf("%w: %s does not lead any more, and nothing was changed by this step", driver.ErrNoLeader, c.cfg.ID)
		}
		if len(silent) > 0 {
			err = fmt.Errorf("%w (%s)", err, strings.Join(silent, ", "))
		}
		switch {
		case wait(late, c.look()):
		case ctx.Err() != nil:
			return refusedf("%w; the time for it is over", err)
		default:
			return refusedf("%w", err)
		}
	}
}

// silent says which voters have not answered their leader, and for how long.
func (cs *changes) silent(all []protocol.Member) (silent []string) {
	for _, v := range all {
		switch age := cs.run.Latest().Boot.Sub(v.Answered); {
		case v.Answered == protocol.Always:
			silent = append(silent, fmt.Sprintf("%s has not answered yet", v.ID))
		case age > cs.plan.Promise/2:
			silent = append(silent, fmt.Sprintf("%s has not answered for %v", v.ID, age.Truncate(unit(age))))
		}
	}
	return silent
}

// look is the interval at which a step polls for what is not notified. A step takes a sync of the disk and a round
// trip.
func (c *change) look() time.Duration { return max(c.plan.Heartbeat/20, time.Millisecond) }

// settle waits until next, which follows before, is settled. It returns errMoved if another membership takes its
// place.
func (c *change) settle(ctx context.Context, before, next *protocol.Membership) error {
	for {
		var ms *protocol.Membership
		settled, leads := false, false
		var missing []string
		if !c.run.Call(func() {
			r, ok := c.run.Machine().(protocol.Reconfigurable)
			leads = ok && c.run.View().Active
			if ms, settled = r.Membership(); leads && !settled {
				for _, v := range r.Members(nil) {
					if v.Held.Compare(ms.ID()) < 0 {
						missing = append(missing, string(v.ID))
					}
				}
			}
		}) {
			return fmt.Errorf("%w: %s was closed while the change was made; elect members shows what holds, and it may be repeated", driver.ErrUnknownOutcome, c.cfg.ID)
		}
		made := ms.Version > before.Version
		switch {
		case made && settled && !same(ms, next):
			return errMoved
		case made && settled:
			return nil
		case !leads:
			had := "not made the membership yet"
			if made {
				had = fmt.Sprintf("made membership %v, which was not settled yet", ms.ID())
			}
			return fmt.Errorf("%w: %s does not lead any more, and had %s; elect members shows what holds, and the change may be repeated", driver.ErrUnknownOutcome, c.cfg.ID, had)
		}
		if !wait(ctx, c.look()) {
			if len(missing) == 0 {
				missing = []string{string(c.cfg.ID)}
			}
			return fmt.Errorf("%w: a majority of membership %v has not written it down yet (missing: %s); it will go on by itself, and elect members shows when", driver.ErrUnknownOutcome, ms.ID(), strings.Join(missing, ", "))
		}
	}
}

// same reports whether two memberships have the same participants at the same
// places.
func same(a, b *protocol.Membership) bool {
	return slices.Equal(a.Voters, b.Voters) && sameSet(a.Observers, b.Observers) && sameSet(a.Addresses, b.Addresses)
}

// sameSet is slices.Equal in any order. Neither slice has duplicates.
func sameSet[T comparable](a, b []T) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(v T) bool { return !slices.Contains(b, v) })
}

// ready waits until the new participant, an observer, has the membership on its disk. Before that its vote counts for
// nothing, so no majority may depend on it.
func (c *change) ready(ctx context.Context, ms *protocol.Membership) error {
	ctx, stop := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("%v have passed", readyLimit))
	defer stop()
	for {
		s, _, err := c.ask(ctx)
		if err := c.leads(func(protocol.Reconfigurable) error { return nil }); errors.Is(err, driver.ErrNoLeader) {
			return fmt.Errorf("%w: %s does not lead any more, and nothing was changed by this step", err, c.cfg.ID)
		}
		switch {
		case err == nil && s.Dir != c.found.Dir:
			return refusedf("%s has the data directory %s now, and had %s when the change began", c.want.ID, s.Dir, c.found.Dir)
		case err == nil && s.Founded && s.Incarnation > 0 && s.config().Compare(ms.ID()) >= 0:
			c.found.Peers = s.Peers
			return nil
		case err == nil && s.Cause != "":
			err = errors.New(s.Cause)
		case err == nil:
			err = errors.New("it has not heard of it yet")
		}
		if !wait(ctx, c.look()) {
			return refusedf("%s does not have membership %v, although %w: %w", c.want.ID, ms.ID(), context.Cause(ctx), err)
		}
	}
}
