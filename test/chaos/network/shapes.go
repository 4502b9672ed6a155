//go:build linux

package network

import (
	"fmt"
	"slices"
	"time"
)

// The shapes are Links for a network of n nodes. They cut the same as those of the simulator
// (package sim) that have the same names. They panic if a node is none of the n: a shape without
// effect would let every test pass.

// among panics if a node is none of n.
func among(n int, nodes ...int) {
	for _, i := range nodes {
		if i < 0 || i >= n {
			panic(fmt.Sprintf("network: node %d of %d", i, n))
		}
	}
}

// every sets each chosen way to k, and no other.
func every(n int, as Link, chosen func(from, to int) bool) Links {
	all := Links{}
	for from := range n {
		for to := range n {
			if from != to && chosen(from, to) {
				all[Way{from, to}] = as
			}
		}
	}
	return all
}

// Isolate cuts a node off from all others, both ways.
func Isolate(n, node int) Links {
	among(n, node)
	return every(n, Link{Cut: true}, func(from, to int) bool { return from == node || to == node })
}

// Apart cuts everything.
func Apart(n int) Links { return every(n, Link{Cut: true}, func(int, int) bool { return true }) }

// OneWay cuts one way between two nodes, and nothing else: the simulator's half-open link. Its
// one-way cuts of a whole node are Mute and Deaf.
func OneWay(n, from, to int) Links {
	among(n, from, to)
	return every(n, Link{Cut: true}, func(i, j int) bool { return i == from && j == to })
}

// Mute cuts all ways from a node.
func Mute(n, node int) Links {
	among(n, node)
	return every(n, Link{Cut: true}, func(from, _ int) bool { return from == node })
}

// Deaf cuts all ways to a node.
func Deaf(n, node int) Links {
	among(n, node)
	return every(n, Link{Cut: true}, func(_, to int) bool { return to == node })
}

// Partial cuts two nodes off from each other; both see the rest.
func Partial(n, a, b int) Links {
	among(n, a, b)
	return every(n, Link{Cut: true}, func(from, to int) bool { return from == a && to == b || from == b && to == a })
}

// Halves cuts between the nodes of side and all others.
func Halves(n int, side ...int) Links {
	among(n, side...)
	return every(n, Link{Cut: true}, func(from, to int) bool { return slices.Contains(side, from) != slices.Contains(side, to) })
}

// Bridge makes two halves of the nodes beside hub that do not see each other; the
// first n/2 are one. Both see hub.
func Bridge(n, hub int) Links {
	among(n, hub)
	side := make(map[int]bool)
	for i := range n {
		if i != hub && len(side) < n/2 {
			side[i] = true
		}
	}
	return every(n, Link{Cut: true}, func(from, to int) bool { return from != hub && to != hub && side[from] != side[to] })
}

// RingOfMajorities leaves each node a majority, itself and its neighbours on the
// ring, and no two nodes the same one. Of 3 nodes or fewer nothing is cut.
func RingOfMajorities(n int) Links {
	return every(n, Link{Cut: true}, func(from, to int) bool {
		apart := (from - to + n) % n
		return min(apart, n-apart) > (n/2+1)/2
	})
}

// Chain leaves each node those before and after it, in a row and not in a ring.
func Chain(n int) Links {
	return every(n, Link{Cut: true}, func(from, to int) bool { return from-to != 1 && to-from != 1 })
}

// Hub connects all others with the hub only.
func Hub(n, hub int) Links {
	among(n, hub)
	return every(n, Link{Cut: true}, func(from, to int) bool { return from != hub && to != hub })
}

// Cloudflare2020 is five nodes as in Howard and Abraham's story of Cloudflare's
// outage of November 2020: the first three see each other, the fourth sees only the
// second, and the fifth only the third.
func Cloudflare2020() Links {
	return every(5, Link{Cut: true}, func(from, to int) bool {
		a, b := min(from, to), max(from, to)
		return b > 2 && Way{a, b} != Way{1, 3} && Way{a, b} != Way{2, 4}
	})
}

// Lossy loses that percentage of the packets on each link.
func Lossy(n, percent int) Links {
	return every(n, Link{Loss: percent}, func(int, int) bool { return true })
}

// Slow delays all links by delay, and by up to jitter more.
func Slow(n int, delay, jitter time.Duration) Links {
	return every(n, Link{Delay: delay, Jitter: jitter}, func(int, int) bool { return true })
}

// Merge is the worst of all links on each way: cut if one cuts it, the
// highest loss, delay and jitter.
func Merge(all ...Links) Links {
	merged := Links{}
	for _, links := range all {
		for w, k := range links {
			was := merged[w]
			merged[w] = Link{
				Cut: was.Cut || k.Cut, Loss: max(was.Loss, k.Loss),
				Delay: max(was.Delay, k.Delay), Jitter: max(was.Jitter, k.Jitter),
			}
		}
	}
	return merged
}
