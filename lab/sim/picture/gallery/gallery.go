// Package gallery has the pictures of the documentation: for each protocol one
// short run, as a schedule, and the time of it that is drawn; scenarios that
// break naive locks; worlds of the lab's stories; and the plot of what elections cost. They are drawn from real runs of
// the machines each time, and are the same to the byte with one build; a test holds that those in docs/pictures are
// fresh. To write them anew:
//
//	go generate ./lab/sim/picture/gallery
//
// It keeps no state; its functions may be called by any number of goroutines.
// An error is of the schedule or the writer.
package gallery

//go:generate go test -run ^TestFresh$ . -rewrite

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/count"
	"github.com/electd/elect/lab/sim/picture"
	"github.com/electd/elect/lab/sim/protocols"
	"github.com/electd/elect/lab/sim/scenario"
)

// Picture is one picture.
type Picture struct {
	Name string // of the file, without its ending
	draw func(io.Writer) error
}

// SVG draws it.
func (p Picture) SVG(w io.Writer) error { return p.draw(w) }

// All returns the pictures.
func All() []Picture {
	var all []Picture
	for _, r := range runs() {
		all = append(all, Picture{"protocols-" + r.name, r.svg})
	}
	for _, b := range breaks() {
		all = append(all, Picture{"unsafe-" + b.scenario, b.svg})
	}
	for _, c := range calms() {
		all = append(all, Picture{"concepts-" + c.name, c.svg})
	}
	for _, l := range owned() {
		all = append(all, Picture{l.name, l.svg})
	}
	return append(all, Picture{"counts", counts})
}

// counts draws what elections cost, with as many machines as take a second.
func counts(w io.Writer) error {
	rows, err := count.Table(context.Background(), nil, []int{3, 4, 5, 6, 7, 8, 9, 16, 32, 64, 128, 256, 512})
	if err != nil {
		return err
	}
	for _, r := range rows {
		if !r.Exact {
			return fmt.Errorf("gallery: %s with %d: the count is not what the formula says", r.Protocol, r.N)
		}
	}
	return count.Plot(rows).SVG(w)
}

// run is a run and the time of it that is drawn.
type run struct {
	name     string // of the protocol
	title    string
	nodes    int
	ops      []sim.Op
	from, to time.Duration
	plain    bool // heartbeats are left out
}

func runs() []run {
	const second = sim.Time(time.Second)
	dies := func(at sim.Time) []sim.Op { return []sim.Op{{At: at, Kind: sim.OpPowerLoss, Node: sim.Leader}} }
	ms := time.Millisecond
	return []run{
		{name: "quorum", title: "quorum: the leader's process is killed", nodes: 4, ops: []sim.Op{{At: 3 * second, Kind: sim.OpKill, Node: sim.Leader}}, from: 2950 * ms, to: 4060 * ms, plain: true},
		{name: "lease", title: "lease: the holder falls silent", nodes: 3, ops: dies(30 * second), from: 27 * time.Second, to: 42500 * ms},
		{name: "queue", title: "queue: the first one falls silent", nodes: 4, ops: dies(8 * second), from: 7400 * ms, to: 17550 * ms, plain: true},
		{name: "bully", title: "bully: the highest falls silent", nodes: 4, ops: dies(3 * second), from: 2900 * ms, to: 4300 * ms},
		{name: "ring", title: "ring: the highest falls silent", nodes: 4, ops: dies(3 * second), from: 2900 * ms, to: 3990 * ms, plain: true},
		{name: "ring-chang-roberts", title: "Chang and Roberts: all begin at once", nodes: 4, from: 0, to: 25 * ms, plain: true},
		{name: "raft", title: "raft: the leader falls silent", nodes: 4, ops: dies(2 * second), from: 1960 * ms, to: 2260 * ms},
		{name: "blazingmq", title: "blazingmq: the leader falls silent", nodes: 4, ops: dies(20 * second), from: 18 * time.Second, to: 27 * time.Second},
	}
}

// svg plays the run and draws it.
func (r run) svg(w io.Writer) error {
	p, ok := protocols.ByName(r.name)
	if !ok {
		return fmt.Errorf("gallery: there is no protocol %q", r.name)
	}
	s := &sim.Schedule{
		Format: 1, Protocol: r.name, Seed: 1, Nodes: r.nodes, Faults: r.to + time.Second, Ops: r.ops,
		Links: sim.LinkNoise{Delay: time.Millisecond, Jitter: 500 * time.Microsecond},
		Disks: sim.DiskNoise{Sync: 500 * time.Microsecond},
		Store: sim.StoreNoise{Delay: time.Millisecond, Jitter: 500 * time.Microsecond},
		Work:  sim.Work{Every: time.Hour, Think: time.Millisecond, Flight: time.Millisecond},
	}
	return drawn(w, p, s, picture.Options{Title: r.title, From: r.from, To: r.to, Plain: r.plain})
}

// broken is a scenario with a naive lock, and the time of it that is drawn.
type broken struct {
	scenario, protocol string
	title              string
	from, to           time.Duration
}

func breaks() []broken {
	return []broken{
		{"lock-late-answer", "naive-redis", "SET NX PX 10 s: the answer is late", 49900 * time.Millisecond, 67600 * time.Millisecond},
		{"redlock-clock", "naive-redlock", "Redlock: the clock of n3 is set", 49900 * time.Millisecond, 51150 * time.Millisecond},
	}
}

func (b broken) svg(w io.Writer) error {
	of, ok := scenario.ByName(b.scenario)
	p, known := protocols.ByName(b.protocol)
	if !ok || !known {
		return fmt.Errorf("gallery: there is no scenario %q with %q", b.scenario, b.protocol)
	}
	s, err := of.Schedule(b.protocol)
	if err != nil {
		return fmt.Errorf("gallery: %w", err)
	}
	return drawn(w, p, s, picture.Options{Title: b.title, From: b.from, To: b.to, Plain: true})
}

// drawn plays a schedule and draws it.
func drawn(w io.Writer, p *sim.Protocol, s *sim.Schedule, o picture.Options) error {
	world, err := sim.New(p, s)
	if err != nil {
		return fmt.Errorf("gallery: %s: %w", p.Name, err)
	}
	var text bytes.Buffer
	rec, err := sim.NewRecorder(&text, world, "")
	if err != nil {
		return err
	}
	world.Trace(rec)
	for world.Now() <= sim.Time(o.To) && world.Step() {
	}
	if err := rec.Close(); err != nil {
		return err
	}
	d, err := trace.NewDecoder(&text)
	if err != nil {
		return err
	}
	o.Faint = p.Heartbeat
	_, err = picture.Write(w, d, o)
	return err
}
