//go:build linux

package postgres

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/test/chaos/disk"
	"github.com/electd/elect/test/chaos/network"
)

// fault is a kind of fault. It is begun at the primary, and healed after a while.
type fault struct {
	name string
	// begin breaks something, and returns what heals it, or nil.
	begin func(c *cluster, primary, replica int) (heal func())
	holds time.Duration // until it is healed
	stays bool          // the primary may stay what it is
	disk  bool          // it needs a disk that can have all faults
}

// faults are the kinds.
func faults() []fault {
	kill := func(what func(*cluster, int) []int) func(*cluster, int, int) func() {
		return func(c *cluster, p, _ int) func() { signal(what(c, p), syscall.SIGKILL); return nil }
	}
	freeze := func(what func(*cluster, int) []int) func(*cluster, int, int) func() {
		return func(c *cluster, p, _ int) func() {
			all := what(c, p)
			signal(all, syscall.SIGSTOP)
			return func() { signal(all, syscall.SIGCONT) }
		}
	}
	tree := (*cluster).tree
	database := func(c *cluster, p int) []int { // the postmaster and all of its children
		all := c.postmaster(p)
		return append(all, c.part(p, func(title string, _ int) bool { return strings.HasPrefix(title, "postgres: ") })...)
	}
	both := func(c *cluster, p int) []int { return append(c.program(p), c.postmaster(p)...) }
	cut := func(c *cluster, p int) func() {
		if err := c.net.Set(network.Isolate(nodeCount, p)); err != nil {
			c.t.Fatal(err)
		}
		return func() {
			if err := c.net.Set(nil); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	broken := func(f disk.Fault) func(*cluster, int, int) func() {
		return func(c *cluster, p, _ int) func() {
			if err := c.disks[p].Fault(f); err != nil {
				c.t.Fatal(err)
			}
			return func() {
				if err := c.disks[p].Fault(disk.Fault{}); err != nil {
					c.t.Fatal(err)
				}
			}
		}
	}
	const outage = promise + 4*time.Second
	return []fault{
		{name: "kill elect", begin: kill((*cluster).program)},
		{name: "kill postmaster", begin: kill((*cluster).postmaster)},
		{name: "kill both", begin: kill(both)},
		{name: "kill all", begin: func(c *cluster, p, _ int) func() {
			all := tree(c, p)
			signal(all, syscall.SIGSTOP) // so that none of them sees another one die
			signal(all, syscall.SIGKILL)
			return nil
		}},
		{name: "freeze elect", begin: freeze((*cluster).program), holds: outage},
		{name: "freeze postgres", begin: freeze(database), holds: 2 * outage},
		{name: "freeze all", begin: freeze(tree), holds: outage},
		{name: "cut", begin: func(c *cluster, p, _ int) func() { return cut(c, p) }, holds: outage},
		{name: "crash and cut", begin: func(c *cluster, p, _ int) func() {
			heal := cut(c, p)
			signal(c.postmaster(p), syscall.SIGKILL)
			return heal
		}, holds: outage},
		{name: "disk full", begin: broken(disk.Fault{Full: true}), holds: 2 * outage, stays: true},
		{name: "replica behind", begin: func(c *cluster, p, r int) func() {
			signal(c.walreceiver(r), syscall.SIGSTOP)
			<-time.After(time.Second)
			signal(both(c, p), syscall.SIGKILL)
			return nil
		}},
		{name: "far behind", begin: func(c *cluster, p, r int) func() {
			// It misses more WAL than is kept for it.
			signal(c.walreceiver(r), syscall.SIGSTOP)
			c.query(p, "SELECT count(pg_logical_emit_message(false, 'bulk', repeat('x', 1000000))) FROM generate_series(1, 100)")
			signal(both(c, p), syscall.SIGKILL)
			return nil
		}},
		{name: "slow disk", begin: broken(disk.Fault{SyncDelay: 5 * time.Second}), holds: 3 * outage, stays: true, disk: true},
		{name: "failing disk", begin: broken(disk.Fault{SyncError: true}), holds: outage, stays: true, disk: true},
		{name: "power loss", begin: func(c *cluster, p, _ int) func() { c.powerLoss(p); return nil }, disk: true},
		{name: "power loss of all", begin: func(c *cluster, _, _ int) func() { c.powerLoss(0, 1, 2); return nil }, stays: true, disk: true},
		{name: "recovery hangs", begin: func(c *cluster, p, r int) func() { // of the next primary, as with a disk that hangs
			if startup := c.startup(r); len(startup) == 1 {
				signal(startup, syscall.SIGSTOP)
			} else {
				c.t.Errorf("the processes %v replay at %s; want one", startup, id(r))
			}
			if err := c.switchover(p, "--to", id(r)); err != nil {
				c.t.Errorf("a planned switch-over: %v", err)
			}
			return nil
		}},
		{name: "port", begin: func(c *cluster, p, _ int) func() { return c.block(p) }},
		{name: "switch-over", begin: func(c *cluster, p, _ int) func() {
			if err := c.switchover(p); err != nil {
				c.t.Errorf("a planned switch-over: %v", err)
			}
			return nil
		}},
	}
}

// happened is a fault that was.
type happened struct {
	Kind       string
	Begun, End int64 // when it began, and when all was well again
	Failover   bool  // another node is the primary now
}

// storm breaks the cluster in rounds, and returns what happened.
func (c *cluster) storm(seed uint64, rounds int, only ...string) (all []happened) {
	t := c.t
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	kinds := slices.DeleteFunc(faults(), func(f fault) bool {
		return f.disk && c.disks[0].Can(disk.Fault{SyncError: true}) != nil || len(only) > 0 && !slices.Contains(only, f.name)
	})
	var order []int
	primary := c.settled(time.Minute)
	for round := range rounds {
		if len(order) == 0 {
			order = random.Perm(len(kinds))
		}
		f := kinds[order[0]]
		order = order[1:]
		replica := (primary + 1 + random.IntN(nodeCount-1)) % nodeCount
		h := happened{Kind: f.name, Begun: time.Now().UnixNano()}
		heal := f.begin(c, primary, replica)
		if heal != nil {
			<-time.After(f.holds)
			heal()
		}
		// A failover takes a moment to begin: until then all is as it was.
		<-time.After(500 * time.Millisecond)
		now := c.settled(2 * time.Minute)
		h.End, h.Failover = time.Now().UnixNano(), now != primary
		t.Logf("round %d: %-16s of %s, now %s, well again after %v", round, f.name, id(primary), id(now), time.Duration(h.End-h.Begun).Round(100*time.Millisecond))
		primary, all = now, append(all, h)
		<-time.After(time.Duration(500+random.IntN(1500)) * time.Millisecond)
	}
	return all
}

// judge stops the clients and compares what they were told with what is there. It returns how many acknowledged rows
// are lost.
func (c *cluster) judge(history []happened) (lost int) {
	t := c.t
	t.Helper()
	complain := t.Errorf
	if len(c.env) > 0 {
		complain = t.Logf // it should
	}
	_ = c.stop.Close()
	_ = c.clients.Wait()
	primary := c.settled(time.Minute)
	all := inserts(t, c.dir)
	type key struct{ client, n int }
	rows := map[key]insert{}
	for line := range strings.Lines(c.query(primary, "SELECT client, n, token, seq FROM rows")) {
		var r insert
		if _, err := fmt.Sscanf(strings.ReplaceAll(line, "|", " "), "%d %d %d %d", &r.Client, &r.N, &r.Token, &r.Seq); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		rows[key{r.Client, r.N}] = r
	}
	acknowledged := slices.DeleteFunc(slices.Clone(all), func(i insert) bool { return !i.Acknowledged })
	tokens := map[int64]bool{}
	for _, i := range acknowledged {
		r, ok := rows[key{i.Client, i.N}]
		if !ok || r.Token != i.Token || r.Seq != i.Seq {
			if lost++; lost < 10 {
				complain("an acknowledged row is not there: %+v; there is %+v", i, r)
			}
		}
		tokens[i.Token] = true
	}
	stale, disorder := order(acknowledged)
	for _, of := range []struct {
		what string
		is   []insert
	}{{"was accepted by an older primary after a newer one had accepted one", stale}, {"is before a row that was acknowledged before it was begun", disorder}} {
		for _, i := range of.is[:min(10, len(of.is))] {
			complain("a row %s: %+v", of.what, i)
		}
	}
	// All nodes have the same rows.
	const sum = "SELECT count(*) || ' ' || coalesce(sum(hashtext(rows::text)), 0) FROM rows"
	want := c.query(primary, sum)
	for i := range nodeCount {
		got := ""
		for late := time.Now().Add(20 * time.Second); got != want && time.Now().Before(late); <-time.After(100 * time.Millisecond) {
			got = c.query(i, sum)
		}
		if got != want {
			t.Errorf("%s has the rows %s; want those of the primary, %s", id(i), got, want)
		}
	}
	failovers := 0
	for _, h := range history {
		if h.Failover {
			failovers++
		}
	}
	t.Logf("%d faults, %d failovers, %d primaries that accepted rows; %d rows acknowledged of %d, %d lost, %d accepted by an older primary, %d out of order",
		len(history), failovers, len(tokens), len(acknowledged), len(all), lost, len(stale), len(disorder))
	if len(acknowledged) < 100 || len(tokens) < 2 {
		t.Error("too little was tested")
	}
	report(t, history, acknowledged)
	text, _ := json.Marshal(history)
	_ = os.WriteFile(filepath.Join(t.ArtifactDir(), "faults.json"), text, 0o644)
	return lost
}

// order returns the rows whose token, and those whose number, is below that of a row which was acknowledged before
// they were begun.
func order(acknowledged []insert) (stale, disorder []insert) {
	byEnd := slices.SortedFunc(slices.Values(acknowledged), func(a, b insert) int { return cmp.Compare(a.Ended, b.Ended) })
	byBegin := slices.SortedFunc(slices.Values(acknowledged), func(a, b insert) int { return cmp.Compare(a.Begun, b.Begun) })
	var token, seq int64
	for at, i := 0, 0; i < len(byBegin); i++ {
		for ; at < len(byEnd) && byEnd[at].Ended < byBegin[i].Begun; at++ {
			token, seq = max(token, byEnd[at].Token), max(seq, byEnd[at].Seq)
		}
		if byBegin[i].Token < token {
			stale = append(stale, byBegin[i])
		}
		if byBegin[i].Seq < seq {
			disorder = append(disorder, byBegin[i])
		}
	}
	return stale, disorder
}

// TestOrder: the judge sees a row of an older primary, and one in the wrong place.
func TestOrder(t *testing.T) {
	good := []insert{{Begun: 1, Ended: 2, Token: 1, Seq: 1}, {Begun: 3, Ended: 6, Token: 2, Seq: 3}, {Begun: 4, Ended: 5, Token: 1, Seq: 2}}
	if stale, disorder := order(good); len(stale)+len(disorder) > 0 {
		t.Errorf("%v, %v; want nothing", stale, disorder)
	}
	bad := append(good, insert{Begun: 7, Ended: 8, Token: 1, Seq: 2})
	if stale, disorder := order(bad); len(stale) != 1 || len(disorder) != 1 {
		t.Errorf("%v, %v; want the last row twice", stale, disorder)
	}
}

// report says how long each client could not write, by the kind of the fault: the longest time between two rows that
// were acknowledged to it, of which one may be before the fault.
func report(t *testing.T, history []happened, acknowledged []insert) {
	t.Helper()
	gaps := map[string][]time.Duration{}
	for round, h := range history {
		var all []time.Duration
		for c := range clientCount {
			last, longest := h.Begun, int64(0)
			for _, i := range acknowledged {
				if i.Client != c || i.Ended < h.Begun {
					continue
				}
				longest = max(longest, i.Ended-last)
				if last = i.Ended; i.Ended > h.End {
					break
				}
			}
			all = append(all, time.Duration(longest).Round(10*time.Millisecond))
		}
		t.Logf("round %d: %-16s the clients could not write for %v", round, h.Kind, all)
		gaps[h.Kind] = append(gaps[h.Kind], all...)
	}
	for kind, all := range gaps {
		slices.Sort(all)
		t.Logf("%-16s faults %3d   without a write p50 %6.2f s   p99 %6.2f s", kind, len(all)/clientCount, all[len(all)/2].Seconds(), all[(len(all)-1)*99/100].Seconds())
	}
}

// asked is a number of the environment: ELECT_CHAOS_SEED and ELECT_CHAOS_ROUNDS.
func asked(name string, otherwise uint64) uint64 {
	if v, err := strconv.ParseUint(os.Getenv("ELECT_CHAOS_"+name), 10, 64); err == nil {
		return v
	}
	return otherwise
}

// TestFailovers breaks the primary by all kinds of faults.
func TestFailovers(t *testing.T) {
	long.Full(t, "it breaks a cluster of PostgreSQL for 20 minutes")
	c := start(t, small)
	c.work(c.settled(time.Minute), c.dsn())
	c.judge(c.storm(asked("SEED", 24), int(asked("ROUNDS", 108)), kinds()...))
}

// kinds are those of ELECT_CHAOS_KINDS, with commas between them; without it these.
func kinds(otherwise ...string) []string {
	if names := os.Getenv("ELECT_CHAOS_KINDS"); names != "" {
		return strings.Split(names, ",")
	}
	return otherwise
}

// TestDisks breaks the disk of the primary, and takes the power from one node or from all.
func TestDisks(t *testing.T) {
	long.Full(t, "it breaks the disks of a cluster of PostgreSQL for 20 minutes")
	c := start(t, disk.NewFUSE)
	c.work(c.settled(time.Minute), c.dsn())
	c.judge(c.storm(asked("SEED", 24), int(asked("ROUNDS", 40)), kinds("slow disk", "failing disk", "power loss", "power loss of all")...))
}

// TestQuick kills a primary, cuts one off, and hands over.
func TestQuick(t *testing.T) {
	long.Test(t, "it breaks a cluster of PostgreSQL")
	c := start(t, small)
	c.work(c.settled(time.Minute), c.dsn())
	c.judge(c.storm(7, 3, "kill elect", "cut", "switch-over"))
}

// TestTooth: a winner that asks nobody but itself loses rows when it is behind, and the judge sees that.
func TestTooth(t *testing.T) {
	long.Full(t, "it breaks a cluster of PostgreSQL")
	c := start(t, small, mutation.Env+"="+mutation.PostgresQuorum)
	c.work(c.settled(time.Minute), c.dsn())
	if lost := c.judge(c.storm(1, 8, "replica behind")); lost == 0 {
		t.Error("no row was lost; want some: the mistake was not found")
	}
}
