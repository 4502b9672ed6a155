package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/cmd/elect/internal/printable"
	"github.com/electd/elect/driver"
)

const (
	// hookGrace is the time between SIGTERM and SIGKILL of a hook whose limit is over, and suddenGrace that of one
	// whose lease is about to end.
	hookGrace = time.Second

	// What of the output of one run is logged: so many lines, each of so many bytes at most.
	hookLines = 20
	hookLine  = 200
)

// hook runs a hook, again if it fails and has retries, and tells its failure in one line. ctx ends it. within puts it
// under the mandate of the term, if the lease of that goes on, or is not asked for.
func (r *run) hook(ctx context.Context, name string, h Hook, token elect.Token, within bool, env ...string) error {
	env = append(slices.Clip(r.env), append(env, "ELECT_HOOK="+name, "ELECT_TOKEN="+token.String(), "ELECT_TOKEN_FIXED="+token.Fixed())...)
	for again := 0; ; again++ {
		begun := time.Now()
		err := r.hookOnce(ctx, name, h, within, env)
		took := time.Since(begun)
		if r.cfg.HTTP != nil {
			r.cfg.HTTP.Metrics.ObserveHook(name, took)
		}
		if err == nil {
			r.tell(slog.LevelInfo, eventHook, token, "the hook %s has run, for %v", name, took.Round(time.Millisecond))
			return nil
		}
		tries := ""
		if ctx.Err() == nil && again < h.Retries {
			tries = fmt.Sprintf("; it runs again, %d of %d", again+1, h.Retries)
		}
		r.tell(slog.LevelWarn, eventHookFailed, token, "the hook %s has failed: %v%s", name, err, tries)
		if tries == "" {
			return err
		}
	}
}

// gate is elect.Health.Check. Only its failures are told, and those by the election.
func (r *run) gate(ctx context.Context) error {
	begun := time.Now()
	err := r.hookOnce(ctx, gate, r.cfg.Gate, false, append(slices.Clip(r.env), "ELECT_HOOK="+gate))
	if r.cfg.HTTP != nil {
		r.cfg.HTTP.Metrics.ObserveHook(gate, time.Since(begun))
	}
	if err != nil {
		return fmt.Errorf("its hook gate fails: %w", err)
	}
	return nil
}

// The names of the hooks that this file knows.
const (
	gate   = "gate"
	cut    = "cut"
	demote = "demote"
)

// hookOnce runs a hook once, until it and all that it has started are dead.
func (r *run) hookOnce(ctx context.Context, name string, h Hook, within bool, env []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, h.Limit, fmt.Errorf("it took longer than %v, and was killed", h.Limit))
	defer cancel()
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	c := supervise.Command{
		Path: "sh", Args: []string{"sh", "-c", h.Run}, Env: env, Grace: hookGrace,
		Stdout: in, Stderr: in, Containment: r.contain.Bare(), Logger: r.log(),
	}
	if h.Path != "" {
		c.Path, c.Args = h.Path, nil
		if c.Stdin, err = filled(h.Input); err != nil {
			_ = in.Close()
			return err
		}
		defer c.Stdin.Close()
	}
	if within {
		m := r.mandate
		left, bounded := m.Remaining()
		if bounded && (m.Context().Err() != nil || r.steps.sudden.Load()) {
			c.Grace = suddenGrace
		}
		switch {
		case !bounded || left > 0 || !m.Exclusive:
			c.Under(driver.Guarded{Mandate: held{Mandate: m.Mandate}, Exclusive: m.Exclusive})
		case name != cut && name != demote: // to undo an activation late is better than never
			_ = in.Close()
			return errors.New("it was not started, because the lease had ended")
		}
	}
	family, err := r.start(c)
	_ = in.Close() // the family has its own
	if err != nil {
		return err
	}
	said := make(chan string, 1)
	go func() { said <- r.output(name, out, r.cfg.Stonith.secrets()) }()
	select {
	case <-family.Done():
	case <-ctx.Done():
		grace := c.Grace
		if within && suddenly(ctx) {
			grace = min(grace, suddenGrace) // what undoes the activation needs the rest of the lease
		}
		patience, done := context.WithTimeout(context.Background(), grace)
		family.Stop(patience)
		done()
	}
	how := family.Wait()
	_ = out.SetReadDeadline(time.Now().Add(time.Second)) // a process outside the family may have it
	last := <-said
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case how.Reason == supervise.Expired:
		return errors.New("it was killed, because the lease ended")
	case how.ExitCode() != 0:
		err := fmt.Errorf("%v", how)
		if last != "" {
			err = fmt.Errorf("%w: %s", err, last)
		}
		return err
	}
	return nil
}

// suddenly reports whether ctx has ended because leadership is lost, and not renewed while the work stops.
func suddenly(ctx context.Context) bool {
	loss, ok := errors.AsType[*elect.LostError](context.Cause(ctx))
	return ok && slices.Contains([]elect.Reason{elect.ReasonExpired, elect.ReasonSuperseded, elect.ReasonStoreUnreachable}, loss.Reason)
}

// filled returns a pipe to read text from.
func filled(text string) (*os.File, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if len(text) > maxInput {
		err = fmt.Errorf("it has %d bytes of options; want at most %d", len(text), maxInput)
	} else {
		_, err = in.WriteString(text)
	}
	if err = errors.Join(err, in.Close()); err != nil {
		_ = out.Close()
		return nil, err
	}
	return out, nil
}

// maxInput is what a pipe takes while nobody reads.
const maxInput = 4 << 10

// output logs what a hook writes, up to a bound and without secrets, and reads the rest. It returns the last line that
// was logged.
func (r *run) output(name string, from io.Reader, secrets []string) (last string) {
	b := bufio.NewReaderSize(from, 4<<10)
	lines, beyond := 0, 0
	for {
		read, err := b.ReadSlice('\n')
		text := string(read)
		for _, secret := range secrets {
			text = strings.ReplaceAll(text, secret, "…")
		}
		switch line := printable.Line(text, hookLine); {
		case line == "":
		case name == gate: // it runs all the time
			last = line
		case lines < hookLines:
			lines++
			last = line
			r.say.Event(slog.LevelInfo, name+": "+line, r.attrs(eventHookOutput, 0)...)
		default:
			beyond++
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
	}
	if beyond > 0 {
		r.say.Event(slog.LevelWarn, fmt.Sprintf("%s: %d further lines were dropped", name, beyond), r.attrs(eventHookOutput, 0)...)
	}
	return last
}

// held is a mandate whose locks the keeper of a family holds, and does not release when the family is dead: this process
// releases them, after all that belongs to the term. If this process has died, they are free when the last such family
// is dead.
type held struct {
	driver.Mandate
	work bool // of the command; else of a hook, whose keeper is no witness: that of the command is
}

// Testament implements driver.Attestable.
func (h held) Testament() (t driver.Testament) {
	if m, ok := h.Mandate.(driver.Attestable); ok {
		if t = m.Testament(); !h.work {
			t.Data = nil
		}
	}
	if m, ok := h.Mandate.(driver.Inheritable); ok {
		t.Keep = slices.Concat(t.Keep, m.Files())
	}
	return t
}
