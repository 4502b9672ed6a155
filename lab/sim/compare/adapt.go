package compare

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

// Adapt returns the same faults for p, by the rules in the package's documentation, with p in its
// default configuration. s is not changed; the result shares only memory with it that is never
// written. An error says what is invalid in s for its own protocol.
func Adapt(s *sim.Schedule, p *sim.Protocol) (*sim.Schedule, error) {
	if err := validate(s); err != nil {
		return nil, err
	}
	return adapt(s, p, nil), nil
}

// validate is for a schedule of somebody else: adapt relies on it.
func validate(s *sim.Schedule) error {
	own, ok := protocols.ByName(s.Protocol)
	if !ok {
		return fmt.Errorf("schedule: protocol: %q; want some of: %s", s.Protocol, strings.Join(Names(), ", "))
	}
	return s.Validate(own)
}

func adapt(s *sim.Schedule, p *sim.Protocol, config json.RawMessage) *sim.Schedule {
	a := &sim.Schedule{
		Format: s.Format, Protocol: p.Name, Config: config, Seed: s.Seed, Profile: s.Profile, Nodes: s.Nodes,
		Faults: s.Faults, Beyond: s.Beyond, Links: s.Links, Disks: s.Disks, Store: s.Store, Work: s.Work,
		Clocks: s.Clocks[:min(len(s.Clocks), s.Nodes)],
	}
	a.Work.NonExclusive = false
	if p.Silence != nil {
		// A program that is warned of the end of its lease earlier than the lease lasts gives up as
		// soon as it leads.
		if silence, err := p.Silence(config); err == nil {
			a.Work.Drain = min(a.Work.Drain, silence/4)
		}
	}
	a.Ops = takingPart(s)
	switch stored := overStore(s); {
	case p.Store == sim.StoreNone:
		a.Ops = toLinked(a.Ops)
	case !stored:
		a.Store = throughLinks(s)
		a.Ops = toStored(a.Ops)
	}
	if p.Breaks != nil {
		breaks, err := p.Breaks(config) // an error is sim.New's to tell
		a.Beyond = a.Beyond || err == nil && slices.ContainsFunc(a.Ops, func(op sim.Op) bool { return slices.Contains(breaks, op.Kind) })
	}
	return a
}

// overStore reports whether a schedule was made for a protocol over a store.
func overStore(s *sim.Schedule) bool {
	p, ok := protocols.ByName(s.Protocol)
	return ok && p.Store != sim.StoreNone
}

// takingPart returns the operations, without those of operators and those on participants that are
// left out.
func takingPart(s *sim.Schedule) []sim.Op {
	ops := []sim.Op{}
	for _, op := range s.Ops {
		grouped := len(op.Group) > 0
		op.Group = slices.DeleteFunc(slices.Clone(op.Group), func(id protocol.NodeID) bool { return place(id) >= s.Nodes })
		if byOperator(op.Kind) || place(op.Node) >= s.Nodes || place(op.Peer) >= s.Nodes || grouped && len(op.Group) == 0 {
			continue
		}
		ops = append(ops, op)
	}
	return ops
}

// place is the place of a voter or candidate, from 0; -1 is none in particular (all, or the
// leader), and other participants are beyond all places.
func place(id protocol.NodeID) int {
	if id == "" || id == sim.Leader {
		return -1
	}
	k, err := strconv.Atoi(string(id[1:]))
	if id[0] != 'n' || err != nil {
		return math.MaxInt
	}
	return k - 1
}

func byOperator(k sim.OpKind) bool {
	switch k {
	case sim.OpResign, sim.OpWithdraw, sim.OpSicken, sim.OpConfirm, sim.OpTransfer, sim.OpStandBack, sim.OpLocate,
		sim.OpAdd, sim.OpRemove, sim.OpReplace, sim.OpReconfigure:
		return true
	}
	return false
}

// toLinked is for protocols whose participants send each other messages.
func toLinked(ops []sim.Op) []sim.Op {
	kept := []sim.Op{}
	for _, op := range ops {
		switch op.Kind {
		case sim.OpStoreDown:
			if op.Node == "" {
				continue
			}
			op.Kind = sim.OpIsolate
		case sim.OpStoreSlow, sim.OpStoreUnknown, sim.OpStaleRead, sim.OpWatchLoss, sim.OpWatchDouble, sim.OpWatchClose,
			sim.OpExpireEarly, sim.OpExpireLate, sim.OpFailover, sim.OpRollback, sim.OpStoreElect, sim.OpStoreHang, sim.OpThrottle, sim.OpForeign:
			continue
		}
		kept = append(kept, op)
	}
	return kept
}

// toStored is for protocols over a replicated store. The world translates cuts, crashes and failing
// disks.
func toStored(ops []sim.Op) []sim.Op {
	kept := []sim.Op{}
	for _, op := range ops {
		switch op.Kind {
		case sim.OpReset:
			if op.Peer != "" {
				continue
			}
			op.Kind = sim.OpWatchClose
		case sim.OpDelay, sim.OpDuplicate, sim.OpReorder, sim.OpReplay, sim.OpDrop, sim.OpImpostor, sim.OpFlip, sim.OpSlowSync:
			continue
		case sim.OpLoss:
			if op.Value < 1 {
				continue
			}
		}
		kept = append(kept, op)
	}
	return kept
}

// throughLinks is the noise of a store whose servers are on the participants' machines.
func throughLinks(s *sim.Schedule) sim.StoreNoise {
	n := sim.StoreNoise{
		Delay: 2*s.Links.Delay + s.Disks.Sync/2, Jitter: 2*s.Links.Jitter + s.Disks.Jitter/2, Tail: s.Links.Tail,
		Timeout: s.Store.Timeout, LostAsk: s.Links.Loss, Unknown: s.Links.Loss,
		Replicated: true,
	}
	if len(s.Clocks) > 0 {
		n.Rate = s.Clocks[0].Rate
	}
	return n
}
