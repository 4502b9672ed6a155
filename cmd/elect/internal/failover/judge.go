package failover

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/clock"
)

// life is one tenure as the process itself recorded it.
type life struct {
	who   string
	token fence.Token

	// from was read after the first Check that returned nil, to before the last one. to is 0 while it is not known, and
	// for ever if the process was killed.
	from, to clock.Boot
	killed   bool
}

// judge searches for two overlapping leaders and for tokens that do not rise. stale is the longest time for which one
// believed that it led while another did. The instants of a tenure are left out only if its process was killed: a
// dead process believes nothing.
func judge(lives []life) (stale time.Duration, violations []string) {
	inOrder := slices.SortedFunc(slices.Values(lives), func(a, b life) int { return cmp.Compare(a.from, b.from) })
	for i, after := range inOrder {
		for _, before := range inOrder[:i] {
			if after.token <= before.token {
				violations = append(violations, fmt.Sprintf("%s became active with token %v after %s with token %v", after.who, after.token, before.who, before.token))
			}
			switch {
			case before.killed:
			case before.to == 0:
				violations = append(violations, fmt.Sprintf("%s became active with token %v, and %s never said until when it believed to lead with token %v", after.who, after.token, before.who, before.token))
			case before.to > after.from:
				over := before.to.Sub(after.from)
				stale = max(stale, over)
				violations = append(violations, fmt.Sprintf("%s with token %v believed to lead for %v after %s had become active with token %v", before.who, before.token, over, after.who, after.token))
			}
		}
	}
	return stale, violations
}
