package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// testament is what a keeper needs to be the witness of a node. It holds the path of the key, not the key.
type testament struct {
	Version int `json:"version"`
	access
	ID          protocol.NodeID            `json:"id"`
	Dir         protocol.DirID             `json:"dir"`
	Incarnation uint64                     `json:"incarnation"`
	Voters      map[protocol.NodeID]string `json:"voters"` // the other voters' addresses
	Idle        time.Duration              `json:"idle"`
}

const testamentVersion = 1

// Testament implements [driver.Attestable].
func (m *mandate) Testament() driver.Testament {
	n := m.n
	t := testament{
		Version: testamentVersion, access: n.cfg.access(), ID: n.cfg.ID, Dir: n.self.Dir,
		Incarnation: n.run.Incarnation(), Voters: make(map[protocol.NodeID]string), Idle: n.plan.Promise,
	}
	if mutation.Is(mutation.NextLifesWill) {
		t.Incarnation++
	}
	for _, p := range n.membership.voters() {
		if id := protocol.NodeID(p.ID); id != n.cfg.ID {
			if places := n.contacts.places(id); len(places) > 0 {
				p.Addr = places[0]
			}
			t.Voters[id] = p.Addr
		}
	}
	data, err := json.Marshal(t)
	if err != nil {
		return driver.Testament{} // it never fails for plain values
	}
	return driver.Testament{Data: data, Keep: n.dir.Locks()}
}

// Witness prepares to speak for the node of a testament, see [driver.Attestable]: it connects with the voters as that
// node's witness, and keeps the connections until ctx ends.
//
// speak tells the voters that this incarnation of the node, and all its work, are dead, so that they no longer wait for
// promises to it. It returns nil when a majority has been told. The caller must know that it is true of the process, of
// all that it started, and of all earlier incarnations of the node; to hold [driver.Testament].Keep open until then
// ensures the latter. A wrong word lets two leaders act at once.
func Witness(ctx context.Context, data []byte) (speak func(context.Context) error, err error) {
	var t testament
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, fmt.Errorf("testament: %w", err)
	}
	switch {
	case t.Version != testamentVersion:
		return nil, fmt.Errorf("testament of version %d; want %d", t.Version, testamentVersion)
	case t.ID == "" || t.Dir == protocol.DirID{} || t.Incarnation == 0:
		return nil, errors.New("testament: it names no node")
	}
	id, err := t.identity(string(t.ID))
	if err != nil {
		return nil, err
	}
	if len(t.Voters) == 0 {
		return func(context.Context) error { return nil }, nil // no other voter to tell
	}
	w := link.StartWitness(link.WitnessConfig{
		Hello: wire.Hello{
			Version: wire.Version, Oldest: wire.Oldest, Caller: wire.WitnessOf, Cluster: t.Cluster,
			ID: t.ID, Life: newLife(), Program: t.Program,
		},
		Enter: wire.Enter{Election: t.Election, Dir: t.Dir, Incarnation: t.Incarnation},
		Peers: t.Voters, TLS: id, Idle: t.Idle,
	})
	context.AfterFunc(ctx, func() { _ = w.Close() })
	return func(ctx context.Context) error {
		return w.Speak(ctx, &protocol.Message{Type: quorum.WitnessRelease, Dir: t.Dir, Echo: t.Incarnation})
	}, nil
}
