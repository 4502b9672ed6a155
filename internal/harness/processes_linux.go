package harness

import (
	"os"
	"strconv"

	"github.com/electd/elect/internal/proc"
)

// Children are the living processes that a process has started.
func Children(pid int) []int { return living()[pid] }

// Descendants are the children of a process, and theirs, each after its parent. One whose parent has ended is not among
// them.
func Descendants(pid int) (all []int) {
	children := living()
	all = append(all, children[pid]...)
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// living are all living processes, by their parents. The lists of children that the kernel has may miss some while
// others end.
func living() map[int][]int {
	all := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if s, ok := proc.Read(pid); err == nil && ok && !s.Dead() {
			all[s.Parent] = append(all[s.Parent], pid)
		}
	}
	return all
}
