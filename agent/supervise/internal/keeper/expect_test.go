//go:build linux || darwin || freebsd

package keeper

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/clock"
)

// TestExpect: a family is counted once half of its lease has gone by, and again only
// after the lease was renewed.
func TestExpect(t *testing.T) {
	k := &keeper{}
	is := func(what string, counted bool, ahead, early time.Duration) {
		t.Helper()
		if off := time.Duration(k.ahead) - ahead; k.counted != counted || time.Duration(k.early) != early || off > 0 || off < -100*time.Millisecond {
			t.Errorf("%s: counted %t, %v ahead, %v early; want %t, %v, %v", what, k.counted, time.Duration(k.ahead), time.Duration(k.early), counted, ahead, early)
		}
	}
	at := int64(clock.Now()) + int64(8*time.Second)
	k.expect(at)
	is("the first", false, 4*time.Second, 0)
	k.counted, k.early = true, int64(time.Second)
	k.expect(at + int64(100*time.Microsecond))
	is("the same again", true, 4*time.Second, time.Second)
	k.expect(at + int64(time.Hour))
	is("renewed", false, maxAhead, 0)
	if end := k.leaseEnd(); end != at+int64(time.Hour+KillTime) {
		t.Errorf("the lease ends at %d; want %d", end, at+int64(time.Hour+KillTime))
	}
	k.expect(0)
	if end := k.leaseEnd(); end != 0 {
		t.Errorf("no lease ends at %d; want 0", end)
	}
}
