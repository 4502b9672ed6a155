//go:build linux

package storm

import (
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/network"
)

// shape is a fault that cuts links in a shape for a while. Its first node has the shape's special
// place.
func shape(name, text string, weight, least int, links func(n int, p Planned) network.Links) fault {
	return fault{name: name, text: text, family: "network", peersOnly: true, weight: weight, least: least, do: func(a *act) error {
		return a.cut(permute(links(len(a.Order), a.Planned), a.Order))
	}}
}

// cut sets the links as long as the fault lasts.
func (a *act) cut(links network.Links) error {
	a.begin(judge.NoNode, "nodes in the order %s", a.names(a.Order))
	if err := a.wire(links); err != nil {
		return err
	}
	a.hold()
	return nil
}

// permute gives the nodes of a shape other numbers.
func permute(links network.Links, order []int) network.Links {
	moved := network.Links{}
	for w, k := range links {
		moved[network.Way{From: order[w.From], To: order[w.To]}] = k
	}
	return moved
}

// from draws a fault whose first node has a role.
func from(role string) func(*dice, *Planned) {
	return func(_ *dice, p *Planned) { p.First = role }
}

func networkFaults() []fault {
	first := func(f fault, role string) fault {
		f.draw = from(role)
		return f
	}
	long := func(f fault) fault { // sometimes for long
		draw := f.draw
		f.draw = func(d *dice, p *Planned) {
			if draw != nil {
				draw(d, p)
			}
			if d.oneIn(3) {
				p.For = d.tail(20)
			}
		}
		return f
	}
	sides := func(d *dice, p *Planned) { p.Side = d.between(1, d.voters/2) }
	faults := []fault{
		long(first(shape("isolate-leader", "the leader is cut off from all others", 3, 2,
			func(n int, _ Planned) network.Links { return network.Isolate(n, 0) }), leader)),
		long(first(shape("isolate-follower", "another than the leader is cut off from all others", 2, 2,
			func(n int, _ Planned) network.Links { return network.Isolate(n, 0) }), follower)),
		first(shape("mute-leader", "nothing arrives that the leader says", 2, 2,
			func(n int, _ Planned) network.Links { return network.Mute(n, 0) }), leader),
		first(shape("deaf-leader", "nothing arrives at the leader", 2, 2,
			func(n int, _ Planned) network.Links { return network.Deaf(n, 0) }), leader),
		first(shape("deaf-follower", "nothing arrives at another than the leader", 1, 2,
			func(n int, _ Planned) network.Links { return network.Deaf(n, 0) }), follower),
		shape("one-way", "nothing arrives that one node says to another", 2, 2,
			func(n int, _ Planned) network.Links { return network.OneWay(n, 0, 1) }),
		shape("partial", "two nodes do not see each other; both see the rest", 2, 3,
			func(n int, _ Planned) network.Links { return network.Partial(n, 0, 1) }),
		first(shape("partial-leader", "the leader and another do not see each other; both see the rest", 2, 3,
			func(n int, _ Planned) network.Links { return network.Partial(n, 0, 1) }), leader),
		long(shape("halves", "a minority of nodes is cut off from the others", 2, 2,
			func(n int, p Planned) network.Links {
				var side []int
				for i := range p.Side {
					side = append(side, i)
				}
				return network.Halves(n, side...)
			})),
		shape("bridge", "two halves see only one node in common", 2, 5,
			func(n int, _ Planned) network.Links { return network.Bridge(n, 0) }),
		shape("ring-of-majorities", "each node sees a majority, and no two the same one", 2, 5,
			func(n int, _ Planned) network.Links { return network.RingOfMajorities(n) }),
		shape("chain", "each node sees those before and after it", 1, 3,
			func(n int, _ Planned) network.Links { return network.Chain(n) }),
		shape("hub", "all others see one node only", 2, 3,
			func(n int, _ Planned) network.Links { return network.Hub(n, 0) }),
		shape("cloudflare-2020", "three nodes see each other, the fourth only the second, the fifth only the third", 2, 5,
			func(int, Planned) network.Links { return network.Cloudflare2020() }),
		shape("apart", "no node sees another", 1, 2,
			func(n int, _ Planned) network.Links { return network.Apart(n) }),
		{
			name: "flapping-link", text: "the link between two nodes goes and comes", family: "network", peersOnly: true, weight: 2, least: 2,
			draw: func(d *dice, p *Planned) { p.Period, p.For = d.promises(2, 60), d.promises(100, 500) },
			do: func(a *act) error {
				return a.flap(permute(network.Partial(len(a.Order), 0, 1), a.Order))
			},
		},
		{
			name: "flapping-node", text: "all links of a node go and come", family: "network", peersOnly: true, weight: 1, least: 2,
			draw: func(d *dice, p *Planned) { p.Period, p.For = d.promises(2, 60), d.promises(100, 500) },
			do: func(a *act) error {
				return a.flap(permute(network.Isolate(len(a.Order), 0), a.Order))
			},
		},
		{
			name: "swizzle", text: "nodes are cut off one after the other, and come back in another order", family: "network", peersOnly: true, weight: 1, least: 3,
			draw: func(d *dice, p *Planned) { p.Side, p.Period, p.For = d.between(2, d.voters), d.promises(10, 60), 0 },
			do:   swizzle,
		},
		{
			name: "loss", text: "packets are lost, on all links", family: "network", peersOnly: true, needs: []Ability{Namespaces}, weight: 3, least: 2,
			draw: func(d *dice, p *Planned) { p.Percent, p.For = d.between(1, 40), d.promises(100, 500) },
			do: func(a *act) error {
				a.begin(judge.NoNode, "%d per cent", a.Percent)
				a.sickenAll()
				if err := a.wire(network.Lossy(a.x.plan.Size, a.Percent)); err != nil {
					return err
				}
				a.hold()
				return nil
			},
		},
		{
			name: "slow-links", text: "all links delay what they carry, by a time that varies", family: "network", peersOnly: true, needs: []Ability{Proxies}, weight: 3, least: 2,
			draw: func(d *dice, p *Planned) {
				p.Delay, p.Jitter, p.For = d.promises(1, 30), d.promises(0, 30), d.promises(100, 500)
				if d.oneIn(4) {
					p.Delay = d.promises(50, 150) // slower than any timeout
				}
			},
			do: func(a *act) error { return a.slow(network.Slow(a.x.plan.Size, a.Delay, a.Jitter)) },
		},
		{
			name: "slow-node", text: "all links of a node delay what they carry", family: "network", peersOnly: true, needs: []Ability{Proxies}, weight: 2, least: 2,
			draw: func(d *dice, p *Planned) {
				p.Delay, p.Jitter, p.For = d.promises(5, 80), d.promises(0, 30), d.promises(100, 500)
			},
			do: func(a *act) error {
				links := permute(network.Isolate(len(a.Order), 0), a.Order)
				for w := range links {
					links[w] = network.Link{Delay: a.Delay, Jitter: a.Jitter}
				}
				return a.slow(links)
			},
		},
		{
			name: "reset", text: "the connections of a node are reset on both sides: it looks as if it had died", family: "network", peersOnly: true, weight: 2, least: 2,
			draw: func(d *dice, p *Planned) { p.Times, p.For = d.between(1, 3), d.promises(0, 50) },
			do:   func(a *act) error { return a.reset(nil) },
		},
		{
			name: "reset-and-cut", text: "the same, and then the node is cut off: a false report of a crash that no node can correct", family: "network", peersOnly: true, weight: 2, least: 2,
			draw: func(d *dice, p *Planned) {
				p.Times, p.For = 1, d.promises(20, 300)
				if d.oneIn(2) {
					p.First = leader
				}
			},
			do: func(a *act) error { return a.reset(permute(network.Isolate(len(a.Order), 0), a.Order)) },
		},
	}
	for i := range faults {
		if faults[i].name == "halves" {
			draw := faults[i].draw
			faults[i].draw = func(d *dice, p *Planned) { draw(d, p); sides(d, p) }
		}
	}
	return faults
}

// slow makes links slow. Their nodes count as ill: how slow is too slow depends on the protocol's
// times.
func (a *act) slow(links network.Links) error {
	a.begin(judge.NoNode, "by %v and up to %v more", a.Delay, a.Jitter)
	if a.Fault == "slow-node" {
		a.sicken(a.Order[0])
	} else {
		a.sickenAll()
	}
	if err := a.wire(links); err != nil {
		return err
	}
	a.hold()
	return nil
}

// flap cuts links and restores them, again and again.
func (a *act) flap(links network.Links) error {
	a.begin(judge.NoNode, "nodes in the order %s, every %v", a.names(a.Order), a.Period)
	for past := a.Period; past <= a.For; past += 2 * a.Period {
		if err := a.wire(links); err != nil {
			return err
		}
		if !a.wait(a.Period) {
			break
		}
		if err := a.wire(network.Links{}); err != nil {
			return err
		}
		if !a.wait(a.Period) {
			break
		}
	}
	return nil
}

// swizzle cuts nodes off one by one, and restores them in another order.
func swizzle(a *act) error {
	a.begin(judge.NoNode, "%s", a.names(a.Order[:a.Side]))
	n := len(a.Order)
	gone := map[int]bool{}
	set := func() error {
		links := network.Links{}
		for i := range gone {
			links = network.Merge(links, network.Isolate(n, i))
		}
		return a.wire(permute(links, a.Order))
	}
	for i := range a.Side {
		gone[i] = true
		if err := set(); err != nil {
			return err
		}
		if !a.wait(a.Period) {
			return nil
		}
	}
	var back []int // every second one first
	for odd := range 2 {
		for i := 1 - odd; i < a.Side; i += 2 {
			back = append(back, i)
		}
	}
	for _, i := range back {
		delete(gone, i)
		if err := set(); err != nil {
			return err
		}
		if !a.wait(a.Period) {
			return nil
		}
	}
	return nil
}

// reset resets all connections of the first node, several times; with links it is cut off before,
// so that no node can reconnect.
func (a *act) reset(links network.Links) error {
	node := a.Order[0]
	a.begin(node, "%d times", a.Times)
	if links != nil {
		if err := a.wire(links); err != nil {
			return err
		}
	}
	for i := range a.Times {
		for _, other := range a.Order[1:] {
			if err := a.x.wires.Reset(node, other); err != nil {
				return err
			}
		}
		if i < a.Times-1 && !a.wait(a.x.plan.Heartbeat) {
			break
		}
	}
	a.hold()
	return nil
}
