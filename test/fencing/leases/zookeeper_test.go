//go:build linux && cgo

package leases_test

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"sort"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
)

// znodes is where the elections of one case are in ZooKeeper, and the era that its operator has given.
type znodes struct {
	zookeeper *server.ZooKeeper
	client    *zk.Conn
	prefix    string
	times     string // of the elections
	era       int
}

func newZnodes(t testing.TB, z *server.ZooKeeper) *znodes {
	t.Helper()
	return &znodes{zookeeper: z, client: z.Client(t), prefix: fmt.Sprintf("/test%d", prefixes.Add(1)), times: slow}
}

// url is the place as a participant gets it, asked at addr if that is not empty.
func (z *znodes) url(addr string) string {
	if addr == "" {
		addr = z.zookeeper.Addr
	}
	return fmt.Sprintf("zookeeper://%s%s?%s&era=%d", addr, z.prefix, z.times, z.era)
}

// participant opens one in a process of its own, behind a cable that can be cut, and can lose answers.
func (z *znodes) participant(t testing.TB, name, id string) electtest.Participant {
	t.Helper()
	var losing atomic.Int64
	c, at := lossyCable(t, z.zookeeper.Addr, func() bool { return losing.Add(-1) >= 0 })
	p := electtest.Spawn(t, z.url(at), name, id)
	p.Cut = cuts(c)
	p.Lose = func(n int) { losing.Store(int64(n)) }
	return p
}

// delete deletes everything below a path, and the path.
func (z *znodes) delete(t testing.TB, at string) {
	t.Helper()
	children, _, err := z.client.Children(at)
	for _, c := range children {
		z.delete(t, at+"/"+c)
	}
	if err == nil {
		err = z.client.Delete(at, -1)
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
}

// elector is a participant of the election "e" in this process.
func (z *znodes) elector(t *testing.T, id string, log *slog.Logger) local {
	t.Helper()
	return logged(t, z.url(""), id, log)
}

// entries are the paths of the entries of the election "e", by their numbers.
func (z *znodes) entries(t testing.TB) (all []string) {
	t.Helper()
	children, _, err := z.client.Children(z.prefix + "/e")
	if err != nil {
		t.Fatal(err)
	}
	sort.Slice(children, func(i, j int) bool { return number(children[i]) < number(children[j]) })
	for _, c := range children {
		all = append(all, path.Join(z.prefix, "e", c))
	}
	return all
}

func number(name string) string { return name[max(0, strings.LastIndexAny(name, "-_")):] }

// TestZooKeeperConformance has each participant in a process of its own, at a real server.
func TestZooKeeperConformance(t *testing.T) {
	long.Full(t, "it takes minutes; databases are asked by the same suite")
	server := server.StartZooKeeper(t)
	of := perCase(func(t testing.TB) *znodes {
		p := newZnodes(t, server)
		p.times = quick
		return p
	})
	electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant { return of(t).participant(t, name, id) }, electtest.Config{
		Cannot: map[electtest.Fault]string{
			electtest.Delay: "a client leaves a connection whose answers are late for another one; the fake of store/internal/queue delays them",
		},
		Candidates: 5,
		Restart:    restarts(server),
		Recreate: func(t testing.TB) {
			of(t).delete(t, of(t).prefix)
			of(t).era++
		},
	})
}
