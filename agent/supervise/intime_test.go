//go:build linux || darwin || freebsd

package supervise

import (
	"testing"

	"github.com/electd/elect/agent/supervise/internal/keeper"
	"github.com/electd/elect/internal/clock"
)

// TestInTime: a family was in time if the keeper has seen it dead before the lease was
// over, and not where nobody has.
func TestInTime(t *testing.T) {
	const lease = 1000
	for _, tt := range []struct {
		name  string
		lease int64
		ended clock.Boot
		want  bool
	}{
		{"before", lease, lease - 1, true},
		{"at its end", lease, lease, true},
		{"after", lease, lease + 1, false},
		{"not seen", lease, 0, false},
		{"no lease", 0, lease, false},
	} {
		f := &Family{done: make(chan struct{})}
		f.lease.Store(tt.lease)
		if tt.ended != 0 {
			f.hear(keeper.KindGone, keeper.AppendNumber(nil, keeper.KindGone, int64(tt.ended))[len(keeper.AppendFrame(nil, keeper.KindGone, nil)):])
		}
		close(f.done)
		if got := f.InTime(); got != tt.want {
			t.Errorf("%s: %v; want %v", tt.name, got, tt.want)
		}
	}
}
