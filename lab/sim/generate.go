package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Options restrict what Generate draws. The zero value is the documented default.
type Options struct {
	// Nodes is the number of voters or candidates; 0 draws 3 or 5.
	Nodes int
	// Observers is the number of observers in addition.
	Observers int
	// Spares is the number of participants that may become voters; 0 draws it from the seed, if the
	// protocol's membership can change; negative is none.
	Spares int
	// Profile is one of Profiles; empty is "swarm".
	Profile string
	// Faults and Settle are the lengths of the two phases. Faults 0 is 60
	// patiences of the protocol, Settle 0 is 30. Negative leaves a phase out.
	Faults, Settle time.Duration
	// Beyond allows faults that break an assumption of the model: clock rates beyond ρ, disks
	// restored from old copies, stores that lose acknowledged writes. The run is then excused for
	// what they break; see Schedule.Excused.
	Beyond bool
	// Config is the machines' configuration; empty is their default.
	Config json.RawMessage
	// Only draws these kinds of faults, all of them in each schedule, if the profile and the
	// protocol have them; empty leaves the choice to the seed.
	Only []OpKind
}

// Profile is a family of faults.
type Profile struct {
	Name string `json:"name"`
	Says string `json:"says"`

	groups []group
	// churn: the membership changes all the time.
	churn bool
	// storm: delays near the protocol's timeouts, and faults in close succession. No participant
	// can be expected to be live in it.
	storm bool
}

type group string

const (
	network   group = "network"
	partition group = "partition"
	process   group = "process"
	clocks    group = "clock"
	disks     group = "disk"
	stores    group = "store"
	operator  group = "operator"
)

var profiles = []Profile{
	{Name: "swarm", Says: "each seed draws which faults there are, how many, and how long they last", groups: []group{network, partition, process, clocks, disks, stores, operator}},
	{Name: "quiet", Says: "no fault; delays, and clocks within the assumption"},
	{Name: "network", Says: "loss, delay, duplicates, reordering, replay, clogged and half-open links, false resets", groups: []group{network}},
	{Name: "partitions", Says: "one, halves, thirds, bridges, rings, chains, one-way, swizzled, flapping", groups: []group{partition}},
	{Name: "processes", Says: "crashes, restarts, crash loops, pauses at bad moments, suspends, wiped disks", groups: []group{process}},
	{Name: "clocks", Says: "clocks whose rates change, that jump, strobe and restart", groups: []group{clocks}},
	{Name: "disks", Says: "slow, failing and full disks, torn and lost writes", groups: []group{disks, process}},
	{Name: "stores", Says: "outages, lost and late answers, lagging reads, lost watches, expiry", groups: []group{stores, process}},
	{Name: "storm", Says: "as swarm, all the time and on slow networks and disks; no liveness phase", groups: []group{network, partition, process, clocks, disks, stores, operator}, storm: true},
	{Name: "operators", Says: "resignations, transfers, pauses, ill health and changes of the membership, racing crashes", groups: []group{operator, process}},
	{Name: "members", Says: "the membership changes all the time, among cuts, crashes and failing disks", groups: []group{operator, partition, process, disks}, churn: true},
}

// Profiles lists the families of faults.
func Profiles() []Profile { return slices.Clone(profiles) }

// fault is a row of the table that schedules are drawn from.
type fault struct {
	kind   OpKind
	group  group
	beyond bool // it breaks an assumption of the model
	weight int
	draw   func(d *draw, op *Op)
}

// faults is the whole list. Each of them is described at its OpKind.
var faults = []fault{
	{OpLoss, network, false, 3, func(d *draw, op *Op) { d.link(op); op.For, op.Value = d.span(), d.probability() }},
	{OpDelay, network, false, 3, func(d *draw, op *Op) { d.link(op); op.For, op.By = d.span(), d.short() }},
	{OpDuplicate, network, false, 2, func(d *draw, op *Op) { d.link(op); op.For, op.Value = d.span(), d.probability() }},
	{OpReorder, network, false, 2, func(d *draw, op *Op) { d.link(op); op.For, op.By = d.span(), d.short() }},
	{OpReplay, network, false, 3, func(d *draw, op *Op) { d.link(op); op.Count = 1 + d.IntN(20) }},
	{OpClog, network, false, 3, func(d *draw, op *Op) { d.link(op); op.For = d.span() }},
	{OpHalfOpen, network, false, 2, func(d *draw, op *Op) { d.link(op); op.For = d.span() }},
	{OpReset, network, false, 4, func(d *draw, op *Op) { d.link(op) }},

	{OpIsolate, partition, false, 4, func(d *draw, op *Op) { op.Node, op.For = d.node(), d.span() }},
	{OpHalves, partition, false, 3, func(d *draw, op *Op) { op.Group, op.For = d.some(d.size()/2), d.span() }},
	{OpThird, partition, false, 2, func(d *draw, op *Op) { op.Group, op.For = d.some(max(1, d.size()/3)), d.span() }},
	{OpBridge, partition, false, 3, func(d *draw, op *Op) { op.Node, op.For = d.voter(), d.span(); op.Group = d.others(op.Node, d.size()/2) }},
	{OpMajorityRing, partition, false, 2, func(d *draw, op *Op) { op.For = d.span() }},
	{OpChain, partition, false, 2, func(d *draw, op *Op) { op.Group, op.For = d.some(d.size()), d.span() }},
	{OpOneWay, partition, false, 3, func(d *draw, op *Op) { op.Node, op.For, op.Value = d.node(), d.span(), float64(d.IntN(2)) }},
	{OpSwizzle, partition, false, 2, func(d *draw, op *Op) { op.Group, op.For, op.Every = d.some(max(1, d.size()/2)), d.span(), d.short() }},
	{OpFlap, partition, false, 2, func(d *draw, op *Op) { d.link(op); op.For, op.Every = d.span(), d.short() }},

	{OpKill, process, false, 6, func(d *draw, op *Op) { op.Node, op.For = d.node(), d.down() }},
	{OpPowerLoss, process, false, 3, func(d *draw, op *Op) { op.Node, op.For = d.node(), d.down() }},
	{OpCrashLoop, process, false, 1, func(d *draw, op *Op) { op.Node, op.For, op.Every = d.node(), d.span(), d.short() }},
	{OpPause, process, false, 4, func(d *draw, op *Op) { op.Node, op.For = d.node(), d.span() }},
	{OpPauseSend, process, false, 3, func(d *draw, op *Op) { op.Node, op.For = d.node(), d.span() }},
	{OpPauseWork, process, false, 3, func(d *draw, op *Op) { op.Node, op.For = d.node(), d.span() }},
	{OpSuspend, process, false, 2, func(d *draw, op *Op) { op.Node, op.For = d.node(), d.span() }},
	{OpWipe, process, false, 1, func(d *draw, op *Op) { op.Node, op.For = d.wiped(), d.short() }},
	{OpTwin, process, true, 1, func(d *draw, op *Op) { op.Node, op.For = d.voter(), d.span() }},
	{OpRoll, process, false, 1, func(d *draw, op *Op) { op.Every = d.span() }},
	{OpWitness, process, false, 4, func(d *draw, op *Op) { op.Node, op.For = d.node(), d.down() }},

	{OpRate, clocks, false, 4, func(d *draw, op *Op) { op.Node, op.Value = d.node(), float64(d.rate()) }},
	{OpStep, clocks, false, 3, func(d *draw, op *Op) { op.Node, op.By = d.node(), d.signed(d.span()) }},
	{OpStrobe, clocks, false, 1, func(d *draw, op *Op) {
		op.Node, op.By, op.For, op.Every = d.node(), d.signed(d.short()), d.span(), d.short()
	}},
	{OpReboot, clocks, false, 2, func(d *draw, op *Op) { op.Node, op.For = d.node(), d.down() }},

	{OpLoseWrites, disks, false, 4, func(d *draw, op *Op) { op.Node, op.For = d.voter(), d.down() }},
	{OpFlip, disks, true, 1, func(d *draw, op *Op) { op.Node, op.Count = d.voter(), d.IntN(2) }},
	{OpRestore, disks, true, 1, func(d *draw, op *Op) { op.Node, op.By, op.For = d.voter(), d.span(), d.short() }},
	{OpEIO, disks, false, 2, func(d *draw, op *Op) { op.Node, op.For = d.voter(), d.span() }},
	{OpFull, disks, false, 2, func(d *draw, op *Op) { op.Node, op.For = d.voter(), d.span() }},
	{OpSlowSync, disks, false, 3, func(d *draw, op *Op) { op.Node, op.For, op.By = d.voter(), d.span(), d.short() }},

	{OpStoreDown, stores, false, 3, func(d *draw, op *Op) { d.maybe(op); op.For = d.span() }},
	{OpStoreSlow, stores, false, 3, func(d *draw, op *Op) { d.maybe(op); op.For, op.By = d.span(), d.short() }},
	{OpStoreUnknown, stores, false, 4, func(d *draw, op *Op) { op.For, op.Value = d.span(), d.probability() }},
	{OpStaleRead, stores, false, 3, func(d *draw, op *Op) { d.maybe(op); op.For, op.By = d.span(), d.span() }},
	{OpWatchLoss, stores, false, 2, func(d *draw, op *Op) { op.For = d.span() }},
	{OpWatchDouble, stores, false, 1, func(d *draw, op *Op) { op.For = d.span() }},
	{OpWatchClose, stores, false, 2, func(d *draw, op *Op) { d.maybe(op) }},
	{OpExpireEarly, stores, false, 1, func(d *draw, op *Op) { op.Node = d.node() }},
	{OpExpireLate, stores, false, 1, func(d *draw, op *Op) { op.For, op.By = d.span(), d.span() }},
	{OpFailover, stores, true, 1, func(_ *draw, op *Op) { op.Count = 1 + int(op.At)%3 }},
	{OpRollback, stores, true, 1, func(d *draw, op *Op) { op.Count, op.Value = 1+d.IntN(12), float64(d.IntN(4)/3) }},
	{OpStoreElect, stores, false, 2, func(*draw, *Op) {}},
	{OpStoreHang, stores, false, 3, func(d *draw, op *Op) { op.For, op.Value = d.span(), float64(d.IntN(2)) }},
	{OpThrottle, stores, false, 1, func(d *draw, op *Op) { op.For, op.Value = d.span(), d.probability() }},
	{OpForeign, stores, false, 1, func(d *draw, op *Op) { op.Node = d.node() }},

	{OpResign, operator, false, 4, func(d *draw, op *Op) { op.Node = d.node() }},
	{OpWithdraw, operator, false, 2, func(d *draw, op *Op) { op.Node, op.For = d.node(), d.span() }},
	{OpSicken, operator, false, 2, func(d *draw, op *Op) { op.Node, op.For = d.node(), d.span() }},
	{OpConfirm, operator, false, 1, func(d *draw, op *Op) { op.Node = d.node() }},

	{OpTransfer, operator, false, 4, func(d *draw, op *Op) { d.transfer(op) }},
	{OpStandBack, operator, false, 2, func(d *draw, op *Op) { op.Node, op.For = d.node(), d.span() }},
	{OpLocate, operator, false, 2, func(d *draw, op *Op) { d.locate(op) }},
	{OpAdd, operator, false, 3, func(d *draw, op *Op) { op.Node = d.joiner(); d.work(op); d.favour(op, op.Node) }},
	{OpRemove, operator, false, 2, func(d *draw, op *Op) { op.Node = d.node(); d.work(op) }},
	{OpReplace, operator, false, 2, func(d *draw, op *Op) { d.replace(op) }},
	{OpReconfigure, operator, false, 2, func(d *draw, op *Op) {
		op.Group, op.Value = d.electorate(), float64(d.IntN(2))
		d.work(op)
		d.favour(op, op.Group[d.IntN(len(op.Group))])
	}},
}

// Generate draws a schedule from a seed. Equal arguments give equal schedules.
func Generate(p *Protocol, seed uint64, o Options) (*Schedule, error) {
	i := slices.IndexFunc(profiles, func(f Profile) bool { return f.Name == cmp.Or(o.Profile, "swarm") })
	if i < 0 {
		names := make([]string, len(profiles))
		for i := range profiles {
			names[i] = profiles[i].Name
		}
		return nil, fmt.Errorf("profile %q; want one of %v", o.Profile, names)
	}
	if o.Nodes < 0 || o.Nodes > p.most() || o.Observers < 0 || o.Observers > MaxNodes || o.Spares > MaxNodes {
		return nil, fmt.Errorf("%d nodes with %d observers and %d spares; want at most %d, %d and %d", o.Nodes, o.Observers, max(o.Spares, 0), p.most(), MaxNodes, MaxNodes)
	}
	if o.Spares > 0 && p.Members == nil {
		return nil, fmt.Errorf("%d spares; want none: the membership of %s is fixed", o.Spares, p.Name)
	}
	settings := slices.Contains(profiles[i].groups, operator) // to be drawn
	if settings && len(o.Config) == 0 && p.Draw != nil {
		o.Config = p.Draw(rand.New(rand.NewPCG(seed, 0xc0_4f_16)), electors(cmp.Or(o.Nodes, 5), o.Observers, max(o.Spares, 0)))
	}
	least, patience, yields, err := p.leastSettle(o.Config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	drift, err := p.Drift(o.Config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	d := &draw{Rand: rand.New(rand.NewPCG(seed, 0x5c_4e_d0_1e)), protocol: p, patience: patience, ppm: drift.PPM, beyond: o.Beyond, longest: 5 * patience, only: o.Only, churn: profiles[i].churn}
	s := &Schedule{
		Format: 1, Protocol: p.Name, Config: o.Config, Seed: seed, Profile: profiles[i].Name, Observers: o.Observers,
		Spares: max(o.Spares, 0), Nodes: o.Nodes, Faults: max(o.Faults, 0), Settle: max(o.Settle, 0), Beyond: o.Beyond,
	}
	storm := profiles[i].storm
	if s.Nodes == 0 {
		if s.Nodes = 3 + 2*d.IntN(2); storm {
			s.Nodes = 2 + d.IntN(4)
		}
	}
	if o.Faults == 0 {
		s.Faults = 60 * patience
	}
	if o.Settle == 0 && !storm {
		s.Settle = max(30*patience, least) + yields
	}
	if p.Breaks != nil {
		if d.breaks, err = p.Breaks(o.Config); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	d.schedule = s
	if settings && p.Members != nil {
		d.spares(o.Spares, profiles[i].churn)
	}
	d.noise(profiles[i].groups)
	if storm {
		d.rougher()
	}
	if most := s.writes(); most > MaxWork {
		return nil, fmt.Errorf("faults for %v (--faults) are more than %d writes of the work with seed %d; want a shorter time, such as %v", s.Faults, MaxWork, seed, plainly(s.Work.Every*MaxWork-s.Settle))
	}
	if err := d.ops(profiles[i].groups, storm); err != nil {
		return nil, err
	}
	d.core()
	return s, nil
}

// draw is one drawing of a schedule.
type draw struct {
	*rand.Rand
	protocol *Protocol
	schedule *Schedule
	patience time.Duration
	ppm      int64
	longest  time.Duration // of a fault
	only     []OpKind
	beyond   bool
	breaks   []OpKind // what is beyond the model for this protocol
	wipes    []protocol.NodeID
	churn    bool
	also     []Op // operations that go with the one being drawn
}

// noise draws the permanent properties.
func (d *draw) noise(groups []group) {
	s := d.schedule
	delay := 50*time.Microsecond + time.Duration(d.Int64N(int64(d.patience)/200))
	s.Links = LinkNoise{Delay: delay, Jitter: delay / time.Duration(1+d.IntN(8))}
	s.Disks = DiskNoise{Sync: 300 * time.Microsecond, Jitter: time.Duration(d.Int64N(int64(d.patience) / 200))}
	s.Store = StoreNoise{Delay: delay, Jitter: delay / time.Duration(1+d.IntN(4)), Timeout: d.patience / 8}
	s.Work = Work{
		Every: d.patience / time.Duration(5+d.IntN(40)), Think: time.Duration(d.Int64N(int64(d.patience) / 20)),
		Flight: time.Duration(d.Int64N(int64(d.patience) / 20)), Drain: d.patience / time.Duration(8+d.IntN(16)), Stop: time.Duration(d.Int64N(int64(d.patience) / 8)),
	}
	if d.IntN(4) == 0 {
		s.Work.Stop *= 20 // it takes its time, and is overrun
	}
	s.Work.NonExclusive = d.IntN(6) == 0
	s.Work.Outlives = d.IntN(3) == 0
	if slices.Contains(groups, network) {
		s.Links.Reorder = d.IntN(3) == 0
		s.Links.Tail = d.rarely(0.02)
		s.Links.Loss = d.rarely(0.2)
		s.Links.Duplicate = d.rarely(0.1)
	}
	if slices.Contains(groups, disks) {
		s.Disks.Tail = d.rarely(0.05)
	}
	if slices.Contains(groups, stores) && d.protocol.Store != StoreNone {
		n := &s.Store
		n.Tail, n.Unknown, n.LostAsk, n.LateAsk, n.Repeat = d.rarely(0.05), d.rarely(0.1), d.rarely(0.1), d.rarely(0.1), d.rarely(0.1)
		n.StaleRead, n.WatchLoss, n.WatchTwice, n.WatchClose, n.Throttle = d.rarely(0.3), d.rarely(0.3), d.rarely(0.3), d.rarely(0.1), d.rarely(0.1)
	}
	if d.protocol.Store != StoreNone {
		s.Store.Rate = d.rate()
		// A protocol that relies on mended servers gets them, unless more is allowed.
		s.Store.Mended = slices.Contains(d.breaks, OpStoreHang) && !d.beyond
	}
	for range s.Nodes + s.Observers + s.Spares {
		s.Clocks = append(s.Clocks, ClockSpec{Rate: d.rate(), Zero: time.Duration(d.Int64N(int64(time.Hour)))})
	}
}

// rougher turns noise into a storm.
func (d *draw) rougher() {
	s := d.schedule
	d.longest = d.patience
	delay := d.between(50*time.Microsecond, d.patience/12)
	s.Links.Delay, s.Links.Jitter = delay, delay/time.Duration(1+d.IntN(4))
	s.Links.Duplicate = d.rarely(0.3)
	s.Disks.Jitter = d.between(10*time.Microsecond, d.patience/12)
	s.Store.Delay, s.Store.Jitter = delay, delay/time.Duration(1+d.IntN(4))
	s.Store.Timeout = d.between(d.patience/16, d.patience/4)
	s.Work.Stop = d.between(time.Millisecond, d.patience)
	s.Work.Every, s.Work.Outlives = d.patience/8, d.IntN(2) == 0
	for i := range s.Clocks {
		if d.IntN(2) == 0 {
			s.Clocks[i].Rate = d.sign(d.ppm)
		}
	}
}

// ops draws which kinds of faults this run has, and then the faults.
func (d *draw) ops(groups []group, storm bool) error {
	s := d.schedule
	var chosen []fault
	total, few := 0, 2
	if storm {
		few = 1
	}
	for _, f := range faults {
		switch {
		case !slices.Contains(groups, f.group), f.beyond && !d.beyond:
			continue
		case f.group == stores && d.protocol.Store == StoreNone:
			continue
		case f.kind == OpStoreHang && d.protocol.Store != StoreEtcd:
			continue
		case f.kind == OpRollback && d.protocol.Store != StoreRegister:
			continue
		case (f.group == network || f.group == partition || f.group == disks) && d.protocol.Store != StoreNone:
			continue // its participants have no links with each other, and no disk
		case f.kind == OpWitness && d.protocol.Death == nil, f.kind.elects() && d.protocol.Members == nil:
			continue
		case f.kind == OpStoreHang && s.Store.Mended:
		case !d.beyond && slices.Contains(d.breaks, f.kind):
			continue // a leader's key that is deleted by hand makes another participant lead
		}
		// A swarm leaves out about half of the kinds, a storm most of them, so that the others
		// coincide.
		always := d.churn && f.kind.reconfigures()
		if len(d.only) == 0 && d.IntN(4) >= few && !always || len(d.only) > 0 && !slices.Contains(d.only, f.kind) {
			continue
		}
		if f.kind == OpWipe && d.protocol.Store != StoreNone {
			continue
		}
		f.weight *= 1 + d.IntN(3)
		total += f.weight
		chosen = append(chosen, f)
	}
	s.Ops = []Op{}
	if total == 0 {
		return nil
	}
	every := d.between(d.patience/4, 8*d.patience)
	if storm {
		every = d.between(d.patience/16, 2*d.patience)
	}
	for at := d.exponential(every); at < s.Faults; at += d.exponential(every) {
		pick := d.IntN(total)
		for i := range chosen {
			if pick -= chosen[i].weight; pick >= 0 {
				continue
			}
			op := Op{At: Time(at), Kind: chosen[i].kind}
			chosen[i].draw(d, &op)
			d.aim(&op, storm)
			if len(op.Group) > 0 || !op.Kind.groups() { // one voter is no two halves
				s.Ops = append(s.Ops, op)
			}
			for _, op := range d.also {
				if op.At <= Time(s.Faults) {
					s.Ops = append(s.Ops, op)
				}
			}
			d.also = d.also[:0]
			break
		}
		if len(s.Ops) > MaxOps {
			return fmt.Errorf("faults for %v (--faults) are more than %d operations with seed %d; want a shorter time, such as %v", s.Faults, MaxOps, s.Seed, plainly(at))
		}
	}
	sortOps(s)
	return nil
}

// plainly is a little less than d, in few digits.
func plainly(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second} {
		if d >= 2*unit {
			return d.Truncate(unit)
		}
	}
	return d
}

// aim directs some faults at the leader: half of them in a storm, and a quarter elsewhere.
func (d *draw) aim(op *Op, storm bool) {
	share := 4
	if storm {
		share = 2
	}
	if op.Node == "" || d.IntN(share) > 0 {
		return
	}
	switch op.Kind {
	case OpTwin, OpRestore, OpWipe, OpFlip, OpAdd, OpReplace, OpTransfer, OpLocate:
		return // these need a name, or are counted by it
	case OpReset:
		op.Peer = ""
	}
	op.Node = Leader
}

// core draws which participants are healed for the liveness phase: at least a majority, and none
// whose disk was wiped, because that is another voter.
func (d *draw) core() {
	s := d.schedule
	if s.Settle == 0 || d.IntN(2) == 0 && len(d.wipes) == 0 {
		return
	}
	var able []protocol.NodeID
	for i := range s.Nodes {
		if id := voterID(i); !slices.Contains(d.wipes, id) {
			able = append(able, id)
		}
	}
	d.Shuffle(len(able), func(i, j int) { able[i], able[j] = able[j], able[i] })
	quorum := s.Nodes/2 + 1
	if d.protocol.Store != StoreNone {
		quorum = 1
	}
	s.Core = able[:quorum+d.IntN(len(able)-quorum+1)]
	slices.SortFunc(s.Core, protocol.NodeID.Compare)
}

func voterID(i int) protocol.NodeID    { return protocol.NodeID("n" + strconv.Itoa(i+1)) }
func observerID(i int) protocol.NodeID { return protocol.NodeID("o" + strconv.Itoa(i+1)) }
func spareID(i int) protocol.NodeID    { return protocol.NodeID("s" + strconv.Itoa(i+1)) }

// size is the number of participants that can be cut off from others: the voters, and the spares.
func (d *draw) size() int { return d.schedule.Nodes + d.schedule.Spares }

// voter draws a voter, or a spare.
func (d *draw) voter() protocol.NodeID {
	i := d.IntN(d.size())
	if k := i - d.schedule.Nodes; k >= 0 {
		return spareID(k)
	}
	return voterID(i)
}

func (d *draw) node() protocol.NodeID {
	s := d.schedule
	switch i := d.IntN(s.Nodes + s.Observers + s.Spares); {
	case i >= s.Nodes+s.Observers:
		return spareID(i - s.Nodes - s.Observers)
	case i >= s.Nodes:
		return observerID(i - s.Nodes)
	default:
		return voterID(i)
	}
}

// link draws two participants.
func (d *draw) link(op *Op) {
	op.Node, op.Peer = d.node(), d.node()
	for range 8 {
		if op.Peer != op.Node {
			return
		}
		op.Peer = d.node()
	}
}

// maybe draws one participant, or all of them (none named).
func (d *draw) maybe(op *Op) {
	if d.IntN(3) > 0 {
		op.Node = d.node()
	}
}

// some draws n voters.
func (d *draw) some(n int) []protocol.NodeID { return d.others("", n) }

// others draws n voters other than one.
func (d *draw) others(one protocol.NodeID, n int) []protocol.NodeID {
	var all []protocol.NodeID
	for _, id := range electors(d.schedule.Nodes, 0, d.schedule.Spares) {
		if id != one {
			all = append(all, id)
		}
	}
	d.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}

// wiped draws a voter whose disk may be lost. A majority of the original voters always remains.
func (d *draw) wiped() protocol.NodeID {
	id := d.voter()
	if slices.Contains(d.wipes, id) || d.schedule.index(id) >= d.schedule.Nodes {
		return id
	}
	if len(d.wipes) >= (d.schedule.Nodes-1)/2 {
		if len(d.wipes) == 0 {
			return "" // a single voter cannot be lost
		}
		return d.wipes[0]
	}
	d.wipes = append(d.wipes, id)
	return id
}

// rate draws a clock's rate: often perfect or at the limit of the assumption, and beyond it where
// that is allowed.
func (d *draw) rate() int64 {
	switch d.IntN(4) {
	case 0:
		return 0
	case 1:
		if d.beyond && d.IntN(2) == 0 {
			return d.sign(min(4*d.ppm, 800_000))
		}
		return d.sign(d.ppm)
	}
	return d.Int64N(2*d.ppm+1) - d.ppm
}

func (d *draw) sign(v int64) int64 {
	if d.IntN(2) == 0 {
		return -v
	}
	return v
}

func (d *draw) signed(v time.Duration) time.Duration { return time.Duration(d.sign(int64(v))) }

// span draws how long a fault lasts, short how long a delay: both logarithmically uniform, around
// the protocol's own timeouts.
func (d *draw) span() time.Duration  { return d.between(d.patience/20, d.longest) }
func (d *draw) short() time.Duration { return d.between(d.patience/1000, d.patience/2) }

// down draws how long a process stays down: often no longer than its start takes.
func (d *draw) down() time.Duration {
	if d.IntN(2) == 0 {
		return d.short()
	}
	return d.span()
}

func (d *draw) between(least, most time.Duration) time.Duration {
	return logUniform(d.Uint64(), least, most)
}

func (d *draw) exponential(mean time.Duration) time.Duration {
	return max(1, exponential(d.Uint64(), mean))
}

func (d *draw) probability() float64 { return float64(1+d.IntN(100)) / 100 }

// rarely is 0 in half of the cases, and at most most.
func (d *draw) rarely(most float64) float64 {
	if d.IntN(2) == 0 {
		return 0
	}
	return float64(1+d.IntN(1000)) * most / 1000
}
