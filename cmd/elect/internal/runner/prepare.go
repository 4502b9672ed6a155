package runner

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// The pauses before a --prepare command that fails runs again. One that ran for longestPause or longer resets them.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// joinTime is how long a new leader waits for the end of --prepare before it starts its command: longer than SIGTERM
// and SIGKILL take, unless a process cannot be killed.
const joinTime = 5 * time.Second

// startPrepare runs Config.Prepare, again while it fails, until ctx ends. It begins when earlier, the channel of the run
// before, is closed. The channel that it returns is closed when it has ended. A candidate that wins at once does not
// begin it.
func (r *run) startPrepare(ctx context.Context, earlier <-chan struct{}) <-chan struct{} {
	if r.cfg.Prepare == nil {
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if earlier != nil {
			<-earlier
		}
		pause := firstPause
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
			if time.Since(begun) >= longestPause {
				pause = firstPause
			}
			wait, pause = pause, min(2*pause, longestPause)
			r.tell(slog.LevelWarn, eventNotPrepared, 0, "the prepare command has failed: %v; it runs again in %v", err, wait)
		}
	}()
	return done
}

var errPrepareAlive = errors.New("its prepare command was killed, and does not end")

// joinPrepare waits until the --prepare command, which is being stopped, has ended. It returns false if that takes
// longer than joinTime.
func (r *run) joinPrepare(ctx context.Context) bool {
	r.mu.Lock()
	done := r.prepareDone
	r.mu.Unlock()
	if done == nil {
		return true
	}
	select {
	case <-done:
	case <-ctx.Done():
	case <-time.After(joinTime):
		return false
	}
	return true
}
