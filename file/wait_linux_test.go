package file

import (
	"context"
	"os"
	"os/signal"
	"testing"
)

// TestSignalReset checks that a program which resets all signals does not die of
// a cancelled campaign.
func TestSignalReset(t *testing.T) {
	dir := t.TempDir()
	lead(t, elector(t, dir, "a"))
	for _, disturb := range []func(){
		func() { signal.Reset(interruptSignal) },
		func() { signal.Ignore(interruptSignal) },
		func() { signal.Reset(interruptSignal); signal.Notify(make(chan os.Signal, 1), interruptSignal) },
		func() {},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		won := stand(ctx, elector(t, dir, "b"))
		waiting(t, 1)
		disturb()
		cancel()
		if v := receive(t, won, "the end of the campaign"); v.err != context.Canceled {
			t.Fatalf("got %v", v.err)
		}
	}
}
