//go:build linux

package storm

import (
	"context"
	"errors"
	"time"

	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/disk"
	"github.com/electd/elect/test/chaos/judge"
)

func diskFaults() []fault {
	some := func(d *dice, p *Planned) {
		p.Side, p.For = 1, d.promises(50, 500)
		if d.oneIn(5) {
			p.Side = d.voters
		}
		if d.oneIn(2) {
			p.First = leader
		}
	}
	return []fault{
		{
			name: "slow-sync", text: "each sync of a disk takes long; now and then that of all disks", family: "disk", peersOnly: true, needs: []Ability{FUSE}, weight: 3,
			draw: func(d *dice, p *Planned) { some(d, p); p.Delay = d.promises(2, 150) },
			do:   func(a *act) error { return a.spoilt(disk.Fault{SyncDelay: a.Delay}) },
		},
		{
			name: "failing-sync", text: "each sync of a disk fails, and what it was to save is lost if the power is", family: "disk", peersOnly: true, needs: []Ability{FUSE}, weight: 2,
			draw: some,
			do:   func(a *act) error { return a.spoilt(disk.Fault{SyncError: true}) },
		},
		{
			name: "failing-writes", text: "each write to a disk fails", family: "disk", peersOnly: true, needs: []Ability{FUSE}, weight: 1,
			draw: some,
			do:   func(a *act) error { return a.spoilt(disk.Fault{WriteError: true}) },
		},
		{
			name: "full-disk", text: "a disk is full; in the setup file, that of the election", family: "disk", needs: []Ability{Filling}, weight: 2,
			draw: some,
			do:   func(a *act) error { return a.spoilt(disk.Fault{Full: true}) },
		},
		{
			name: "read-only", text: "a disk can only be read", family: "disk", peersOnly: true, needs: []Ability{FUSE}, weight: 1,
			draw: some,
			do:   func(a *act) error { return a.spoilt(disk.Fault{ReadOnly: true}) },
		},
		{
			name: "power-loss", text: "a node loses power: its processes are killed, and what was not synced is gone, or torn", family: "disk", peersOnly: true, needs: []Ability{FUSE}, weight: 3,
			draw: func(d *dice, p *Planned) {
				p.For, p.Hard, p.Times = 0, d.oneIn(2), d.IntN(1000)
				if d.oneIn(2) {
					p.For = d.tail(10)
				}
				if d.oneIn(2) {
					p.First = leader
				}
			},
			do: func(a *act) error {
				return a.each(func(i int) error {
					a.begin(i, "for %v", a.For)
					if err := a.down(i); err != nil {
						return err
					}
					if err := a.lose(i); err != nil {
						return err
					}
					a.hold()
					return nil
				})
			},
		},
		{
			name: "power-loss-all", text: "all nodes lose power at once, and come back one after the other", family: "disk", peersOnly: true, needs: []Ability{FUSE}, weight: 1,
			draw: func(d *dice, p *Planned) {
				p.For, p.Period, p.Hard, p.Times = 0, d.promises(0, 50), d.oneIn(2), d.IntN(1000)
			},
			do: func(a *act) error { return a.killAll(a.lose) },
		},
		{
			name: "wiped-disk", text: "a node loses its disk, comes back with an empty one, and is given its vote again (elect member replace)", family: "disk",
			peersOnly: true, weight: 1, least: 3, alone: "membership",
			draw: func(d *dice, p *Planned) {
				p.For = d.promises(0, 300)
				if d.oneIn(2) {
					p.First = leader
				}
			},
			do: func(a *act) error {
				return a.each(func(i int) error {
					a.begin(i, "for %v", a.For)
					return a.anew(i, func() error { return a.x.disks[i].Wipe() })
				})
			},
		},
		{
			name: "restored-disk", text: "a node is down, its disk is copied, lost, and replaced by the copy: as it was, because nothing has happened since", family: "disk",
			peersOnly: true, weight: 1,
			draw: func(d *dice, p *Planned) { p.For = d.promises(0, 300) },
			do: func(a *act) error {
				return a.each(func(i int) error {
					a.begin(i, "for %v", a.For)
					if err := a.down(i); err != nil {
						return err
					}
					if err := a.x.disks[i].Snapshot("restored"); err != nil {
						return err
					}
					a.hold()
					if err := a.x.disks[i].Wipe(); err != nil {
						return err
					}
					return a.x.disks[i].Restore("restored")
				})
			},
		},
		{
			name: "old-copy-replaced", text: "a disk is lost, and an old copy is put in its place; before the node starts it is wiped, and the node is given its vote again", family: "disk",
			peersOnly: true, weight: 1, least: 3, alone: "membership",
			draw: func(d *dice, p *Planned) { p.For = d.promises(50, 500) },
			do: func(a *act) error {
				return a.each(func(i int) error {
					a.begin(i, "after %v", a.For)
					if err := a.x.disks[i].Snapshot("old"); err != nil {
						return err
					}
					a.hold()
					return a.anew(i, func() error {
						return errors.Join(a.x.disks[i].Restore("old"), a.x.disks[i].Wipe())
					})
				})
			},
		},
		{
			name: "old-copy", text: "an old copy is put in a disk's place, and the node started from it: NOT promised to be safe", family: "disk",
			peersOnly: true, weight: 0, alone: "membership",
			draw: func(d *dice, p *Planned) { p.For = d.promises(200, 2000) },
			do: func(a *act) error {
				return a.each(func(i int) error {
					a.begin(i, "after %v", a.For)
					if err := a.x.disks[i].Snapshot("old"); err != nil {
						return err
					}
					a.hold()
					if err := a.down(i); err != nil {
						return err
					}
					a.x.note(judge.Event{Kind: judge.Wiped, Node: i})
					a.x.forgets(i)
					return a.x.disks[i].Restore("old")
				})
			},
		},
	}
}

// spoilt makes disks faulty for a while: that of the first node, or all.
func (a *act) spoilt(f disk.Fault) error {
	nodes := a.Order[:min(max(a.Side, 1), len(a.Order))]
	if a.x.set.File { // one disk for all
		nodes = []int{0}
	}
	at := judge.NoNode
	if len(nodes) == 1 && !a.x.set.File {
		at = nodes[0]
	}
	a.begin(at, "%s, for %v", a.names(nodes), a.For)
	if a.x.set.File {
		a.sickenAll()
	}
	for _, i := range nodes {
		if err := a.spoil(i, f); err != nil {
			return err
		}
	}
	a.hold()
	return nil
}

// down kills all processes of a node and keeps it down until the fault is over.
func (a *act) down(i int) error {
	a.x.processes.Hold(i)
	a.undo("release", func(context.Context) error { return a.x.processes.Release(i) })
	if err := a.x.processes.Kill(i, cluster.Family); err != nil && !errors.Is(err, cluster.ErrNone) {
		return err
	}
	return a.gone(i)
}

// lose removes what was not synced from the disk of a node that is down.
func (a *act) lose(i int) error {
	x := a.x
	if err := x.keep(i, true); err != nil { // the record is not synced, and does not have to be
		return err
	}
	x.mu.Lock()
	x.extra[i] = disk.Fault{Torn: a.Hard, Luck: uint64(a.Times)}
	err := x.mend(i)
	x.mu.Unlock()
	if err != nil {
		return err
	}
	err = x.disks[i].PowerLoss()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.extra[i] = disk.Fault{}
	return errors.Join(err, x.mend(i))
}

// anew makes a node lose its disk, and the others give its vote to the new disk. The node is ill
// until they have.
func (a *act) anew(i int, lose func() error) error {
	a.sicken(i)
	if err := a.x.keep(i, true); err != nil {
		return err
	}
	a.x.processes.Hold(i)
	if err := errors.Join(a.killed(i), a.gone(i)); err != nil {
		return errors.Join(err, a.x.processes.Release(i))
	}
	a.x.note(judge.Event{Kind: judge.Wiped, Node: i, Fault: a.Fault, ID: a.Number})
	a.x.forgets(i)
	err := lose()
	a.x.processes.Join(i, true)
	if err := errors.Join(err, a.x.processes.Release(i)); err != nil {
		return err
	}
	if a.Fault == "wiped-disk" {
		a.hold()
	}
	return a.until("elect member replace "+a.x.processes.ID(i), func(ctx context.Context) error {
		return a.x.processes.Replace(ctx, i)
	})
}

// forgets records that a node may know less from now on.
func (x *executor) forgets(i int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forgot[i]++
}

// forgotten is how often that happened.
func (x *executor) forgotten(i int) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.forgot[i]
}

func (a *act) killed(i int) error {
	if err := a.x.processes.Kill(i, cluster.Family); err != nil && !errors.Is(err, cluster.ErrNone) {
		return err
	}
	return nil
}

// until repeats an operation that needs a leader until it has succeeded. If that takes too long,
// whatever else happens, a promise is broken: of liveness.
func (a *act) until(what string, try func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), repairTime)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			a.note("%s: done", what)
			return nil
		}
		if !sleep(ctx, max(a.x.plan.Promise/2, 100*time.Millisecond)) {
			a.x.complain(checkLive, "%s did not succeed for %v: %v", what, repairTime, err)
			return nil
		}
		a.note("%s: %v", what, err)
	}
}

// names are the ids of nodes.
func (a *act) names(nodes []int) string {
	var text []byte
	for n, i := range nodes {
		if n > 0 {
			text = append(text, ' ')
		}
		text = append(text, a.x.processes.ID(i)...)
	}
	return string(text)
}
