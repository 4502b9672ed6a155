//go:build linux

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/electd/elect/test/chaos/network"
)

// Each node's position is in a file, which its position command prints.

func (s *trial) positionFile(node int) string {
	return filepath.Join(s.dir, fmt.Sprintf("position%d", node+1))
}

// positioned makes a node read its position from its file.
func positioned(s *trial, node int) []string {
	return []string{"ELECT_POSITION_COMMAND=cat " + s.positionFile(node), "ELECT_POSITION_EVERY=100ms"}
}

// locate sets a node's position, as its copy of a log would.
func (s *trial) locate(node, position int) {
	s.t.Helper()
	path := s.positionFile(node)
	s.does(os.WriteFile(path+".new", fmt.Appendln(nil, position), 0o644))
	s.does(os.Rename(path+".new", path))
}

const constrainedFor = 6 * promise

// constrained puts all nodes but the hub, 2, a step ahead, cuts the leader off, and leaves the
// others connected with the hub only.
func constrained(s *trial) {
	for role, node := range s.roles {
		if role != 2 {
			s.locate(node, 6)
		}
	}
	known := func() bool {
		for role, node := range s.roles {
			if n := s.members().Nodes[node]; n == nil || role != 2 && n.Position != "6" || role == 2 && n.Position != "5" {
				return false
			}
		}
		return true
	}
	if !s.until(patience, known) {
		s.giveUp("the positions do not become known")
	}
	s.during(network.Merge(network.Isolate(5, 0), network.Hub(5, 2)), constrainedFor)
	s.hold(2 * promise)
}

// hubLeadsLate expects the hub to lead, after it has waited for the nodes that are ahead.
func hubLeadsLate(s *trial) {
	s.safe()
	_, next := s.oneAfter(s.fault, promise, constrainedFor)
	s.want(s.role(next.node) == 2, "%s leads; want the hub, role 2", s.name(next.node))
	s.noneBut("the hub, role 2", func(role int) bool { return role == 2 })
}

// noneLeads expects no new tenure before the healing, and one in the end.
func noneLeads(s *trial) {
	s.safe()
	during := s.begun(s.fault, s.heal)
	s.want(len(during) == 0, "%s led in the cut; want none", s.names(during))
	s.noneBut("none", func(int) bool { return false })
	after := s.begun(s.heal, s.end)
	s.want(len(after) > 0, "there is no leader after the healing")
	if len(after) > 0 {
		s.say("there is no leader from %v after the cut on; %s does %v after the healing", shown(s.sinceFault(s.led(s.fault).until)), s.name(after[0].node), shown(time.Duration(after[0].from-s.heal)))
	}
}
