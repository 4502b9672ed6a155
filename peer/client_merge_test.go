package peer

import (
	"testing"

	"github.com/electd/elect/driver"
)

// TestMergeOfChangedMetadata: the metadata of a leader changes within a term. The leader's own report counts, and else
// that of a node whose report has changed.
func TestMergeOfChangedMetadata(t *testing.T) {
	nodes := []Peer{{ID: "n1"}, {ID: "n2"}, {ID: "n3"}}
	said := func(version string) report {
		leader := &driver.Leader{ID: "n1", Token: 7, Metadata: map[string]string{"version": version}}
		return report{heard: true, sighting: sighting{Leader: leader}}
	}
	var silent report
	var m merger
	for i, step := range []struct {
		reports []report
		want    string
	}{
		{[]report{said("1"), said("1"), said("1")}, "1"},
		{[]report{said("2"), said("1"), said("1")}, "2"},
		{[]report{said("2"), said("2"), said("1")}, "2"},
		{[]report{silent, said("2"), said("1")}, "2"}, // it has not changed: it is behind
		{[]report{silent, said("2"), said("3")}, "3"},
		{[]report{silent, said("2"), said("3")}, "3"},
		{[]report{silent, said("3"), said("3")}, "3"},
		{[]report{said("4"), said("3"), said("3")}, "4"},
	} {
		s, _ := m.merge(nodes, len(nodes), step.reports)
		if s.Leader == nil || s.Leader.Metadata["version"] != step.want {
			t.Errorf("step %d: %+v; want version %s", i, s.Leader, step.want)
		}
	}
}
