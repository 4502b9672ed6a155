package peer

import (
	"maps"
	"strings"
	"testing"

	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// cannot says which faults peers cannot be put through.
var cannot = map[electtest.Fault]string{
	electtest.Lose:     "there is no request whose answer could be lost: heartbeats are sent again anyway; see the simulator",
	electtest.Delay:    "answers that come late are the simulator's business: it delays each message by itself",
	electtest.Restart:  "there is no store; restarts of voters are in TestRestart",
	electtest.Recreate: "there is no store; a wiped directory is refused, see TestWipedDisk",
}

// size is how many voters a case has: a majority of them must be left when all
// participants that the case opens are closed or cut off.
func size(t testing.TB) int {
	if strings.HasSuffix(t.Name(), "exclusion") {
		return protocol.MaxVoters
	}
	return 7
}

// TestConformance has all participants in this process, with cables between
// them. Voters that the suite has not opened run beside.
func TestConformance(t *testing.T) {
	long.Test(t, "it founds an election of seven nodes a case")
	faults := map[electtest.Fault]string{
		electtest.Freeze: "this process cannot freeze itself: see TestConformanceProcesses",
		electtest.Crash:  "this process cannot kill itself: see TestConformanceProcesses",
	}
	maps.Copy(faults, cannot)
	clusters := map[testing.TB]*cluster{}
	electtest.Run(t, func(t testing.TB, _, id string) electtest.Participant {
		c := clusters[t]
		if c == nil {
			c = newCluster(t, names("p", size(t)), nil, true)
			clusters[t] = c
			c.startAll()
		}
		n := c.node(protocol.NodeID(id))
		if n == nil {
			t.Fatalf("the suite wants a participant %s, and there are %d voters", id, size(t))
		}
		return electtest.Participant{Elector: n, Cut: func(on bool) { c.cut(n.cfg.ID, on) }}
	}, electtest.Config{
		Cannot: faults, Candidates: protocol.MaxVoters,
	})
}
