//go:build unix && !aix && !netbsd && !solaris

package keeper

import "testing"

// lateBounds have a member that enters after the first kills.
type lateBounds struct {
	Unbound
	late int // kills that do not reach it
}

func (b *lateBounds) Kill() bool  { b.late--; return true }
func (b *lateBounds) empty() bool { return b.late < 0 }

// TestKillUntilEmpty: who enters after the others were killed dies, too.
func TestKillUntilEmpty(t *testing.T) {
	b := &lateBounds{late: 2}
	KillUntilEmpty(b)
	if !b.empty() {
		t.Error("a member is alive")
	}
}
