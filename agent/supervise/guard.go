package supervise

import (
	"errors"
	"log/slog"
	"time"
)

// GuardConfig configures Guard. The zero value is good.
type GuardConfig struct {
	// Grace is how long the program may go on after the first SIGTERM or SIGINT
	// before it is killed. 0 means DefaultGrace.
	Grace time.Duration
	// Logger receives what an operator should know; nil is silence.
	Logger *slog.Logger
}

func (c GuardConfig) check() error {
	if c.Grace < 0 {
		return errors.New("supervise: GuardConfig.Grace is negative: use 0 for the default or a positive duration")
	}
	return nil
}

var errGuardedTwice = errors.New("supervise: this process is guarded already: call Guard once, right after KeeperMain")
