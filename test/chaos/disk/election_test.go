//go:build linux

package disk_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/disk"
)

// quick is a promise for tests that elect often.
const quick = 500 * time.Millisecond

// tearing is a disk that is slow, and tears what it was writing when the power
// goes, or keeps it in part.
func tearing(chance *rand.Rand) disk.Fault {
	return disk.Fault{
		SyncDelay: time.Duration(chance.IntN(4)) * 25 * time.Millisecond,
		Torn:      chance.IntN(2) == 0,
		Luck:      chance.Uint64N(4) * chance.Uint64(), // one in four keeps nothing
	}
}

// TestOutages: of three voters one, two or all lose power at a random moment, 50
// times. Each time they come up again and elect; no term and no token falls.
func TestOutages(t *testing.T) {
	long.Test(t, "it cuts the power of real processes again and again")
	v := newVoters(t, build(t), quick)
	rounds := long.FullOr(50, 5)
	v.start()
	v.calm()
	calm, killed := 0, 0
	for range rounds {
		v.fault(tearing(v.chance))
		v.hold(time.Duration(v.chance.Int64N(600)) * time.Millisecond)
		leader, _, _ := v.look()
		victims := v.chance.Perm(3)[:1+v.chance.IntN(3)]
		if leader >= 0 && v.chance.IntN(2) == 0 {
			victims[0] = leader
		}
		for n, i := range victims {
			if n > 0 { // while the others elect, it may be
				<-time.After(time.Duration(v.chance.Int64N(80)) * time.Millisecond)
			}
			v.nodes[i].powerLoss() // of one that is there twice the power is lost twice
			killed++
		}
		v.start()
		if v.chance.IntN(3) == 0 {
			continue // and again before they have come up
		}
		v.fault(disk.Fault{})
		v.calm()
		calm++
	}
	v.fault(disk.Fault{})
	_, token := v.calm()
	torn := 0
	for _, n := range v.nodes {
		torn += strings.Count(n.said(), "one of the two copies of the ballot is damaged")
	}
	t.Logf("%d nodes lost power, %d times calm again; %d torn ballots; token %d; %d commands", killed, calm, torn, token, rising(t, v.tokens))
}

// TestFoundingInOutages: the voters lose power again and again while they found
// their election. In the end it is founded, once.
func TestFoundingInOutages(t *testing.T) {
	long.Test(t, "it cuts the power of real processes again and again")
	v := newVoters(t, build(t), quick)
	rounds := long.FullOr(25, 4)
	v.start()
	for range rounds {
		v.fault(tearing(v.chance))
		v.hold(time.Duration(v.chance.Int64N(250)) * time.Millisecond)
		n := v.nodes[v.chance.IntN(3)]
		n.powerLoss()
		n.start()
	}
	v.fault(disk.Fault{})
	_, token := v.calm()
	t.Logf("token %d; %d commands", token, rising(t, v.tokens))
}

// TestSlowDisks: slow syncs do not disturb a leader. When it dies another one leads:
// with syncs of 300 ms after a term or two, and after some more if two syncs take
// longer than a promise.
func TestSlowDisks(t *testing.T) {
	long.Test(t, "it cuts the power of real processes again and again")
	elect := build(t)
	for _, delay := range []time.Duration{300 * time.Millisecond, 600 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			v := newVoters(t, elect, time.Second)
			v.start()
			leader, token := v.calm()
			v.fault(disk.Fault{SyncDelay: delay})
			v.stays(6*v.promise, leader, token)
			fewest := uint64(math.MaxUint64)
			for range 3 {
				leader, token = v.calm()
				v.nodes[leader].kill()
				v.nodes[leader].join()
				begin := time.Now()
				v.nodes[leader].start()
				_, now := v.leads(token)
				t.Logf("token %d after %d, %v after the leader was killed", now, token, time.Since(begin).Round(time.Millisecond))
				fewest = min(fewest, uint64(now-token))
			}
			// The machine may have been stopped during one of them.
			if fewest > 10 {
				t.Errorf("each election took %d terms or more: it wants one, and on slow disks a few", fewest)
			}
			v.fault(disk.Fault{})
			v.calm()
			rising(t, v.tokens)
		})
	}
}

// TestDisksThatFail: a leader goes on while no disk can be written, whatever the
// reason; but no other is elected, until disks are well again. What nodes
// said meanwhile is true after a loss of power.
func TestDisksThatFail(t *testing.T) {
	long.Test(t, "it cuts the power of real processes again and again")
	elect := build(t)
	for name, f := range map[string]disk.Fault{
		"sync-error":  {SyncError: true},
		"write-error": {WriteError: true},
		"read-only":   {ReadOnly: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVoters(t, elect, time.Second)
			v.start()
			leader, token := v.calm()
			v.fault(f)
			v.stays(4*v.promise, leader, token)
			v.nodes[leader].kill()
			v.nodes[leader].join()
			unled := func(what string) {
				t.Helper()
				v.hold(4 * v.promise)
				if l, now, _ := v.look(); l >= 0 {
					t.Errorf("%s: %s leads with token %d", what, v.nodes[l].id, now)
				}
			}
			unled("no disk can be written")
			other := v.nodes[(leader+1)%3]
			v.await("it says what is wrong", func() bool {
				return strings.Contains(other.said(), "the ballot cannot be saved: this node neither votes nor leads until it can")
			})
			other.fault(disk.Fault{})
			unled("one of three disks can be written")
			v.fault(disk.Fault{})
			_, token = v.leads(token)
			for i, n := range v.nodes {
				if i != leader {
					n.powerLoss()
				}
			}
			v.start()
			v.leads(token)
			v.calm()
			rising(t, v.tokens)
		})
	}
}

// TestFullDisks: disks without a byte left disturb neither a leader, nor an election,
// nor a node that restarts.
func TestFullDisks(t *testing.T) {
	long.Test(t, "it cuts the power of real processes again and again")
	v := newVoters(t, build(t), quick)
	v.start()
	v.calm()
	v.fault(disk.Fault{Full: true})
	for range 3 {
		leader, token := v.calm()
		v.nodes[leader].powerLoss()
		v.nodes[leader].start()
		v.leads(token)
	}
	v.calm()
	v.fault(disk.Fault{})
	v.calm()
	rising(t, v.tokens)
}

// TestStartOnBadDisks: elect run ends, and says why, if its disk is bad at its start. A full disk
// is no such fault for a node that has its files. When the disk is sound again, the node starts.
func TestStartOnBadDisks(t *testing.T) {
	long.Test(t, "it cuts the power of real processes again and again")
	faults := []struct {
		name  string
		fault disk.Fault
		says  string
		code  int
	}{
		{"read-only", disk.Fault{ReadOnly: true}, "read-only file system", 73},
		{"full", disk.Fault{Full: true}, "no space left on device", 73},
		{"sync-error", disk.Fault{SyncError: true}, "input/output error", 73},
		{"write-error", disk.Fault{WriteError: true}, "input/output error", 73},
	}
	v := newVoters(t, build(t), quick)
	fresh := v.nodes[0]
	ends := func(t *testing.T, n *node, says string, code int) {
		t.Helper()
		before := len(n.said())
		n.start()
		n.join()
		text := n.said()[before:]
		if got := n.cmd.ProcessState.ExitCode(); got != code || !strings.Contains(text, says) {
			t.Errorf("it ends with %d and says %s; want %d and %q", got, text, code, says)
		}
	}
	for _, f := range faults {
		t.Run(f.name+", nothing is there", func(t *testing.T) {
			if err := fresh.disk.Wipe(); err != nil {
				t.Fatal(err)
			}
			fresh.fault(f.fault)
			ends(t, fresh, f.says, f.code)
		})
	}
	v.fault(disk.Fault{})
	if err := fresh.disk.Wipe(); err != nil {
		t.Fatal(err)
	}
	v.start()
	v.calm()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			n := v.nodes[1]
			n.powerLoss()
			n.fault(f.fault)
			if f.fault.Full {
				n.start()
				v.calm()
			} else {
				ends(t, n, f.says, f.code)
			}
			n.fault(disk.Fault{})
			v.start()
			v.calm()
		})
	}
	rising(t, v.tokens)
}
