package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// The limits of a schedule.
const (
	MaxNodes      = protocol.MaxVoters   // of participants, and of observers
	MaxCandidates = 1000                 // of participants where a store elects them
	MaxOps        = 100_000              // operations
	MaxSpan       = 365 * 24 * time.Hour // of every duration
	MaxText       = 64 << 20             // bytes of its JSON
	MaxWork       = 100_000_000          // writes of the work in the whole run, as often as Work.Every says
	maxTicks      = 10_000               // of an operation that goes on, Every
	maxRate       = 900_000              // of a clock, in parts per million
	format        = 1
)

// ParseSchedule reads a schedule from JSON of at most [MaxText] bytes. It refuses unknown fields, a
// key that occurs twice or in another case, and data after the schedule; the error is a
// [*ParseError]. Validate checks the meaning of the schedule, and [New] calls it.
func ParseSchedule(data []byte) (*Schedule, error) {
	if err := checkText(data, reflect.TypeFor[Schedule]()); err != nil {
		return nil, err
	}
	s := new(Schedule)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, &ParseError{Line: 1, Column: 1, Err: err}
	}
	return s, nil
}

// Encode returns the schedule as JSON, one operation a line.
func (s *Schedule) Encode() ([]byte, error) {
	head := *s
	head.Ops = []Op{}
	text, err := json.MarshalIndent(&head, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("schedule: %w", err)
	}
	text = bytes.TrimSuffix(text, []byte("[]\n}"))
	text = append(text, '[')
	for i := range s.Ops {
		line, err := json.Marshal(&s.Ops[i])
		if err != nil {
			return nil, fmt.Errorf("schedule: ops[%d]: %w", i, err)
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(text, "\n    "...), line...)
	}
	if len(s.Ops) > 0 {
		text = append(text, "\n  "...)
	}
	return append(text, "]\n}\n"...), nil
}

// Validate returns an error that names the field if the schedule is invalid for a protocol.
func (s *Schedule) Validate(p *Protocol) error {
	if s.Format != format {
		return fmt.Errorf("schedule: format: %d; want %d", s.Format, format)
	}
	if s.Protocol != p.Name {
		return fmt.Errorf("schedule: protocol: %q; want %q", s.Protocol, p.Name)
	}
	if s.Nodes < 1 || s.Nodes > p.most() {
		return fmt.Errorf("schedule: nodes: %d; want 1 to %d", s.Nodes, p.most())
	}
	if s.Observers < 0 || s.Observers > MaxNodes {
		return fmt.Errorf("schedule: observers: %d; want 0 to %d", s.Observers, MaxNodes)
	}
	if s.Spares < 0 || s.Spares > MaxNodes {
		return fmt.Errorf("schedule: spares: %d; want 0 to %d", s.Spares, MaxNodes)
	}
	if s.Spares > 0 && p.Members == nil {
		return fmt.Errorf("schedule: spares: %d; want 0: the membership of %s is fixed", s.Spares, p.Name)
	}
	if all := s.Nodes + s.Observers + s.Spares; len(s.Clocks) > all {
		return fmt.Errorf("schedule: clocks: %d of them; want at most %d", len(s.Clocks), all)
	}
	for i, c := range s.Clocks {
		if c.Rate < -maxRate || c.Rate > maxRate {
			return fmt.Errorf("schedule: clocks[%d].rate: %d; want %d to %d", i, c.Rate, -maxRate, maxRate)
		}
		if c.Zero < -MaxSpan || c.Zero > MaxSpan {
			return fmt.Errorf("schedule: clocks[%d].zero: %v; want at most %v from 0", i, c.Zero, MaxSpan)
		}
	}
	if err := s.validateCore(p); err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	if len(s.Ops) > MaxOps {
		return fmt.Errorf("schedule: ops: %d of them; want at most %d", len(s.Ops), MaxOps)
	}
	if err := s.validateNoise(); err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	if most := s.writes(); most > MaxWork {
		span := s.Faults + s.Settle
		return fmt.Errorf("schedule: work.every: %v, which is %d writes in %v; want 0, or at least %v: %d writes at most", s.Work.Every, most, span, span/MaxWork+1, MaxWork)
	}
	if s.Log.Every > 0 && (s.Faults+s.Settle)/s.Log.Every > MaxWork {
		return fmt.Errorf("schedule: log.every: %v, which is more than %d times in %v; want 0, or a longer time", s.Log.Every, MaxWork, s.Faults+s.Settle)
	}
	if s.Log != (Log{}) && p.Compare == nil {
		return fmt.Errorf("schedule: log: %s knows no positions; want none", p.Name)
	}
	for i := range s.Ops {
		if err := s.validateOp(i, p); err != nil {
			return fmt.Errorf("schedule: ops[%d] (%s): %w", i, s.Ops[i].Kind, err)
		}
	}
	return nil
}

// writes is the greatest number of writes of the work, if there is always a leader.
func (s *Schedule) writes() time.Duration {
	if s.Work.Every <= 0 {
		return 0
	}
	return (s.Faults + s.Settle) / s.Work.Every
}

// validateCore requires a majority where voters elect: without one no participant could be live.
func (s *Schedule) validateCore(p *Protocol) error {
	seen := make(map[protocol.NodeID]bool, len(s.Core))
	voters := 0
	for i, id := range s.Core {
		switch at := s.index(id); {
		case at < 0:
			return fmt.Errorf("core[%d]: %w", i, strange(id, s))
		case seen[id]:
			return fmt.Errorf("core[%d]: %s is there twice; want it once", i, id)
		case at < s.Nodes:
			voters++
		}
		seen[id] = true
	}
	if len(s.Core) > 0 && p.Store == StoreNone && voters <= s.Nodes/2 {
		return fmt.Errorf("core: %d of %d; want a majority of the voters", voters, s.Nodes)
	}
	return nil
}

func (s *Schedule) validateNoise() error {
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"faults", s.Faults}, {"settle", s.Settle}, {"links.delay", s.Links.Delay}, {"links.jitter", s.Links.Jitter},
		{"disks.sync", s.Disks.Sync}, {"disks.jitter", s.Disks.Jitter},
		{"store.delay", s.Store.Delay}, {"store.jitter", s.Store.Jitter}, {"store.timeout", s.Store.Timeout},
		{"log.every", s.Log.Every}, {"log.lag", s.Log.Lag}, {"work.every", s.Work.Every}, {"work.think", s.Work.Think}, {"work.flight", s.Work.Flight}, {"work.drain", s.Work.Drain}, {"work.stop", s.Work.Stop},
	} {
		if d.d < 0 || d.d > MaxSpan {
			return fmt.Errorf("%s: %v; want 0 to %v", d.name, d.d, MaxSpan)
		}
	}
	for _, p := range []struct {
		name string
		p    float64
	}{
		{"links.tail", s.Links.Tail}, {"links.loss", s.Links.Loss}, {"links.duplicate", s.Links.Duplicate}, {"disks.tail", s.Disks.Tail},
		{"store.tail", s.Store.Tail}, {"store.unknown", s.Store.Unknown}, {"store.lost_ask", s.Store.LostAsk}, {"store.late_ask", s.Store.LateAsk},
		{"store.repeat", s.Store.Repeat}, {"store.stale_read", s.Store.StaleRead}, {"store.watch_loss", s.Store.WatchLoss},
		{"store.watch_twice", s.Store.WatchTwice}, {"store.watch_close", s.Store.WatchClose}, {"store.throttle", s.Store.Throttle},
	} {
		if !(p.p >= 0 && p.p <= 1) {
			return fmt.Errorf("%s: %v; want a probability, 0 to 1", p.name, p.p)
		}
	}
	if s.Links.Bandwidth < 0 || s.Links.Bandwidth > int64(time.Second) {
		return fmt.Errorf("links.bandwidth: %d; want 0 to %d", s.Links.Bandwidth, int64(time.Second))
	}
	if s.Store.Replicated && s.Nodes > MaxNodes {
		return fmt.Errorf("store.replicated: %d nodes; want at most %d: each has a server of the store beside it", s.Nodes, MaxNodes)
	}
	if s.Store.Rate < -maxRate || s.Store.Rate > maxRate {
		return fmt.Errorf("store.rate: %d; want %d to %d", s.Store.Rate, -maxRate, maxRate)
	}
	return nil
}

// validateOp accepts an operation that may find nothing to do, and refuses an invalid one.
func (s *Schedule) validateOp(i int, p *Protocol) error {
	op := &s.Ops[i]
	if !op.Kind.known() {
		return fmt.Errorf("kind: %q; want one of those that 'electlab sim list faults' and the documentation of OpKind list", op.Kind)
	}
	if op.At < 0 || op.At > Time(s.Faults) {
		return fmt.Errorf("at: %s; want 0 to the end of the faults, %s", op.At, s.Faults)
	}
	if i > 0 && op.At < s.Ops[i-1].At {
		return fmt.Errorf("at: %s, after an operation at %s; want them by rising time", op.At, s.Ops[i-1].At)
	}
	for _, f := range []struct {
		name string
		id   protocol.NodeID
	}{{"node", op.Node}, {"peer", op.Peer}} {
		switch {
		case f.id == Leader && (op.Kind == OpTwin || op.Kind == OpRestore || op.Kind == OpDrop):
			return fmt.Errorf("%s: %q; want a name, because this has to be known before the run", f.name, Leader)
		case f.id != "" && f.id != Leader && !s.has(f.id):
			return fmt.Errorf("%s: %w", f.name, strange(f.id, s))
		}
	}
	for k, id := range op.Group {
		if !s.has(id) {
			return fmt.Errorf("group[%d]: %w", k, strange(id, s))
		}
	}
	if len(op.Group) > 2*p.most() {
		return fmt.Errorf("group: %d participants; want at most %d", len(op.Group), 2*p.most())
	}
	if len(op.Group) == 0 && op.Kind == OpReconfigure {
		return errors.New("group: it is empty; want the voters, such as [\"n1\"]")
	}
	if len(op.Group) == 0 && op.Kind.groups() {
		return errors.New("group: it is empty, and no participant would be cut off; want participants, such as [\"n1\"]")
	}
	if op.Kind == OpReconfigure && len(op.Group) > MaxNodes {
		return fmt.Errorf("group: %d voters; want at most %d", len(op.Group), MaxNodes)
	}
	if op.For < 0 || op.For > MaxSpan {
		return fmt.Errorf("for: %v; want 0 to %v", op.For, MaxSpan)
	}
	if op.By < -MaxSpan || op.By > MaxSpan || op.By < 0 && op.Kind != OpStep && op.Kind != OpStrobe {
		return fmt.Errorf("by: %v; want 0 to %v, and less than 0 for steps of clocks only", op.By, MaxSpan)
	}
	if op.Count < 0 {
		return fmt.Errorf("count: %d; want 0 or more", op.Count)
	}
	switch op.Kind {
	case OpSwizzle, OpFlap, OpCrashLoop, OpStrobe, OpAdd, OpRemove, OpReplace, OpReconfigure:
		if op.Every <= 0 || op.For/maxTicks >= op.Every {
			return fmt.Errorf("every: %v; want more than 0, and more than a %dth of for (%v)", op.Every, maxTicks, op.For)
		}
	case OpRoll:
		if op.Every <= 0 || op.Every > MaxSpan {
			return fmt.Errorf("every: %v; want more than 0, and at most %v", op.Every, MaxSpan)
		}
	}
	switch v := op.Value; op.Kind {
	case OpRate:
		if !(math.Abs(v) <= maxRate) {
			return fmt.Errorf("value: %v; want %d to %d parts per million", v, -maxRate, maxRate)
		}
	case OpLoss, OpDuplicate, OpStoreUnknown, OpThrottle, OpOneWay:
		if !(v >= 0 && v <= 1) {
			return fmt.Errorf("value: %v; want 0 to 1", v)
		}
	}
	if op.Kind == OpLocate && p.Compare == nil {
		return fmt.Errorf("kind: %s knows no positions", p.Name)
	}
	if op.Kind != OpLocate && op.Kind.elects() && p.Members == nil {
		return fmt.Errorf("kind: the membership of %s is fixed, and it knows no transfers", p.Name)
	}
	if op.Kind.stores() && p.Store == StoreNone {
		return fmt.Errorf("kind: protocol %s has no store", p.Name)
	}
	return nil
}

// has reports whether there is such a participant.
func (s *Schedule) has(id protocol.NodeID) bool { return s.index(id) >= 0 }

// index is the place of a participant, or -1.
func (s *Schedule) index(id protocol.NodeID) int {
	w := World{schedule: s}
	return w.index(id)
}

// groups reports whether an operation needs a Group.
func (k OpKind) groups() bool {
	switch k {
	case OpHalves, OpThird, OpBridge, OpChain, OpSwizzle, OpReconfigure:
		return true
	}
	return false
}

// reconfigures reports whether an operation changes the membership.
func (k OpKind) reconfigures() bool {
	return k == OpAdd || k == OpRemove || k == OpReplace || k == OpReconfigure
}

// elects reports whether an operation is for protocols whose membership can change.
func (k OpKind) elects() bool {
	return k == OpTransfer || k == OpStandBack || k == OpLocate || k.reconfigures()
}

// most is the greatest number of voters or candidates.
func (p *Protocol) most() int {
	if p.Store != StoreNone {
		return MaxCandidates
	}
	return MaxNodes
}

// stores reports whether an operation is one of the store.
func (k OpKind) stores() bool {
	switch k {
	case OpStoreDown, OpStoreSlow, OpStoreUnknown, OpStaleRead, OpWatchLoss, OpWatchDouble, OpWatchClose,
		OpExpireEarly, OpExpireLate, OpFailover, OpRollback, OpStoreElect, OpStoreHang, OpThrottle, OpForeign:
		return true
	}
	return false
}

func (k OpKind) known() bool {
	switch k {
	case OpReplay, OpReset, OpDrop,
		OpKill, OpPowerLoss, OpCrashLoop, OpPause, OpPauseSend, OpPauseWork, OpSuspend, OpWipe, OpTwin, OpImpostor, OpRoll, OpWitness,
		OpRate, OpStep, OpStrobe, OpReboot,
		OpLoseWrites, OpFlip, OpRestore, OpEIO, OpFull, OpSlowSync,
		OpResign, OpWithdraw, OpSicken, OpConfirm:
		return true
	}
	return k.shapes() || k.stores() || k.elects()
}
