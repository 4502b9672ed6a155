package runner

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/electd/elect"
)

// The events in the log of elect run and elect agent that are not those of an election. The others have the words of
// elect.EventKind. docs/operating.md lists all.
const (
	eventFailed        elect.EventKind = "failed" // elect run ends with an error of its own
	eventHook          elect.EventKind = "hook"   // a hook has run
	eventHookFailed    elect.EventKind = "hook-failed"
	eventHookOutput    elect.EventKind = "hook-output" // a line that a hook has written
	eventKilled        elect.EventKind = "killed"      // by the keeper, before this process ended the command
	eventNotPrepared   elect.EventKind = "not-prepared"
	eventNotReleased   elect.EventKind = "not-released"
	eventNotStarted    elect.EventKind = "not-started"
	eventOpened        elect.EventKind = "opened"
	eventReady         elect.EventKind = "ready"
	eventServing       elect.EventKind = "serving"
	eventStandingAside elect.EventKind = "standing-aside"
	eventStandingBy    elect.EventKind = "standing-by"
	eventUnclean       elect.EventKind = "unclean" // a term was activated and not demoted
	eventReloaded      elect.EventKind = "reloaded"
	eventUnguarded     elect.EventKind = "unguarded"
)

// observed passes an event on to the handler and the metrics.
func (r *run) observed(e elect.Event) {
	if r.handler != nil {
		r.handler.OnEvent(e)
	}
	if r.cfg.HTTP != nil {
		r.cfg.HTTP.Metrics.OnEvent(e)
	}
}

// tell writes an event in one line, whose text is also the status for the service manager. In JSON it is an object with
// the kind of event, the election, this candidate and the token, which is omitted if it is 0.
func (r *run) tell(level slog.Level, event elect.EventKind, token elect.Token, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.manager.status(text)
	r.say.Event(level, text, r.attrs(event, token)...)
}

func (r *run) attrs(event elect.EventKind, token elect.Token) []slog.Attr {
	attrs := append(r.identity(), slog.String("event", string(event)))
	if token != 0 {
		attrs = append(attrs, slog.String("token", token.String()))
	}
	return attrs
}

// ended writes, in JSON only, one line for each term that ends, with the reason. People get theirs from [run.lost], and
// none if the command has ended by itself or they end it.
func (r *run) ended(e elect.Event) {
	loss, ok := errors.AsType[*elect.LostError](e.Err)
	if !r.cfg.JSON || !ok {
		return
	}
	r.mu.Lock()
	done := r.outcome != nil && r.outcome.loss == nil || r.family != nil && r.family.Gone()
	r.mu.Unlock()
	level, why := slog.LevelWarn, because(loss)
	switch {
	case loss.Reason == elect.ReasonResigned && done:
		level, why = slog.LevelInfo, r.cfg.Args[0]+" has ended"
	case loss.Reason == elect.ReasonShutdown:
		level = slog.LevelInfo
	case loss.Reason == elect.ReasonResigned:
		why = asked(loss)
	}
	attrs := append(r.attrs(elect.EventEnded, e.Token), slog.String("reason", string(loss.Reason)))
	r.say.Event(level, fmt.Sprintf("lost %s (token %v): %s", r.cfg.Name, e.Token, why), attrs...)
}

// overrun writes, in JSON only, one line for each term with an overrun. People get theirs when the command is dead.
// late is for how long some of the family was alive after the lease; 0 if that is not known.
func (r *run) overrun(e elect.Event, late time.Duration) {
	r.overran = e.Token
	if r.cfg.JSON {
		r.tell(slog.LevelError, elect.EventOverrun, e.Token, "%s", r.overrunText(e.Token, late))
	}
}

func (r *run) overrunText(token elect.Token, late time.Duration) string {
	after := "after its lease had ended"
	if late > 0 {
		after = fmt.Sprintf("until %v after its lease had ended", max(late.Round(time.Millisecond), time.Millisecond))
	}
	return fmt.Sprintf("OVERRUN of %s (token %v): %s, or a process that it started, was alive %s; another candidate may have led in that time",
		r.cfg.Name, token, r.cfg.Args[0], after)
}
