//go:build unix

package electtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

const participantEnv = "ELECTTEST_PARTICIPANT"

// Spawn runs a participant in a process of its own: the test binary started again, whose TestMain
// must call [Serve] first. It can be frozen (SIGSTOP) and killed (SIGKILL). The URL is for the
// opener given to Serve for its scheme.
func Spawn(t testing.TB, url, name, id string) Participant {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), participantEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{in: json.NewEncoder(in), calls: map[uint64]chan reply{}}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		p.receive(out)
		_ = cmd.Wait() // killed or closed by the test
	}()
	kill := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		<-gone
	})
	t.Cleanup(kill)
	if r := p.call(t.Context(), request{Op: "open", URL: url, Name: name, ID: id}, nil); r.err() != nil {
		t.Fatalf("opening a participant in a process of its own: %v", r.err())
	} else {
		p.limits = *r.Limits
	}
	return Participant{
		Elector: p,
		Crash:   kill,
		Freeze: func(on bool) {
			sig := syscall.SIGCONT
			if on {
				sig = syscall.SIGSTOP
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Errorf("freeze %v: %v", on, err)
			}
		},
	}
}

// request is sent to the process: one JSON value each.
type request struct {
	Call  uint64 // chosen by the sender; answers carry it
	Op    string
	Token fence.Token       `json:",omitzero"`  // of the mandate that Op acts on
	To    string            `json:",omitempty"` // of a transfer or an appointment
	Cand  *driver.Candidacy `json:",omitempty"`
	URL   string            `json:",omitempty"`
	Name  string            `json:",omitempty"`
	ID    string            `json:",omitempty"`
	Other uint64            `json:",omitempty"` // the call to cancel
}

// reply comes back: any number with More set, then one without.
type reply struct {
	Call    uint64
	More    bool
	Err     string         `json:",omitempty"` // with State: its Cause
	Kinds   []string       `json:",omitempty"` // the sentinels that the error matches
	Token   fence.Token    `json:",omitzero"`
	Limits  *driver.Limits `json:",omitempty"`
	State   *driver.State  `json:",omitempty"`
	Left    time.Duration  `json:",omitempty"`
	Bounded bool           `json:",omitempty"`
}

// sentinels are the errors whose identity crosses the process boundary.
func sentinels() map[string]error {
	return map[string]error{
		"expired": driver.ErrExpired, "superseded": driver.ErrSuperseded, "resigned": driver.ErrResigned,
		"unreachable": driver.ErrUnreachable, "unhealthy": driver.ErrUnhealthy, "closed": driver.ErrClosed,
		"no-leader": driver.ErrNoLeader, "not-exclusive": driver.ErrNotExclusive,
		"unsupported": driver.ErrUnsupported, "ineligible": driver.ErrIneligible, "unknown": driver.ErrUnknownOutcome, "canceled": context.Canceled,
	}
}

func (r *reply) set(err error) {
	if err == nil {
		return
	}
	r.Err = err.Error()
	for kind, s := range sentinels() {
		if errors.Is(err, s) {
			r.Kinds = append(r.Kinds, kind)
		}
	}
	if driver.IsPermanent(err) {
		r.Kinds = append(r.Kinds, "permanent")
	}
}

func (r *reply) err() error {
	if r.Err == "" {
		return nil
	}
	e := &remoteError{text: r.Err}
	known := sentinels()
	permanent := false
	for _, k := range r.Kinds {
		if k == "permanent" {
			permanent = true
		} else if known[k] != nil {
			e.kinds = append(e.kinds, known[k])
		}
	}
	if permanent {
		return driver.Permanent(e)
	}
	return e
}

type remoteError struct {
	text  string
	kinds []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.kinds }

// process is the local end: an Elector whose calls go to the process.
type process struct {
	limits driver.Limits
	next   atomic.Uint64

	writing sync.Mutex
	in      *json.Encoder

	mu    sync.Mutex
	calls map[uint64]chan reply
	dead  bool
}

var errDead = fmt.Errorf("%w: the process has ended", driver.ErrClosed)

func (p *process) receive(out io.Reader) {
	dec := json.NewDecoder(bufio.NewReader(out))
	for {
		var r reply
		if err := dec.Decode(&r); err != nil {
			break
		}
		p.mu.Lock()
		c := p.calls[r.Call]
		p.mu.Unlock()
		if c != nil {
			c <- r // buffered, or read by a goroutine of its own
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	for id, c := range p.calls {
		close(c)
		delete(p.calls, id)
	}
}

// call sends a request and returns its last reply; more receives those before it. When ctx ends it
// asks the process to cancel, and waits for the answer.
func (p *process) call(ctx context.Context, q request, more func(reply) bool) reply {
	q.Call = p.next.Add(1)
	c := make(chan reply, 100)
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		var r reply
		r.set(errDead)
		return r
	}
	p.calls[q.Call] = c
	p.mu.Unlock()
	err := p.write(q)
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.calls, q.Call)
	}()
	var r reply
	if err != nil {
		r.set(errDead)
		return r
	}
	cancelled := ctx.Done()
	for {
		select {
		case <-cancelled:
			cancelled = nil
			p.cancel(q.Call)
		case got, ok := <-c:
			switch {
			case !ok:
				r.set(errDead)
				return r
			case !got.More:
				return got
			case more != nil && !more(got):
				more = nil
				p.cancel(q.Call)
			}
		}
	}
}

// write sends one request. It may block on a stopped process; then only other writers wait.
func (p *process) write(q request) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	return p.in.Encode(q)
}

func (p *process) cancel(call uint64) {
	_ = p.write(request{Op: "cancel", Other: call}) // a dead process needs no cancel
}

func (p *process) Limits() driver.Limits { return p.limits }

func (p *process) Close() error {
	r := p.call(context.Background(), request{Op: "close"}, nil)
	if err := r.err(); err != nil && !errors.Is(err, driver.ErrClosed) {
		return err
	}
	return nil
}

func (p *process) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	r := p.call(ctx, request{Op: "campaign", Cand: &c}, nil)
	if err := r.err(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	m := &processMandate{p: p, token: r.Token}
	var end context.CancelCauseFunc
	m.ctx, end = context.WithCancelCause(context.Background())
	go func() {
		r := p.call(context.Background(), request{Op: "ended", Token: m.token}, nil)
		end(r.err())
	}()
	return m, nil
}

func (p *process) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		on := true
		r := p.call(ctx, request{Op: "observe"}, func(r reply) bool {
			st := *r.State
			st.Cause = r.err()
			on = yield(st, nil)
			return on
		})
		if err := r.err(); on && err != nil && ctx.Err() == nil && !errors.Is(err, driver.ErrClosed) {
			yield(driver.State{}, err)
		}
	}
}

// Resign implements driver.Resigner; a back end without it returns an error.
func (p *process) Resign(ctx context.Context, token fence.Token) error {
	r := p.call(ctx, request{Op: "resign", Token: token}, nil)
	return r.err()
}

// Transfer implements driver.Transferrer; a back end without it returns an error.
func (p *process) Transfer(ctx context.Context, token fence.Token, to string) error {
	r := p.call(ctx, request{Op: "appoint", Token: token, To: to}, nil)
	return r.err()
}

// processMandate is the near end of a mandate. It has all abilities that can cross
// the boundary; the far end says ErrUnsupported to those that it lacks.
type processMandate struct {
	p     *process
	token fence.Token
	ctx   context.Context
}

func (m *processMandate) Token() fence.Token       { return m.token }
func (m *processMandate) Context() context.Context { return m.ctx }

func (m *processMandate) Remaining() (time.Duration, bool) {
	r := m.p.call(context.Background(), request{Op: "remaining", Token: m.token}, nil)
	return r.Left, r.Bounded
}

func (m *processMandate) Check() error {
	r := m.p.call(context.Background(), request{Op: "check", Token: m.token}, nil)
	return r.err()
}

func (m *processMandate) Release(ctx context.Context) error {
	r := m.p.call(ctx, request{Op: "release", Token: m.token}, nil)
	return r.err()
}

func (m *processMandate) Confirm(ctx context.Context) error {
	r := m.p.call(ctx, request{Op: "confirm", Token: m.token}, nil)
	return r.err()
}

func (m *processMandate) Eligible(to string) error {
	r := m.p.call(context.Background(), request{Op: "eligible", Token: m.token, To: to}, nil)
	return r.err()
}

func (m *processMandate) Transfer(ctx context.Context, to string) error {
	r := m.p.call(ctx, request{Op: "transfer", Token: m.token, To: to}, nil)
	return r.err()
}

func (m *processMandate) SetMetadata(ctx context.Context, metadata map[string]string) error {
	r := m.p.call(ctx, request{Op: "metadata", Token: m.token, Cand: &driver.Candidacy{Metadata: metadata}}, nil)
	return r.err()
}
