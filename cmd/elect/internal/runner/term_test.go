package runner

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/internal/runtime"
)

func TestBecause(t *testing.T) {
	for want, loss := range map[string]*elect.LostError{
		"superseded: another was elected":                                    {Reason: elect.ReasonSuperseded, Err: fmt.Errorf("%w: another was elected", driver.ErrSuperseded)},
		"lease expired: not renewed":                                         {Reason: elect.ReasonExpired, Err: fmt.Errorf("%w: not renewed", driver.ErrExpired)},
		"store-unreachable: store or peers unreachable: dial: superseded by": {Reason: elect.ReasonStoreUnreachable, Err: fmt.Errorf("%w: dial: superseded by", driver.ErrUnreachable)},
		"superseded: its lock was deleted, moved or replaced":                seenByKeeper(supervise.Replaced, 0, 7),
		"expired: the lease was not renewed in time, for example because this process did not run; the keeper killed the command before the lease ended":                 seenByKeeper(supervise.Expired, 0, 7),
		"expired: the lease was not renewed in time, for example because this process did not run; the keeper killed the command, and was not done when the lease ended": seenByKeeper(supervise.Expired, time.Second, 7),
		"expired: the lease ended before the command was started, for example because the keeper did not run":                                                            notStarted(fmt.Errorf("not started: %w", driver.ErrExpired), 7),
		"unhealthy: no disk": {Reason: elect.ReasonUnhealthy, Err: errors.New("no disk")},
	} {
		if got := because(loss); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
	for _, why := range []supervise.Reason{supervise.Exited, supervise.Stopped, supervise.Killed, supervise.Terminated, supervise.KeeperLost} {
		if loss := seenByKeeper(why, 0, 7); loss != nil {
			t.Errorf("%v is a loss: %v", why, loss)
		}
	}
}

// TestNotStarted: a start that fails for another reason is no loss.
func TestNotStarted(t *testing.T) {
	for _, err := range []error{nil, errors.New("no resources"), &supervise.StartError{Path: "x"}} {
		if loss := notStarted(err, 7); loss != nil {
			t.Errorf("%v is a loss: %v", err, loss)
		}
	}
}

// TestAsked: the line about a resignation names the request by the protocol's reason, and not by the text of the error.
func TestAsked(t *testing.T) {
	for want, err := range map[string]error{
		"asked to hand over":             &runtime.Ended{Reason: quorum.Transferred},
		"another has a greater priority": fmt.Errorf("wrapped: %w", &runtime.Ended{Reason: quorum.Outranked}),
		"paused":                         &runtime.Ended{Reason: protocol.Paused},
	} {
		if got := asked(&elect.LostError{Reason: elect.ReasonResigned, Err: err}); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
	for _, err := range []error{nil, &runtime.Ended{Reason: protocol.Recalled}, fmt.Errorf("%w: paused", driver.ErrResigned)} {
		if got := asked(&elect.LostError{Reason: elect.ReasonResigned, Err: err}); got != "asked to resign" {
			t.Errorf("%#v: %q; want asked to resign", err, got)
		}
	}
}

// TestCode: an overrun takes the place of the command's own exit code.
func TestCode(t *testing.T) {
	o := &outcome{exit: supervise.Exit{Code: 3}}
	if got := o.code(); got != 3 {
		t.Errorf("in time: %d; want the command's 3", got)
	}
	o.late = time.Millisecond
	if got := o.code(); got != exit.Overrun {
		t.Errorf("after an overrun: %d; want %d", got, exit.Overrun)
	}
}
