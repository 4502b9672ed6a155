package compare

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

// The defaults of Options.
const (
	DefaultSeeds   = 200
	DefaultNodes   = 5
	DefaultProfile = "swarm"
	DefaultFor     = time.Minute
)

// Options are the options of Run. Zero means the documented default.
type Options struct {
	// Protocols are names of package protocols; empty is Default().
	Protocols []string
	// Seeds is the number of drawn schedules, DefaultSeeds by default; First is the seed of the
	// first of them, 1 by default.
	Seeds, First uint64
	// Nodes is how many voters or candidates there are, DefaultNodes by default.
	Nodes int
	// Profile is the family of faults, DefaultProfile by default.
	Profile string
	// For is how long faults go on, and with them the run: DefaultFor by default.
	For time.Duration
	// Detection gives each protocol the configuration in which a silent leader is lost after about
	// that long; 0 leaves each its own default.
	Detection time.Duration
	// Jobs is the number of concurrent runs; 1 by default.
	Jobs int
	// Schedule is run instead of drawn ones. Seeds, First, Nodes, Profile and For
	// must be zero then. It is not changed.
	Schedule *sim.Schedule
	// Progress is called after each run, with the number of finished runs and the number of all. It
	// is called by several goroutines at a time.
	Progress func(done, all uint64)
}

// Default lists the protocols that are compared by default.
func Default() []string {
	return []string{"quorum", "lease", "queue", "raft-checkquorum", "raft", "blazingmq", "ring", "bully"}
}

// contender is a protocol as it is compared.
type contender struct {
	protocol *sim.Protocol
	config   json.RawMessage
}

// comparison is one Run.
type comparison struct {
	options    Options
	base       *sim.Protocol
	contenders []contender
	next       atomic.Uint64
	done       atomic.Uint64

	mu     sync.Mutex // guards what is below
	failed uint64     // the first run, from 0, that could not be made; MaxUint64: none
	err    error
}

// Run compares. If ctx ends before all runs have, the report covers the finished runs and says so;
// that is no error.
func Run(ctx context.Context, o Options) (*Report, error) {
	c, err := newComparison(o)
	if err != nil {
		return nil, err
	}
	return c.compare(ctx)
}

func (c *comparison) compare(ctx context.Context) (*Report, error) {
	tallies := make([][]tally, c.options.Jobs)
	var all sync.WaitGroup
	for i := range tallies {
		tallies[i] = make([]tally, len(c.contenders))
		all.Go(func() { c.work(ctx, tallies[i]) })
	}
	all.Wait()
	if c.err != nil {
		return nil, c.err
	}
	sum := tallies[0]
	for _, t := range tallies[1:] {
		for i := range t {
			sum[i].join(&t[i])
		}
	}
	return c.report(sum)
}

func newComparison(o Options) (*comparison, error) {
	if o.Schedule != nil {
		if o.Seeds != 0 || o.First != 0 || o.Nodes != 0 || o.Profile != "" || o.For != 0 {
			return nil, fmt.Errorf("compare: a schedule together with seeds, nodes, a profile or a time; want one or the other")
		}
		if err := validate(o.Schedule); err != nil {
			return nil, fmt.Errorf("compare: %w", err)
		}
		o.Seeds, o.First, o.Nodes, o.Profile, o.For = 1, o.Schedule.Seed, o.Schedule.Nodes, o.Schedule.Profile, o.Schedule.Faults
	} else {
		o.Seeds, o.First = cmp.Or(o.Seeds, DefaultSeeds), cmp.Or(o.First, 1)
		o.Nodes, o.Profile, o.For = cmp.Or(o.Nodes, DefaultNodes), cmp.Or(o.Profile, DefaultProfile), cmp.Or(o.For, DefaultFor)
	}
	o.Jobs = cmp.Or(o.Jobs, 1)
	if len(o.Protocols) == 0 {
		o.Protocols = Default()
	}
	c := &comparison{options: o, failed: math.MaxUint64}
	c.base, _ = protocols.ByName(quorum.Name)
	switch {
	case o.Jobs < 0:
		return nil, fmt.Errorf("compare: %d jobs; want 1 or more", o.Jobs)
	case o.Detection < 0:
		return nil, fmt.Errorf("compare: a detection time of %v; want 0 or more", o.Detection)
	case o.Schedule == nil && o.For < 0:
		return nil, fmt.Errorf("compare: faults for %v; want more than 0", o.For)
	case o.Seeds-1 > math.MaxUint64-o.First:
		return nil, fmt.Errorf("compare: %d seeds from %d on; the greatest seed is %d", o.Seeds, o.First, uint64(math.MaxUint64))
	case o.Seeds > math.MaxUint64/uint64(len(o.Protocols)):
		return nil, fmt.Errorf("compare: %d seeds; want at most %d", o.Seeds, math.MaxUint64/uint64(len(o.Protocols)))
	}
	for i, name := range o.Protocols {
		p, ok := protocols.ByName(name)
		switch {
		case !ok:
			return nil, fmt.Errorf("compare: protocol %q; want some of: %s", name, strings.Join(Names(), ", "))
		case slices.Contains(o.Protocols[:i], name):
			return nil, fmt.Errorf("compare: protocol %s is there twice; want it once", name)
		}
		one := contender{protocol: p}
		if o.Detection > 0 {
			if p.Detects == nil {
				return nil, fmt.Errorf("compare: %s has no configuration for a detection time; leave it out, or the time", name)
			}
			var err error
			if one.config, err = p.Detects(o.Detection); err != nil {
				return nil, fmt.Errorf("compare: a detection time of %v: %w", o.Detection, err)
			}
		}
		c.contenders = append(c.contenders, one)
		if _, err := c.world(&c.contenders[i], o.First); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Names lists the protocols that can be compared: all of package protocols. Naive ones can be named, too.
func Names() []string {
	var names []string
	for _, p := range protocols.All() {
		names = append(names, p.Name)
	}
	return names
}

// draw draws the faults of a seed, for all protocols.
func (c *comparison) draw(seed uint64) (*sim.Schedule, error) {
	if c.options.Schedule != nil {
		return c.options.Schedule, nil
	}
	return sim.Generate(c.base, seed, sim.Options{
		Nodes: c.options.Nodes, Spares: -1, Profile: c.options.Profile, Faults: c.options.For, Settle: -1,
		Config: json.RawMessage("{}"), // or it would draw one
	})
}

// world is the world in which a protocol meets the faults of a seed.
func (c *comparison) world(one *contender, seed uint64) (*sim.World, error) {
	base, err := c.draw(seed)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	w, err := sim.New(one.protocol, adapt(base, one.protocol, one.config))
	if err != nil {
		return nil, fmt.Errorf("compare: %s, seed %d: %w", one.protocol.Name, seed, err)
	}
	return w, nil
}

// Schedules returns the schedules that Run would run first: that of the first seed, or the given
// one, as adapted to each protocol, in the protocols' order. They can be run alone.
func Schedules(o Options) ([]*sim.Schedule, error) {
	c, err := newComparison(o)
	if err != nil {
		return nil, err
	}
	base, err := c.draw(c.options.First)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	var all []*sim.Schedule
	for i := range c.contenders {
		all = append(all, adapt(base, c.contenders[i].protocol, c.contenders[i].config))
	}
	return all, nil
}

// work takes runs until none is left, or ctx ends. Runs come seed after seed, each through all
// protocols.
func (c *comparison) work(ctx context.Context, into []tally) {
	n := uint64(len(c.contenders))
	all := c.options.Seeds * n
	for {
		i := c.next.Add(1) - 1
		if i >= all || ctx.Err() != nil {
			return
		}
		seed, k := c.options.First+i/n, i%n
		r, err := c.run(ctx, &c.contenders[k], seed)
		if err != nil {
			c.fail(i, err)
			c.next.Store(all)
			return
		}
		if r == nil {
			return
		}
		into[k].add(seed, r)
		if done := c.done.Add(1); c.options.Progress != nil {
			c.options.Progress(done, all)
		}
	}
}

// fail keeps the error of the first run that cannot be made, of those that were
// tried.
func (c *comparison) fail(i uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i < c.failed {
		c.failed, c.err = i, err
	}
}

// run runs one seed through one protocol. It returns nil if ctx ended first.
func (c *comparison) run(ctx context.Context, one *contender, seed uint64) (*sim.Result, error) {
	w, err := c.world(one, seed)
	if err != nil {
		return nil, err
	}
	const look = 1 << 14 // events between two looks at ctx
	for n := 1; w.Step(); n++ {
		if n%look == 0 && ctx.Err() != nil {
			return nil, nil
		}
	}
	return w.Result(), nil
}
