package supervise_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/driver"
)

// leased is a mandate whose lease a test holds.
type leased struct {
	ctx   context.Context
	lease func() (left time.Duration, bounded bool)
}

func (m leased) Token() elect.Token               { return 1 }
func (m leased) Context() context.Context         { return m.ctx }
func (m leased) Check() error                     { return context.Cause(m.ctx) }
func (m leased) Release(context.Context) error    { return nil }
func (m leased) Remaining() (time.Duration, bool) { return m.lease() }

// guardedLease is exclusive work under a lease; nil is none.
func guardedLease(ctx context.Context, lease func() (left time.Duration, bounded bool)) driver.Guarded {
	if lease == nil {
		lease = func() (time.Duration, bool) { return 0, false }
	}
	return driver.Guarded{Mandate: leased{ctx, lease}, Exclusive: true}
}

// guardTerms returns a TermGuard. Where there can be none the test is skipped.
func guardTerms(t *testing.T) (g *supervise.TermGuard, name string) {
	t.Helper()
	c, name := guardNetwork(t)
	g, err := supervise.NewTermGuard(c)
	if err != nil {
		t.Fatal(err)
	}
	return g, name
}

// talkIn starts a talker by g.
func talkIn(t *testing.T, g *supervise.TermGuard, addr string) (k *talker, ended <-chan struct{}) {
	t.Helper()
	out, lines := listen(t)
	cmd := exec.Command(executable(t), "udp", addr)
	given := &syscall.SysProcAttr{}
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = partEnv("talk"), out, os.Stderr, given
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if cmd.SysProcAttr != given || given.UseCgroupFD {
		t.Errorf("Start has changed the caller's SysProcAttr: %+v", given)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	k = &talker{t, cmd, in, lines}
	if answer := k.line(); answer != "open" {
		t.Fatal(answer)
	}
	return k, done
}

// TestTermGuard: packets pass until the end of the lease, and again after a renewal. The guard of a resigned term is
// open until the work has returned; then the processes are dead and nothing is left, and the next term is another.
func TestTermGuard(t *testing.T) {
	g, name := guardTerms(t)
	e := packets(t, "udp4", "127.0.0.1:0")
	for range 2 {
		var left atomic.Int64
		left.Store(int64(time.Hour))
		ctx, end := context.WithCancelCause(t.Context())
		m := guardedLease(ctx, func() (time.Duration, bool) { return time.Duration(left.Load()), true })
		done, err := g.Lead(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Lead(m); err == nil {
			t.Error("a second term at a time was taken")
		}
		gone := leavesNone(t, name)
		k, ended := talkIn(t, g, e.addr)
		for _, step := range []struct {
			left time.Duration
			want string // of the answer
		}{{time.Hour, "sent"}, {0, "not permitted"}, {time.Hour, "sent"}} {
			left.Store(int64(step.left))
			g.Renew()
			if answer := k.send("text"); !strings.HasSuffix(answer, step.want) {
				t.Errorf("with %v left: %s; want %s", step.left, answer, step.want)
			}
		}
		end(driver.ErrResigned)
		g.Renew()
		if answer := k.send("text"); answer != "sent" {
			t.Errorf("after the resignation: %s", answer)
		}
		done()
		if list := cgroups(t, name); len(list) > 0 {
			t.Errorf("%q are left", list)
		}
		<-ended
		gone()
		if err := g.Start(exec.Command("true")); err == nil {
			t.Error("a process was started after the end of the term")
		}
	}
}

// TestTermGuardLoss: a term that is lost before the end of its lease is closed when Renew returns, and its processes
// are killed although the work goes on.
func TestTermGuardLoss(t *testing.T) {
	for _, bounded := range []bool{true, false} {
		g, _ := guardTerms(t)
		e := packets(t, "udp4", "127.0.0.1:0")
		ctx, end := context.WithCancelCause(t.Context())
		done, err := g.Lead(guardedLease(ctx, func() (time.Duration, bool) { return time.Hour, bounded }))
		if err != nil {
			t.Fatal(err)
		}
		k, ended := talkIn(t, g, e.addr)
		if answer := k.send("before"); answer != "sent" {
			t.Errorf("before the loss: %s", answer)
		}
		end(driver.ErrSuperseded)
		g.Renew()
		_, _ = k.in.Write([]byte("after\n")) // it may be dead
		<-ended
		if e.hears(t, "after", 50*time.Millisecond) {
			t.Error("a packet was sent after the loss")
		}
		if err := g.Start(exec.Command("true")); err == nil {
			t.Error("a process was started after the loss")
		}
		done()
	}
}

// TestTermGuardRefuses: what would not be guarded is not started.
func TestTermGuardRefuses(t *testing.T) {
	c, _ := contain(t)
	for _, c := range []*supervise.Containment{nil, c} {
		if _, err := supervise.NewTermGuard(c); !errors.Is(err, supervise.ErrContain) {
			t.Errorf("without a network guard: %v", err)
		}
	}
	g, _ := guardTerms(t)
	if err := g.Start(exec.Command("true")); err == nil {
		t.Error("a process was started before the first term")
	}
	done, err := g.Lead(guardedLease(t.Context(), nil))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	e := packets(t, "udp4", "127.0.0.1:0")
	streams, extra := exec.Command("true"), exec.Command("true")
	streams.Stdin, extra.ExtraFiles = dialFile(t, e.addr), []*os.File{nil, dialFile(t, e.addr)}
	for _, cmd := range []*exec.Cmd{streams, extra} {
		if err := g.Start(cmd); !errors.Is(err, supervise.ErrContain) {
			t.Errorf("a command with a socket: %v", err)
		}
	}
}
