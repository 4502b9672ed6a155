package runner

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// The back-off of a --prepare command that fails. One that has run for longestCooling is no failure in a row.
const (
	firstCooling   = time.Second
	longestCooling = 30 * time.Second
)

// coolTime is how long the command of a new leader waits for the end of --prepare: longer than its SIGTERM and SIGKILL
// take, unless a process cannot be killed.
const coolTime = 5 * time.Second

// keepWarm runs Config.Prepare until ctx ends, after old was closed, and again while it fails. The channel is closed
// when it has ended. A candidate that wins at once does not begin it.
func (r *run) keepWarm(ctx context.Context, old <-chan struct{}) <-chan struct{} {
	if r.cfg.Prepare == nil {
		return nil
	}
	cold := make(chan struct{})
	go func() {
		defer close(cold)
		if old != nil {
			<-old
		}
		pause := firstCooling
		for wait := firstGlance; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			begun := time.Now()
			err := r.cfg.Prepare(ctx)
			if err == nil || ctx.Err() != nil {
				return
			}
			if time.Since(begun) >= longestCooling {
				pause = firstCooling
			}
			wait, pause = pause, min(2*pause, longestCooling)
			r.tell(slog.LevelWarn, eventNotPrepared, 0, "the prepare command has failed: %v; it runs again in %v", err, wait)
		}
	}()
	return cold
}

var errWarm = errors.New("its prepare command was killed, and does not end")

// cooled waits until the --prepare command, which is being stopped, has ended. It reports false if it does not end.
func (r *run) cooled(ctx context.Context) bool {
	r.mu.Lock()
	cold := r.cold
	r.mu.Unlock()
	if cold == nil {
		return true
	}
	select {
	case <-cold:
	case <-ctx.Done():
	case <-time.After(coolTime):
		return false
	}
	return true
}
