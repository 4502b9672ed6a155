package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/internal/runtime"
)

// work runs the command for one term. It returns when the whole family is dead.
func (r *run) work(ctx context.Context, term *elect.Term) error {
	r.leading(term.Token())
	o := &outcome{}
	r.mu.Lock()
	r.token, r.since = term.Token(), time.Now()
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.token = 0
		r.outcome, r.family, r.starts, r.early = o, nil, false, nil
		over := r.cancel
		r.mu.Unlock()
		if o.loss == nil {
			term.Resign() // the reason of its end, unless this process was told to end
		}
		if o.loss == nil || r.cfg.Once || ctx.Err() == nil {
			over(errTermOver)
		} // Lead stands again by itself, and stands aside first if it resigned
	}()

	if !r.joinPrepare(ctx) {
		term.GiveWay(errPrepareAlive)
	}
	if ctx.Err() != nil {
		o.loss, _ = errors.AsType[*elect.LostError](context.Cause(ctx))
		if o.loss != nil && o.loss.Reason != elect.ReasonShutdown {
			r.lost(o.loss, because(o.loss))
		}
		return nil
	}
	defer r.steps.end(r, ctx, term)
	if !r.steps.begin(r, ctx, term) {
		o.loss, _ = errors.AsType[*elect.LostError](context.Cause(ctx))
		if o.loss != nil && o.loss.Reason == elect.ReasonShutdown {
			o.loss = nil
		} else if o.loss != nil {
			r.lost(o.loss, because(o.loss))
		}
		return nil
	}
	command, release, err := r.command(term)
	if err != nil {
		o.err, o.exit = err, supervise.Exit{Code: 1, Reason: supervise.Exited}
		return nil
	}
	defer release()
	said, err := r.listen(term, &command)
	if err != nil {
		o.err, o.exit = fmt.Errorf("the command cannot be supervised: %w", err), supervise.Exit{Code: 1, Reason: supervise.Exited}
		return nil
	}
	defer said.close()
	command.Spare = r.takeSpare()
	r.keep(&command)
	held := r.inForeground()
	r.mu.Lock()
	r.starts = true
	r.mu.Unlock()
	family, err := r.start(command)
	if o.loss = notStarted(err, term.Token()); o.loss != nil {
		r.tell(slog.LevelWarn, eventNotStarted, term.Token(), "lost %s (token %v): %s", r.cfg.Name, term.Token(), because(o.loss))
		return nil
	}
	if errors.Is(err, supervise.ErrAddress) && ctx.Err() == nil {
		term.GiveWay(err) // another candidate may have what is missing here
		if o.loss, _ = errors.AsType[*elect.LostError](context.Cause(ctx)); o.loss != nil {
			r.lost(o.loss, because(o.loss))
		}
		return nil
	}
	if err != nil {
		o.err, o.exit = err, supervise.Exit{Code: 1, Reason: supervise.Exited} // a failure, for the back-off
		return nil                                                             // next reports the error
	}
	begun := time.Now()
	said.follow(family)
	early, kill := r.started(family)
	for _, sig := range early {
		_ = family.Signal(sig) // it may have ended just now
	}
	if kill {
		family.Kill()
	}
	r.steps.active(r, ctx, term)

	select {
	case <-family.Done():
	case <-ctx.Done():
		// The mandate also ends when the family releases it by ending.
		if !family.Gone() {
			family.Withdraw()
			r.steps.cut(r, ctx, term)
			o.loss = r.stop(ctx, family)
		}
	}
	o.exit = family.Wait()
	o.late = family.Overrun()
	if o.loss == nil {
		if o.loss = seenByKeeper(o.exit.Reason, o.late, term.Token()); o.loss != nil {
			r.tell(slog.LevelWarn, eventKilled, term.Token(), "lost %s (token %v): %s", r.cfg.Name, term.Token(), because(o.loss))
		}
	}
	if o.late > 0 && !r.cfg.JSON {
		r.say.Say("%s", r.overrunText(term.Token(), o.late))
	}
	o.ran = time.Since(begun)
	o.interrupted = held && byPerson(o.exit)
	return nil
}

// leading writes the event, which has what metadata has.
func (r *run) leading(token elect.Token) {
	attrs := r.attrs(elect.EventElected, token)
	about := r.metadata(false)
	for _, key := range slices.Sorted(maps.Keys(about)) {
		attrs = append(attrs, slog.String(key, about[key]))
	}
	r.manager.status(r.leads(token))
	r.say.Event(slog.LevelInfo, fmt.Sprintf("%s %s, contained by %v", r.leads(token), r.where(), r.level()), attrs...)
}

func (r *run) leads(token elect.Token) string {
	return fmt.Sprintf("leading %s (token %v)", r.cfg.Name, token)
}

// metadata is what the leader says about itself: the level of containment, its guard if one was wanted, its tenure, whom
// it knows to be fenced, and that the command is active, once READY=1 has made it that.
func (r *run) metadata(ready bool) map[string]string {
	m := map[string]string{"contain": r.contain.String()}
	if ready {
		m["ready"] = "true"
	}
	if r.cfg.Tenure > 0 {
		m[electhttp.TenureKey] = r.cfg.Tenure.String()
	}
	if fenced := r.steps.previous.claim(); fenced != "" {
		m[fencedKey] = fenced
	}
	switch {
	case r.contain.Network():
		m["guard"] = string(Network)
	case r.cfg.Guard != Unguarded:
		m["guard"] = "none"
	}
	return m
}

// level is how the command is contained and limited, and whether its network is guarded if that was wanted.
func (r *run) level() string {
	level := r.contain.String()
	if len(r.cfg.Limits) > 0 {
		level += ", limited to " + strings.Join(r.cfg.Limits, " and ")
	}
	var allowed []string
	for _, to := range r.cfg.Allow {
		text := to.String()
		if to.Port() == 0 {
			text = to.Addr().String()
		}
		allowed = append(allowed, text)
	}
	switch {
	case r.cfg.Guard == Unguarded:
		return level
	case !r.contain.Network():
		return level + ", network not guarded"
	case allowed == nil:
		return level + ", network guarded"
	}
	return level + ", network guarded except to " + strings.Join(allowed, " and ")
}

// Lead implements elect.Guardian: work puts the command under the mandate.
func (r *run) Lead(m driver.Guarded) (done func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	work := m
	if r.cfg.Hooks != (Hooks{}) || r.cfg.Stonith != nil { // the term goes on when the command is dead
		work.Mandate = held{Mandate: m.Mandate, work: true}
	}
	r.keep, r.kept, r.mandate = func(c *supervise.Command) { c.Under(work) }, nil, m
	return func() {}, nil
}

// InTime implements elect.Guardian. It reports whether the keeper has ended the family before the end of the lease,
// as far as this process learns of it within a second: it may have been starved too.
func (r *run) InTime() bool {
	r.mu.Lock()
	family := r.kept
	r.mu.Unlock()
	if family == nil {
		return false // it is just starting
	}
	select {
	case <-family.Done():
		return family.InTime()
	case <-time.After(time.Second):
		return false
	}
}

// seenByKeeper returns the reason if the keeper noticed the end first, and ended the family before this process knew;
// nil if the family ended otherwise. late is how long some of the family was alive after the lease.
func seenByKeeper(why supervise.Reason, late time.Duration, token elect.Token) *elect.LostError {
	switch why {
	case supervise.Replaced:
		return &elect.LostError{Reason: elect.ReasonSuperseded, Token: token, Err: errors.New("its lock was deleted, moved or replaced")}
	// this process was frozen, or starved, or the family is so large that the kill had to begin early
	case supervise.Expired:
		cause := errors.New("the lease was not renewed in time, for example because this process did not run; the keeper killed the command before the lease ended")
		if late > 0 {
			cause = errors.New("the lease was not renewed in time, for example because this process did not run; the keeper killed the command, and was not done when the lease ended")
		}
		return &elect.LostError{Reason: elect.ReasonExpired, Token: token, Err: cause}
	}
	return nil
}

// notStarted returns the reason if the keeper started nothing because the lease had ended; nil if err is another one.
func notStarted(err error, token elect.Token) *elect.LostError {
	if !errors.Is(err, driver.ErrExpired) {
		return nil
	}
	return &elect.LostError{Reason: elect.ReasonExpired, Token: token, Err: errors.New("the lease ended before the command was started, for example because the keeper did not run")}
}

// started returns what came in while the command was being started: the signals for it, and whether to kill it at
// once.
func (r *run) started(family *supervise.Family) (early []syscall.Signal, kill bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.family, r.kept, r.starts = family, family, false
	return r.early, r.twice
}

// command is what runs in a term. release is called when it is dead.
func (r *run) command(term *elect.Term) (c supervise.Command, release func(), err error) {
	c = supervise.Command{
		Path: r.cfg.Path, Args: r.cfg.Args, Grace: r.cfg.Grace, Terminal: r.terminal, Logger: r.log(), Containment: r.contain, LeasePage: true,
		Addresses: r.cfg.Addresses,
		Stdin:     r.cfg.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Env: append(slices.Clip(r.env), "ELECT_TOKEN="+term.Token().String(), "ELECT_TOKEN_FIXED="+term.Token().Fixed()),
	}
	if r.cfg.Path != "" {
		return c, func() {}, nil
	}
	// The keeper of a family knows when this process is dead, and tells the others. So there is one without a command,
	// too: a shell that waits for the end of a file.
	end, keep, err := os.Pipe()
	if err != nil {
		return c, nil, err
	}
	c.Path, c.Args, c.Stdin, c.LeasePage = "sh", []string{"sh", "-c", "read -r line"}, end, false
	return c, func() { _ = end.Close(); _ = keep.Close() }, nil
}

// start gives up when the start hangs, but not when leadership ends: a command that has just started is stopped like
// any other.
func (r *run) start(c supervise.Command) (*supervise.Family, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), startTimeout,
		errors.New("the command was not started within "+startTimeout.String()))
	defer cancel()
	return supervise.Start(ctx, c)
}

// stop ends the family because the term has ended, and returns the reason, unless this process asked for it itself.
func (r *run) stop(ctx context.Context, family *supervise.Family) *elect.LostError {
	loss, _ := errors.AsType[*elect.LostError](context.Cause(ctx))
	if loss == nil { // Lead has no other causes
		loss = &elect.LostError{Reason: elect.ReasonShutdown, Err: context.Cause(ctx)}
	}
	family.Renew() // before anybody is told
	switch loss.Reason {
	case elect.ReasonShutdown:
		r.mu.Lock()
		why := r.why
		r.mu.Unlock()
		if why != 0 && why != syscall.SIGTERM {
			// The signal that this process received, and then the same grace.
			_ = family.Signal(why)
			_ = family.Signal(resume)
			defer time.AfterFunc(r.cfg.Grace, family.Kill).Stop()
			family.Wait()
		} else {
			family.Stop(context.Background())
		}
		return nil
	case elect.ReasonResigned:
		r.lost(loss, asked(loss))
		family.Stop(context.Background())
	case elect.ReasonUnhealthy: // the lease is renewed meanwhile
		r.lost(loss, because(loss))
		family.Stop(context.Background())
	default:
		r.lost(loss, because(loss))
		sudden, cancel := context.WithTimeout(context.Background(), min(suddenGrace, r.cfg.Grace))
		defer cancel()
		family.Stop(sudden)
	}
	return loss
}

// lost tells people. The object is that of [run.ended].
func (r *run) lost(loss *elect.LostError, why string) {
	if !r.cfg.JSON {
		r.say.Say("lost %s (token %v): %s", r.cfg.Name, loss.Token, why)
	}
}

// asked is the request that made a leader resign: to hand over, to pause, or to resign.
func asked(loss *elect.LostError) string {
	if ended, ok := errors.AsType[*runtime.Ended](loss.Err); ok {
		switch ended.Reason {
		case quorum.Transferred:
			return "asked to hand over"
		case protocol.Paused:
			return "paused"
		case quorum.Outranked:
			return "another has a greater priority"
		}
	}
	return "asked to resign"
}

// because is why leadership was lost: the reason and its details, which may begin with the reason.
func because(loss *elect.LostError) string {
	text := fmt.Sprint(loss.Err)
	if head, _, _ := strings.Cut(text, ":"); strings.Contains(head, string(loss.Reason)) {
		return text
	}
	return fmt.Sprintf("%s: %s", loss.Reason, text)
}

// byPerson reports whether a command with the terminal ended as if by a person: it was interrupted, or the terminal
// went away. Some programs catch the signal, and report it by their exit code.
func byPerson(e supervise.Exit) bool {
	switch e.ExitCode() - 128 {
	case int(syscall.SIGINT), int(syscall.SIGQUIT), int(syscall.SIGHUP):
		return true
	}
	return false
}
