package keeper

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/clock"
)

// crowded are bounds that have so many members.
type crowded struct {
	Unbound
	size int
}

func (c crowded) Members() []int { return make([]int, c.size) }

// TestCountInBounds: when the processes cannot be found in time, the kernel's number of them decides when to kill.
func TestCountInBounds(t *testing.T) {
	for size, want := range map[int]time.Duration{
		0:    0,
		10:   0, // within KillTime
		100:  60 * time.Millisecond,
		6000: 3 * time.Second / 2, // the most
	} {
		k := keeper{bounds: crowded{size: size}, base: 1 << 20, ahead: int64(2 * time.Second)}
		k.deadline = int64(clock.Now().Add(want / 2)) // it must be killed already
		k.count()
		if !k.census.part || len(k.census.pidfds) > 0 {
			t.Errorf("size %d: %d processes were found; want none", size, len(k.census.pidfds))
		}
		if got := time.Duration(k.early); got != want {
			t.Errorf("size %d: the killing begins %v before the end; want %v", size, got, want)
		}
	}
}
