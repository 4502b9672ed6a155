package protocols_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

// slowSyncs is a world whose disks become slow, each by its share of sync, and whose leader fails a
// second later, in one of several ways; or there has been none yet. It returns the time of that.
func slowSyncs(how string, seed uint64, sync time.Duration, parts ...float64) (*sim.Schedule, sim.Time) {
	s := &sim.Schedule{
		Format: 1, Protocol: quorum.Name, Seed: seed, Nodes: len(parts), Faults: 40 * time.Second,
		Links: sim.LinkNoise{Delay: 500 * time.Microsecond, Jitter: 50 * time.Microsecond},
		Disks: sim.DiskNoise{Sync: 500 * time.Microsecond, Jitter: 50 * time.Microsecond},
		Work:  sim.Work{Every: 50 * time.Millisecond, Think: time.Millisecond, Flight: time.Millisecond},
	}
	var slow, gone sim.Time
	if how != "cold" {
		slow, gone = sim.Time(5*time.Second), sim.Time(6*time.Second)
	}
	for i, part := range parts {
		s.Ops = append(s.Ops, sim.Op{At: slow, Kind: sim.OpSlowSync, Node: protocol.NodeID(fmt.Sprintf("n%d", i+1)), By: time.Duration(part * float64(sync))})
	}
	switch how {
	case "silent":
		s.Ops = append(s.Ops, sim.Op{At: gone, Kind: sim.OpPowerLoss, Node: sim.Leader, For: time.Minute})
	case "killed":
		s.Ops = append(s.Ops, sim.Op{At: gone, Kind: sim.OpKill, Node: sim.Leader, For: time.Minute})
	case "restarted":
		s.Ops = append(s.Ops, sim.Op{At: gone, Kind: sim.OpKill, Node: sim.Leader, For: 50 * time.Millisecond})
	case "resigned":
		s.Ops = append(s.Ops, sim.Op{At: gone, Kind: sim.OpResign, Node: sim.Leader})
	}
	return s, gone
}

// succession is the result of a leader's failure.
type succession struct {
	terms, elected, lost int           // how far the term rose, how many won, and how many of these missed their quorum
	leads                time.Duration // until the last of them led; an hour if none did
}

func succeed(t *testing.T, s *sim.Schedule, gone sim.Time) succession {
	t.Helper()
	p, _ := protocols.ByName(quorum.Name)
	w, err := sim.New(p, s)
	if err != nil {
		t.Fatal(err)
	}
	r := succession{leads: time.Hour}
	var before, term uint64
	w.Trace(tracer(func(_ *sim.World, rec *sim.Record) {
		if rec.Kind != sim.RecordStep {
			return
		}
		if term = max(term, rec.View.Term); rec.At < gone {
			before = term
			return
		}
		for _, o := range rec.Effects.Orders {
			switch {
			case o.Kind == protocol.Elected:
				r.elected++
			case o.Kind == protocol.Lead:
				r.leads = time.Duration(rec.At - gone)
			case o.Kind == protocol.Stop && o.Reason == quorum.QuorumLost:
				r.lost++
			}
		}
	}))
	w.Run()
	if v := w.Result().Violation; v != nil {
		t.Error(v)
	}
	r.terms = int(term - before)
	return r
}

type tracer func(*sim.World, *sim.Record)

func (t tracer) Event(w *sim.World, rec *sim.Record) { t(w, rec) }

// TestSlowSyncs: where all disks are equally slow, a leader's failure costs one term and one sync,
// also where a sync takes longer than a promise: the candidate that stands wins, and stays.
func TestSlowSyncs(t *testing.T) {
	const promise = time.Second
	for _, how := range []string{"silent", "killed", "restarted", "resigned", "cold"} {
		for _, parts := range [][]float64{{1, 1, 1}, {1, 1, 1, 1, 1}} {
			for _, sync := range []time.Duration{0, 300 * time.Millisecond, 600 * time.Millisecond, 900 * time.Millisecond, 1200 * time.Millisecond} {
				for seed := range uint64(3) {
					s, gone := slowSyncs(how, seed+1, sync, parts...)
					r := succeed(t, s, gone)
					most := sync + promise + 50*time.Millisecond
					if r.terms != 1 || r.elected != 1 || r.lost != 0 || r.leads > most {
						t.Errorf("%s, %d nodes, syncs of %v, seed %d: %+v; want one term, and a leader within %v", how, len(parts), sync, seed+1, r, most)
					}
				}
			}
		}
	}
}

// TestUnevenDisks: a participant with a faster disk than another, on whose vote it depends, does
// not know how long that vote takes. It learns that in a few terms.
func TestUnevenDisks(t *testing.T) {
	for _, parts := range [][]float64{{1, .5, 1.5}, {1, .5, 1.5, 1, .7}} {
		for _, sync := range []time.Duration{300 * time.Millisecond, 600 * time.Millisecond, 900 * time.Millisecond, 1200 * time.Millisecond} {
			for seed := range uint64(3) {
				s, gone := slowSyncs("killed", seed+1, sync, parts...)
				r := succeed(t, s, gone)
				if most := 12 * sync; r.terms > 8 || r.elected != 1 || r.lost != 0 || r.leads > most {
					t.Errorf("%d nodes, syncs of about %v, seed %d: %+v; want 8 terms at most, and one to lead within %v", len(parts), sync, seed+1, r, most)
				}
			}
		}
	}
}
