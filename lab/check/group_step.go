package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/group"
)

// groupInput is what happens to one machine: a kind, and what it is about in the lower bits.
type groupInput uint32

// The inputs.
const (
	groupReceive groupInput = iota << 24 // a message
	groupOpened                          // a connection
	groupClosed                          // a connection
	groupCover                           // cover ends by time
	groupDead                            // of a member, a witness says so
	groupMove                            // the key, to a member
	groupStart                           // a member; or a tenure
	groupLapse                           // of a member's claim
	groupMask    = groupInput(1<<24 - 1)
)

// groupOutcome is the result of an input in a state of a machine.
type groupOutcome struct {
	state   uint32
	sends   []uint32
	starts  []group.Token
	nothing bool // nothing has changed and nothing is sent
	over    bool // a coordinator has resigned
	wrong   *Violation
}

// groupBlob is a state of a machine, and what the world has to know of it.
type groupBlob struct {
	data []byte // after one byte: how often a member's claim has lapsed, or whether cover has ended by time

	// Of a member.
	session  group.Session
	live     bool // it has a claim
	admitted bool
	vouches  *group.Registry // for what it would vouch
	running  bool            // the key

	// Of a coordinator.
	covered bool
	version uint64
}

type groupMessage struct {
	conn uint8
	msg  group.Message
}

// groupEngine computes steps, and keeps the results. It belongs to one goroutine.
type groupEngine struct {
	w           *GroupWorld
	members     []*group.Member
	coordinator *group.Coordinator
	again       bool // of a mutant: the machine of a coordinator is used again

	steps    memo
	outcomes []groupOutcome
	blobs    []groupBlob
	messages []groupMessage
	numbers  map[sum]uint32
	mfx, cfx group.Effects
	buf      []byte
	bytes    uint64
}

func newGroupEngine(w *GroupWorld) (*groupEngine, error) {
	e := &groupEngine{w: w, numbers: map[sum]uint32{}, outcomes: make([]groupOutcome, 1), blobs: make([]groupBlob, 1), messages: make([]groupMessage, 1)}
	for i := range w.Members {
		mc, cc := group.MemberConfig{Settings: w.settings(), ID: id(i)}, group.CoordinatorConfig{Settings: w.settings(), Unclocked: true}
		if w.Mutant != "" {
			if err := mutateGroup(&mc, &cc, w.Mutant); err != nil {
				return nil, err
			}
			e.again = w.Mutant == "keeps-earlier-tenure"
		}
		m, err := group.NewMember(mc)
		if err != nil {
			return nil, err
		}
		e.members = append(e.members, m)
		if e.coordinator, err = group.NewCoordinator(cc); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// step looks up the outcome of an input, or computes it. who is a member, or MaxMembers for the coordinator.
func (e *groupEngine) step(who int, state uint32, in groupInput, compute func(out *groupOutcome)) *groupOutcome {
	key := uint64(state)<<32 | uint64(who+1)<<29 | uint64(in)
	if n := e.steps.get(key); n != 0 {
		return &e.outcomes[n]
	}
	var out groupOutcome
	func() {
		defer func() {
			if r := recover(); r != nil {
				out.wrong = &Violation{NoPanic, "", fmt.Sprint(r)}
			}
		}()
		compute(&out)
	}()
	out.nothing = out.state == state && len(out.sends) == 0 && out.wrong == nil && !out.over
	e.outcomes = append(e.outcomes, out)
	e.steps.put(key, uint32(len(e.outcomes)-1))
	e.bytes += 130 + 4*uint64(len(out.sends))
	return &e.outcomes[len(e.outcomes)-1]
}

// intern returns the number of a state of a machine, with what describe says of it if it is new.
func (e *groupEngine) intern(data []byte, describe func(*groupBlob)) uint32 {
	s := sumOf(data)
	n, ok := e.numbers[s]
	if !ok {
		b := groupBlob{data: slices.Clone(data)}
		describe(&b)
		e.blobs = append(e.blobs, b)
		n = uint32(len(e.blobs) - 1)
		e.numbers[s] = n
		e.bytes += 250 + uint64(len(data))
	}
	return n
}

func (e *groupEngine) message(conn uint8, msg *group.Message) uint32 {
	data, err := json.Marshal(msg) // all fields, those that are added later too
	if err != nil {
		panic(err)
	}
	s := sumOf(append(data, conn, 'l'))
	n, ok := e.numbers[s]
	if !ok {
		e.messages = append(e.messages, groupMessage{conn, *msg})
		n = uint32(len(e.messages) - 1)
		e.numbers[s] = n
		e.bytes += 700
	}
	if n > uint32(groupMask) {
		panic("too many messages")
	}
	return n
}

// memberStep gives an input to a member. Its work returns as soon as it is stopped.
func (e *groupEngine) memberStep(i int, state uint32, in groupInput) *groupOutcome {
	return e.step(i, state, in, func(out *groupOutcome) {
		m, laps := e.members[i], uint8(0)
		if state != 0 {
			b := &e.blobs[state]
			laps = b.data[0]
			if err := m.LoadState(b.data[1:]); err != nil {
				panic(err)
			}
		}
		claim := e.w.settings().Drift.Claim(e.w.settings().Promise)
		now := groupBegin.Add(time.Duration(laps) * claim)
		give := func(in group.Input) {
			in.Now = protocol.Reading{Boot: now, Mono: now}
			for more := true; more; {
				e.mfx.Reset()
				m.Step(&in, &e.mfx)
				var back []group.Held
				for _, s := range e.mfx.Stops {
					back = append(back, s.Held)
				}
				for j := range e.mfx.Sends {
					out.sends = append(out.sends, e.message(uint8(e.mfx.Sends[j].Conn), &e.mfx.Sends[j].Message))
				}
				for _, s := range e.mfx.Starts {
					out.starts = append(out.starts, s.Token)
				}
				more = back != nil
				in = group.Input{Kind: group.Returned, Held: back, Now: in.Now}
			}
		}
		switch arg := uint32(in & groupMask); in &^ groupMask {
		case groupStart:
			*m = *e.fresh().members[i]
			give(group.Input{Kind: group.Start, Session: group.Session{Member: id(i), Process: groupNonce(i)}})
			give(group.Input{Kind: group.Choose, Wants: []group.Want{{Key: groupKey}}})
		case groupReceive:
			l := &e.messages[arg]
			give(group.Input{Kind: group.Receive, Conn: group.Conn(l.conn), Message: l.msg})
		case groupClosed:
			give(group.Input{Kind: group.Closed, Conn: group.Conn(arg)})
		case groupLapse:
			laps++
			now = groupBegin.Add(time.Duration(laps) * claim)
			give(group.Input{Kind: group.Fire})
		}
		e.buf = m.AppendState(append(e.buf[:0], laps))
		out.state = e.intern(e.buf, func(b *groupBlob) {
			v := m.View()
			at := protocol.Reading{Boot: now, Mono: now}
			b.session, b.admitted, b.live = v.Session, v.Admitted, v.Claim != protocol.Always && v.Proven(at)
			b.vouches, b.running = m.Vouches(now), m.Runs(groupKey)
		})
	})
}

// fresh has machines that have not started.
func (e *groupEngine) fresh() *groupEngine {
	f, err := newGroupEngine(e.w)
	if err != nil {
		panic(err) // it was made before
	}
	return f
}

// coordinatorStep gives an input to the coordinator.
func (e *groupEngine) coordinatorStep(state uint32, in groupInput) *groupOutcome {
	return e.step(MaxMembers, state, in, func(out *groupOutcome) {
		c, late := e.coordinator, uint8(0)
		arg := uint32(in & groupMask)
		begins := in&^groupMask == groupStart
		switch {
		case state != 0:
			b := &e.blobs[state]
			late = b.data[0]
			if err := c.LoadState(b.data[1:]); err != nil {
				panic(err)
			}
		case begins:
			*c = *e.fresh().coordinator
		}
		now := groupSoon
		if late != 0 {
			now = groupBegin.Add(e.w.settings().Cover)
		}
		proven := true
		give := func(in group.Input) {
			in.Now, in.Proven = protocol.Reading{Boot: now, Mono: now}, proven
			e.cfx.Reset()
			c.Step(&in, &e.cfx)
			for j := range e.cfx.Sends {
				out.sends = append(out.sends, e.message(uint8(e.cfx.Sends[j].Conn), &e.cfx.Sends[j].Message))
			}
			out.over = e.cfx.Resign
		}
		session := func(i uint32) (found group.Session) {
			for _, s := range c.Sessions(nil) {
				if s.Session.Member == id(int(i)) {
					found = s.Session
				}
			}
			return found
		}
		switch in &^ groupMask {
		case groupStart:
			if state != 0 { // of a mutant
				proven = false
				give(group.Input{Kind: group.Fire})
				proven, out.sends = true, nil
			}
			now, late = groupBegin, 0
			give(group.Input{Kind: group.Begin, Tenure: uint64(arg)})
		case groupOpened:
			give(group.Input{Kind: group.Opened, Conn: group.Conn(arg), From: id(int(memberOf(uint8(arg))))})
		case groupClosed:
			give(group.Input{Kind: group.Closed, Conn: group.Conn(arg)})
		case groupReceive:
			l := &e.messages[arg]
			give(group.Input{Kind: group.Receive, Conn: group.Conn(l.conn), From: id(int(memberOf(l.conn))), Message: l.msg})
		case groupCover:
			late, now = 1, groupBegin.Add(e.w.settings().Cover)
			give(group.Input{Kind: group.Fire})
		case groupDead:
			give(group.Input{Kind: group.Dead, Session: group.Session{Member: id(int(arg)), Process: groupNonce(int(arg)), Epoch: 1}})
		case groupMove:
			k, _ := c.Key(groupKey)
			if to := session(arg); to != (group.Session{}) && to != k.Session {
				give(group.Input{Kind: group.Moves, Moves: []group.Move{{Key: groupKey, From: k.Session, To: to}}})
			}
		}
		e.buf = c.AppendState(append(e.buf[:0], late, 'c'))
		e.buf = slices.Delete(e.buf, 1, 2)
		out.state = e.intern(e.buf, func(b *groupBlob) {
			b.covered = c.Covered()
			b.version = c.Version()
		})
	})
}
