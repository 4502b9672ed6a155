//go:build linux && cgo

package leases_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/zookeeper"
	"github.com/electd/elect/test/fencing/server"
)

// otherDialect are cases of the table that do not hold in ZooKeeper's dialect, or need a fault that a connection cannot
// have.
var otherDialect = []string{
	"enter again", "a session expires", // the client keeps it alive
	"touch", "a touch is of one entry", "watch touches", // which no candidate sees here
	"the answer to a touch is lost", "the answer to an entry is lost", "the answer to a mark is lost", "the answer to leaving is lost", "the answer to a close is lost",
}

// TestZooKeeperAgreement: ZooKeeper answers as the simulator's stores do.
func TestZooKeeperAgreement(t *testing.T) {
	long.Test(t, "it starts a server")
	s := server.StartZooKeeper(t)
	cases := slices.DeleteFunc(slices.Clone(storetest.Queue), func(c storetest.Case) bool { return slices.Contains(otherDialect, c.Name) })
	agrees(t, cases, func(t *testing.T) (func(string, *loss) driver.Elector, func(protocol.Entry)) {
		z := newZnodes(t, s)
		participant := func(id string, _ *loss) driver.Elector {
			u, err := url.Parse(fmt.Sprintf("zookeeper://%s%s?lease=1m&max_hold=1m", s.Addr, z.prefix))
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
