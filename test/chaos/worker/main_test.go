//go:build linux

package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/register"
)

const underTest = "WORKER_UNDER_TEST"

// TestMain lets this test be the worker, its keepers and its descendants.
func TestMain(m *testing.M) {
	if os.Args[0] == "elect-keeper" || os.Getenv(underTest) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// run is one run, with a ledger and a register.
type run struct {
	t        *testing.T
	dir      string
	ledger   *lives.Ledger
	register *register.Server
}

func newRun(t *testing.T) *run {
	t.Helper()
	r := &run{t: t, dir: t.TempDir()}
	var err error
	if r.ledger, err = lives.Open(filepath.Join(r.dir, "ledger")); err != nil {
		t.Fatal(err)
	}
	if r.register, err = register.Serve(filepath.Join(r.dir, register.Socket)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.register.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// process is one that a run has started.
type process struct {
	*exec.Cmd
	t     *testing.T
	ended chan struct{}
}

// start starts a program as node i. It is killed at the end of the test, if it still
// lives.
func (r *run) start(i int, program string, args ...string) *process {
	r.t.Helper()
	p := &process{Cmd: exec.Command(program, args...), t: r.t, ended: make(chan struct{})}
	p.Env = append(os.Environ(), underTest+"=1", "CHAOS_DIR="+r.dir, "CHAOS_NODE="+strconv.Itoa(i),
		"GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0") // otherwise each end takes a second
	p.Stdout, p.Stderr = r.t.Output(), r.t.Output()
	p.WaitDelay = 10 * time.Second // a descendant that is not killed keeps the pipe open
	if err := p.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait()
	}()
	r.t.Cleanup(func() {
		_ = p.Process.Signal(syscall.SIGCONT)
		_ = p.Process.Kill()
		<-p.ended
	})
	return p
}

// worker starts one.
func (r *run) worker(i int, args ...string) *process { return r.start(i, os.Args[0], args...) }

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// end waits for the end and returns the exit code, -1 if it was killed.
func (p *process) end() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		p.t.Fatalf("process %d did not end", p.Process.Pid)
		return 0
	}
}

// leader waits for a stamp with a greater token, and returns the first process of that family.
func (r *run) leader(above int64) lives.Life {
	r.t.Helper()
	var found lives.Life
	before := r.ledger.Now()
	harness.Eventually(r.t, "a leader", func() bool {
		for _, life := range r.ledger.Lives() {
			if life.Kind != lives.Descendant && life.Token > above && life.Last > before {
				found = life
				return true
			}
		}
		return false
	})
	return found
}

// descendant waits until that of a leader stamps.
func (r *run) descendant(of lives.Life) lives.Life {
	r.t.Helper()
	var found lives.Life
	harness.Eventually(r.t, "a descendant", func() bool {
		for _, life := range r.ledger.Lives() {
			if life.Kind == lives.Descendant && life.Token == of.Token {
				found = life
				return true
			}
		}
		return false
	})
	return found
}

// written waits until a write and a sequence of that token, or a greater one, were accepted, as
// their clients know.
func (r *run) written(token int64) {
	r.t.Helper()
	harness.Eventually(r.t, "writes and sequences", func() bool {
		write, stream := false, false
		for _, o := range r.operations() {
			if o.Token >= token && o.Result == register.OK {
				write, stream = write || o.Op == register.Write, stream || o.Op == register.Stream
			}
		}
		return write && stream
	})
}

func (r *run) operations() []register.Operation {
	r.t.Helper()
	all, err := register.ReadDir(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// judge fails the test where two lives of different tokens overlap, or one with a smaller token is
// later.
func (r *run) judge() {
	r.t.Helper()
	all := r.ledger.Lives()
	for _, a := range all {
		for _, b := range all {
			if a.Token < b.Token && a.Last >= b.Start {
				r.t.Errorf("%+v overlaps with %+v", a, b)
			}
		}
	}
}

// seen is all that watchers have recorded.
func (r *run) seen() string {
	r.t.Helper()
	names, err := filepath.Glob(filepath.Join(r.dir, "watch", "*.ndjson"))
	if err != nil {
		r.t.Fatal(err)
	}
	var all bytes.Buffer
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			r.t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

func TestCommandLine(t *testing.T) {
	t.Setenv("CHAOS_DIR", t.TempDir())
	t.Setenv("CHAOS_NODE", "")
	t.Setenv("ELECT_TOKEN", "")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", codeUsage, "want a role"},
		{"sleep", codeUsage, `no role "sleep"`},
		{"life now", codeUsage, "takes no arguments"},
		{"life", codeWorker, "ELECT_TOKEN"},
		{"descendant", codeWorker, "ELECT_TOKEN"},
		{"guarded", codeUsage, "--election"},
		{"guarded --election file:/x --name n", codeUsage, "--id"},
		{"guarded --election file:/x --name n --id a b", codeUsage, "no arguments"},
		{"guarded --promises 3", codeUsage, "promises"},
		{"guarded --election cat:/x --name n --id a", codeElection, `"cat"`},
		{"watch --name n", codeUsage, "--election"},
		{"watch --election file:/x --name n --as a/b", codeUsage, "plain name"},
		{"watch --election cat:/x --name n", codeElection, `"cat"`},
		{"burn 0", codeUsage, "from 1"},
		{"burn 1 2", codeUsage, "number of threads"},
	} {
		err := start(strings.Fields(c.args))
		code := codeWorker
		if f, ok := errors.AsType[*fault](err); ok {
			code = f.code
		}
		if err == nil || code != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("worker %s: code %d, %v; want %d and something about %q", c.args, code, err, c.code, c.want)
		}
	}
	if err := start([]string{"guarded", "-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
	for name, value := range map[string]string{"CHAOS_DIR": "", "CHAOS_NODE": "n1", "CHAOS_RATE": "0"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if _, err := readSurroundings(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s=%q: %v", name, value, err)
			}
		})
	}
}

func TestURLParameters(t *testing.T) {
	for _, c := range []struct{ url, name, value, want string }{
		{"peer://a@b:1", "promise", "2s", "peer://a@b:1?promise=2s"},
		{"peer://a@b:1?certs=/x&promise=1s", "promise", "2s", "peer://a@b:1?certs=/x&promise=2s"},
		{"peer://a@b:1?promise=1s", "profile", "f&t", "peer://a@b:1?promise=1s&profile=f%26t"},
	} {
		if got := with(c.url, c.name, c.value); got != c.want {
			t.Errorf("%s; want %s", got, c.want)
		}
	}
}

// TestBudget: however often a program runs late, bursts take a twentieth of its time, and after a
// long pause there is one of full length.
func TestBudget(t *testing.T) {
	var b budget
	spent, now := int64(0), int64(0)
	for now < int64(time.Minute) {
		now += int64(look + 2*late)
		b.earn(now)
		d := b.spend()
		spent += d
		now += d
	}
	if most := now / share; spent > most || spent < most*9/10 {
		t.Errorf("%v of %v", time.Duration(spent), time.Duration(now))
	}
	b.earn(now + int64(time.Hour))
	for range 4 {
		if got := b.spend(); got != int64(burst) {
			t.Errorf("after a pause: %v; want %v", time.Duration(got), burst)
		}
	}
	if got := b.spend(); got != 0 {
		t.Errorf("and more: %v", time.Duration(got))
	}
}
