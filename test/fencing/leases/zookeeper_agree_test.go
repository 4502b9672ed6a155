//go:build linux && cgo

package leases_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/zookeeper"
	"github.com/electd/elect/test/fencing/server"
)

// TestZooKeeperAgreement: ZooKeeper answers as the simulator's stores do.
func TestZooKeeperAgreement(t *testing.T) {
	long.Test(t, "it starts a server")
	s := server.StartZooKeeper(t)
	agrees(t, storetest.ZooKeeper(), func(t *testing.T) (func(string, *loss) driver.Elector, func(protocol.Entry)) {
		z := newZnodes(t, s)
		participant := func(id string, l *loss) driver.Elector {
			_, at := lossyCable(t, s.Addr, func() bool { return l.armed.CompareAndSwap(true, false) })
			u, err := url.Parse(fmt.Sprintf("zookeeper://%s%s?lease=40s&max_hold=40s", at, z.prefix))
			if err != nil {
				t.Fatal(err)
			}
			e, err := zookeeper.Open(t.Context(), driver.Target{URL: u, Name: "e", ID: id})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		return participant, func(entry protocol.Entry) {
			for _, at := range z.entries(t) {
				_, stat, err := z.client.Get(at)
				if err != nil || uint64(stat.Czxid) != entry.Order {
					continue
				}
				if err := z.client.Delete(at, -1); err != nil || !strings.Contains(at, "-latch-") {
					t.Fatal(at, err)
				}
			}
		}
	})
}
