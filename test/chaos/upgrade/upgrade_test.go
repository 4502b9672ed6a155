//go:build linux

package upgrade

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/cluster"
)

// The times of the election. They are long, so that a takeover by a timeout cannot be taken for one
// by a message, and a slow machine disturbs no leader.
const (
	promise   = 5 * time.Second
	heartbeat = promise / 12

	// told is the time within which another leads when a witness says that the leader is dead, or
	// the leader itself that it has stopped: well before the end of a promise that was given a
	// heartbeat ago at the latest.
	told = promise / 2
)

// TestRollingUpgrade upgrades three nodes of all kinds, the followers first, and then downgrades
// them, the leader first. Meanwhile each speaks with each: the newer version where both know it.
// Leadership changes when the leader itself is restarted, and at no other time.
func TestRollingUpgrade(t *testing.T) {
	long.Full(t, "it rolls an election of real processes to another version")
	kinds := []cluster.Kind{cluster.Command, cluster.Library, cluster.Guarded}
	f := newNodes(t, kinds)
	f.calm()
	for _, next := range []bool{true, false} {
		order := f.followersFirst()
		if !next {
			order = []int{order[2], order[0], order[1]}
		}
		for done, i := range order {
			f.restart(i, next)
			if done < len(order)-1 {
				f.mixed()
			}
		}
	}
	f.judge()
}

// TestUpgradeOfMembers has nodes of both versions added to an election of the
// other one, and removed.
func TestUpgradeOfMembers(t *testing.T) {
	long.Full(t, "it rolls an election of real processes to another version")
	f := newNodes(t, []cluster.Kind{cluster.Command, cluster.Command, cluster.Library, cluster.Library})
	f.voters = 3
	f.calm()
	for _, next := range []bool{true, false} {
		// The fourth is of the other version than the three.
		f.change(3, next, "add")
		f.change(3, next, "remove")
		for _, i := range f.followersFirst() {
			f.restart(i, next)
		}
	}
	f.judge()
}

// TestDeathAmongVersions kills leaders of one version among voters of the other: the keeper, of the
// leader's version, tells the voters that the leader is dead, and they accept that.
func TestDeathAmongVersions(t *testing.T) {
	long.Full(t, "it rolls an election of real processes to another version")
	f := newNodes(t, []cluster.Kind{cluster.Command, cluster.Command, cluster.Command})
	f.calm()
	for _, next := range []bool{true, false} {
		// The leader is of the other version than both followers.
		l := f.calm()
		f.restart(l.Node, next)
		f.lead(l.Node)
		l = f.settled()
		begun := f.ledger.Now()
		f.must(f.cluster.Kill(l.Node, cluster.Node))
		f.changes++
		after := f.after(l)
		if took := time.Duration(f.begin(after) - begun); took > told {
			f.late("another led %v after the death of a leader of another version; want at most %v: its witness was not heard", took, told)
		}
		f.calm()
		f.started = time.Now() // by the cluster, of the one that was killed
		for i := range 3 {
			if f.next[i] != next {
				f.restart(i, next)
			}
		}
	}
	f.judge()
}
