package sim

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// membering makes the actors keep memberships, in their saves.
func membering(p *Protocol) {
	p.Members = func(data []byte) (*protocol.Membership, error) {
		d := protocol.NewDecoder(data)
		ms := d.Membership()
		if err := d.Done(); err != nil {
			return nil, err
		}
		if ms == nil {
			return nil, errors.New("no membership")
		}
		return ms, nil
	}
}

// membership is version v in a term, of voters with the directories that a world of that schedule
// gives them.
func membership(s *Schedule, term, v uint64, ids ...protocol.NodeID) *protocol.Membership {
	w := &World{schedule: s}
	ms := &protocol.Membership{ConfigTerm: term, Version: v}
	for _, id := range ids {
		ms.Voters = append(ms.Voters, protocol.Voter{ID: id, Dir: w.dir(w.index(id), 0)})
	}
	return ms
}

func saved(ms *protocol.Membership) [][]byte { return [][]byte{protocol.AppendMembership(nil, ms)} }

// makes has an actor save a membership, and use it later.
func makes(at, uses time.Duration, ms *protocol.Membership) []act {
	return []act{{at: at, saves: saved(ms)}, {at: uses, members: ms}}
}

func TestOracleOfMemberships(t *testing.T) {
	s := still(5)
	founding := membership(s, 0, 1, "n1", "n2", "n3", "n4", "n5")
	four := membership(s, 1, 2, "n1", "n2", "n3", "n4")
	three := membership(s, 1, 3, "n1", "n2", "n3")
	has := func(at time.Duration, ms *protocol.Membership) act {
		return act{at: at, members: ms, saves: saved(ms)}
	}
	other := membership(s, 1, 2, "n1", "n2", "n3", "n5")
	tells := func(at time.Duration, ms *protocol.Membership) act {
		return act{at: at, sends: []protocol.Send{{To: "n2", Message: protocol.Message{Type: "word", Membership: ms}}}}
	}
	begin := has(ms, founding)
	for _, c := range []struct {
		name    string
		scripts [][]act
		want    Invariant
		says    string
	}{
		{"one by one", [][]act{
			append([]act{begin}, append(makes(10*ms, 20*ms, four), append(makes(40*ms, 50*ms, three), tells(60*ms, three))...)...),
			{begin, has(25*ms, four), has(55*ms, three)}, {begin, has(25*ms, four)}, {begin}, {begin},
		}, "", ""},
		{"two at once", [][]act{append([]act{begin}, makes(10*ms, 20*ms, three)...), {begin}, {begin}, {begin}, {begin}}, Adjacent, "still elect"},
		{"a majority that knows of none", [][]act{
			append([]act{begin}, append(makes(10*ms, 20*ms, four), makes(30*ms, 40*ms, three)...)...), {begin}, {begin}, {begin}, {begin},
		}, Adjacent, "still elect"},
		{"used before it is durable", [][]act{{begin, {at: 10 * ms, members: four, saves: saved(four)}}}, DurableFirst, "uses membership 1.2"},
		{"told before it is durable", [][]act{{begin, {at: 10 * ms, saves: saved(four), sends: tells(0, four).sends}}}, DurableFirst, "tells of membership 1.2"},
		{"two of one name", [][]act{
			append([]act{begin}, makes(10*ms, 20*ms, four)...), append([]act{begin}, makes(30*ms, 40*ms, other)...),
		}, OneMembership, "its membership 1.2"},
		{"a leader that is no voter", [][]act{
			append([]act{begin}, append(makes(10*ms, 20*ms, membership(s, 1, 2, "n2", "n3", "n4", "n5")), leads(30*ms, 1, 200*ms))...),
		}, VoterLeads, "no voter of its membership"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, s := stageOf(c.scripts...)
			s.Nodes = 5
			membering(p)
			wants(t, p, s, c.want, c.says)
		})
	}
}

// A participant that never leads, by its priority or because it was paused, is not elected.
func TestOracleOfWhoLeads(t *testing.T) {
	for _, c := range []struct {
		name string
		ops  []Op
		is   protocol.NodeID // the one that never leads
		want Invariant
	}{
		{"any", nil, "n2", ""},
		{"never", nil, "n1", NeverLeads},
		{"paused", []Op{{At: at(5), Kind: OpStandBack, Node: "n1", For: 100 * ms}}, "", NeverLeads},
		{"paused, and restarted", []Op{{At: at(2), Kind: OpStandBack, Node: "n1", For: 100 * ms}, {At: at(3), Kind: OpKill, Node: "n1", For: ms}}, "", NeverLeads},
		{"resumed", []Op{{At: at(2), Kind: OpStandBack, Node: "n1", For: 5 * ms}}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, s := stageOf([]act{leads(10*ms, 1, 50*ms)})
			membering(p)
			s.Ops = append(s.Ops, c.ops...)
			p.Never = func(_ json.RawMessage, id protocol.NodeID) (bool, error) { return id == c.is, nil }
			wants(t, p, s, c.want)
		})
	}
}

// Where positions are required, a vote for a candidate that is behind is a violation.
func TestOracleOfPositions(t *testing.T) {
	for _, c := range []struct {
		name     string
		required bool
		position string // of the candidate
		want     Invariant
	}{
		{"ahead", true, "8", ""},
		{"level", true, "7", ""},
		{"behind", true, "6", NotBehind},
		{"nowhere", true, "", NotBehind},
		{"behind, and it does not matter", false, "6", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ask := act{at: 10 * ms, sends: []protocol.Send{{To: "n2", Message: protocol.Message{Type: "ask", Position: c.position}}}}
			p, s := stageOf([]act{ask}, []act{{at: 10*ms + 1, sends: []protocol.Send{grant("n1", 1)}}})
			membering(p)
			p.Requires = func(json.RawMessage) (bool, error) { return c.required, nil }
			p.Compare = func(a, b string) int { return int(place(a)) - int(place(b)) }
			s.Ops = []Op{{At: at(5), Kind: OpLocate, Node: "n2", Count: 7}}
			// The vote is the answer: n2's script waits for the request.
			make_ := p.New
			p.New = func(q Participant) (protocol.Machine, error) {
				m, err := make_(q)
				if q.Index == 1 {
					m = &listener{m.(*actor)}
				}
				return m, err
			}
			p.Expect = map[Invariant]Expectation{VoteSaved: MayFail}
			wants(t, p, s, c.want)
		})
	}
}

// listener is an actor that acts only when it receives a message.
type listener struct{ *actor }

func (l *listener) Step(in *protocol.Input, fx *protocol.Effects) {
	if in.Kind == protocol.Boot || in.Kind == protocol.Receive {
		l.actor.Step(in, fx)
	}
}

func (l *listener) NextFire() protocol.Instant { return protocol.Never }
