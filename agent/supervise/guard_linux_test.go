package supervise_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/proc"
	"github.com/electd/elect/internal/terminal"
)

// guarded is a program that embeds the library. Arguments: board, grace,
// hostile (start such a family), keep, testament, lease=DURATION (it leads, and
// renews until it is told by SIGUSR1 not to), again=N (so many times more, with
// the same testament), second=DURATION (another lease,
// which it does not renew), bare (another leadership, with a locked file and no
// testament), deaf (to SIGTERM), linger=DURATION (after one),
// exit=CODE, signal=NUMBER (what it ends by, after a SIGUSR2), done (it leads no
// more, and has closed what was kept).
func guarded(args []string) {
	a := parseArgs(args)
	b, err := openBoard(a["board"])
	check(err)
	grace, _ := time.ParseDuration(a["grace"])
	g, err := supervise.Guard(supervise.GuardConfig{Grace: grace})
	check(err)
	if _, err := supervise.Guard(supervise.GuardConfig{}); err == nil || !strings.Contains(err.Error(), "guarded already") {
		check(fmt.Errorf("the second Guard said %v", err))
	}
	if a["deaf"] != "" {
		deafen()
	}
	var keep []*os.File
	if path := a["keep"]; path != "" {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		check(err)
		check(unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB))
		keep = append(keep, file)
	}
	if lease, err := time.ParseDuration(a["lease"]); err == nil {
		l := &lease1{span: lease, end: &b.Deadline}
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGUSR1)
		go func() {
			<-stop
			l.fixed.Store(true)
		}()
		done, err := g.Lead(mandate{lease: l, will: driver.Testament{Data: []byte(a["testament"]), Keep: keep}}.guarded())
		check(err)
		more, _ := strconv.Atoi(a["again"])
		for range more {
			_, err := g.Lead(mandate{lease: l, will: driver.Testament{Data: []byte(a["testament"]), Keep: keep}}.guarded())
			check(err)
		}
		if a["done"] != "" {
			done()
			done() // is harmless
			check(keep[0].Close())
		}
	}
	if a["bare"] != "" {
		file, err := os.Create(bareOf(a["keep"]))
		check(err)
		check(unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB))
		_, err = g.Lead(mandate{lease: &lease1{span: time.Hour, end: &atomic.Int64{}}, will: driver.Testament{Keep: []*os.File{file}}}.guarded())
		check(err)
	}
	if lease, err := time.ParseDuration(a["second"]); err == nil {
		var end atomic.Int64
		l := &lease1{span: lease, end: &end}
		_, _ = l.Remaining()
		l.fixed.Store(true)
		b.Gone.Store(end.Load())
		_, err := g.Lead(mandate{lease: l}.guarded())
		check(err)
	}
	if a["hostile"] != "" {
		spawnHostile(a)
		b.Members[0].Alive.Store(int64(clock.Now()))
		b.Members[0].PID.Store(int64(os.Getpid()))
	}
	if a["deaf"]+a["exit"]+a["signal"] == "" { // before anybody can know its pid
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
		go func() {
			<-term
			linger, _ := time.ParseDuration(a["linger"])
			<-time.After(linger)
			os.Exit(5)
		}()
	}
	begin := make(chan os.Signal, 1)
	signal.Notify(begin, syscall.SIGUSR2)
	b.Keeper.Store(int64(os.Getppid()))
	b.Parent.Store(int64(os.Getpid()))
	if a["exit"] != "" || a["signal"] != "" {
		<-begin
	}
	if code, err := strconv.Atoi(a["exit"]); err == nil {
		os.Exit(code)
	}
	if n, err := strconv.Atoi(a["signal"]); err == nil {
		_ = supervise.DefaultAction(syscall.Signal(n))
		check(unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}))
		check(unix.Kill(os.Getpid(), syscall.Signal(n)))
	}
	b.Members[0].live()
}

// mandate is what a guarded program leads by.
type mandate struct {
	driver.Mandate // of which nobody asks for anything else
	lease          *lease1
	will           driver.Testament
}

func (m mandate) Remaining() (time.Duration, bool) { return m.lease.Remaining() }
func (m mandate) Testament() driver.Testament      { return m.will }
func (m mandate) guarded() driver.Guarded          { return driver.Guarded{Mandate: m, Exclusive: true} }

// lease1 is a lease that is renewed whenever it is looked at.
type lease1 struct {
	span  time.Duration
	fixed atomic.Bool
	end   *atomic.Int64
}

func (l *lease1) Remaining() (time.Duration, bool) {
	if !l.fixed.Load() {
		l.end.Store(int64(clock.Now().Add(l.span)))
	}
	return max(clock.Boot(l.end.Load()).Sub(clock.Now()), 0), true
}

// guardRun runs a command below a guarded program, and ends as it does.
func guardRun(args []string) {
	_, err := supervise.Guard(supervise.GuardConfig{})
	check(err)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "SUPERVISE_PART=") || args[0] == selfExe() {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	err = cmd.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := failed.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			// A Ctrl-C is for this process, too, which may not have died of it yet.
			os.Exit(128 + int(status.Signal()))
		}
		os.Exit(failed.ExitCode())
	}
	check(err)
	os.Exit(0)
}

// unready has forgotten KeeperMain.
func unready() {
	_, err := supervise.Guard(supervise.GuardConfig{})
	fmt.Println(err)
	os.Exit(0)
}

// play is a guarded program and its front, in processes of their own.
type play struct {
	*scene
	*testament
	front *exec.Cmd
}

// newPlay starts one, and waits until the program has all that it wants.
func newPlay(t *testing.T, args ...string) *play {
	t.Helper()
	w := newTestament(t)
	path := filepath.Join(filepath.Dir(w.lock), "board")
	if err := os.WriteFile(path, make([]byte, 8192), 0o666); err != nil {
		t.Fatal(err)
	}
	b, err := openBoard(path)
	if err != nil {
		t.Fatal(err)
	}
	p := &play{scene: &scene{t: t, board: b}, testament: w}
	p.front = startPart(t, program(t), "guarded", nil, append([]string{"board=" + path, "keep=" + w.lock, "testament=" + w.text("speaks")}, args...)...)
	eventually(t, "the program runs", func() bool { return b.Parent.Load() != 0 && b.Keeper.Load() != 0 })
	if strings.Contains(strings.Join(args, " "), "hostile") {
		for n := range members["hostile"] {
			eventually(t, "the whole family lives", func() bool { return b.Members[n].Alive.Load() != 0 })
			p.pids = append(p.pids, int(b.Members[n].PID.Load()))
		}
	}
	if all := strings.Join(args, " "); strings.Contains(all, "exit=") || strings.Contains(all, "signal=") {
		p.kill(p.program(), syscall.SIGUSR2)
	}
	return p
}

func (p *play) program() int { return int(p.board.Parent.Load()) }

// ended returns how the front ended.
func (p *play) ended() syscall.WaitStatus {
	p.scene.t.Helper()
	done := make(chan struct{})
	go func() {
		_ = p.front.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		p.scene.t.Fatal("the front does not end")
	}
	return p.front.ProcessState.Sys().(syscall.WaitStatus)
}

func TestGuardPassesTheEndOn(t *testing.T) {
	for _, code := range []int{0, 1, 7, 255} {
		p := newPlay(t, "hostile=yes", fmt.Sprint("exit=", code))
		if s := p.ended(); !s.Exited() || s.ExitStatus() != code {
			t.Errorf("exit status %d became %v", code, s)
		}
		p.dead(clock.Now())
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGPIPE, syscall.SIGUSR2} {
		p := newPlay(t, fmt.Sprint("signal=", int(sig)))
		if s := p.ended(); !s.Signaled() || s.Signal() != sig {
			t.Errorf("a death by %v became %v", sig, s)
		}
	}
}

func TestGuardPassesSignalsOn(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := newPlay(t, "hostile=yes", "grace=1m")
		p.kill(p.front.Process.Pid, sig)
		if s := p.ended(); s.ExitStatus() != 5 {
			t.Errorf("%v: %v, want exit status 5, as the program does", sig, s)
		}
		p.dead(clock.Now())
	}
	p := newPlay(t, "hostile=yes", "grace=100ms", "deaf=yes")
	since := p.kill(p.front.Process.Pid, syscall.SIGTERM)
	if s := p.ended(); s.Signal() != syscall.SIGKILL {
		t.Errorf("%v, want it killed after the grace", s)
	}
	if took := clock.Now().Sub(since); took < 100*time.Millisecond || took > 5*time.Second {
		t.Errorf("killed after %v", took)
	}
	p.dead(clock.Now())
}

func TestGuardVictims(t *testing.T) {
	for name, victim := range map[string]func(p *play) int{
		"front":   func(p *play) int { return p.front.Process.Pid },
		"program": (*play).program,
	} {
		t.Run(name+" killed", func(t *testing.T) {
			p := newPlay(t, "hostile=yes", "lease=1m")
			p.line("prepared")
			since := p.kill(victim(p), syscall.SIGKILL)
			at := p.spoke()
			p.dead(at)
			if s := p.ended(); s.Signal() != syscall.SIGKILL {
				t.Errorf("the front ended with %v", s)
			}
			t.Logf("spoken after %v", at.Sub(since))
		})
	}
	t.Run("keeper killed", func(t *testing.T) {
		p := newPlay(t, "hostile=yes", "lease=1m")
		p.line("prepared")
		p.kill(p.keeper(), syscall.SIGKILL)
		if s := p.ended(); s.Signal() != syscall.SIGKILL {
			t.Errorf("the front ended with %v", s)
		}
		p.dead(clock.Now())
		p.silent(p.keeper())
		if !free(t, p.lock()) {
			t.Error("the lock is not free")
		}
	})
	t.Run("front frozen, then program killed", func(t *testing.T) {
		p := newPlay(t, "hostile=yes", "lease=1m")
		p.line("prepared")
		p.freeze(p.front.Process.Pid)
		p.kill(p.program(), syscall.SIGKILL)
		p.dead(p.spoke())
		p.kill(p.front.Process.Pid, syscall.SIGCONT)
		p.ended()
	})
	t.Run("keeper stopped", func(t *testing.T) {
		p := newPlay(t, "hostile=yes", "lease=1m")
		p.line("prepared")
		p.kill(p.keeper(), syscall.SIGSTOP) // the front wakes it up
		p.kill(p.program(), syscall.SIGKILL)
		p.dead(p.spoke())
	})
}

// TestGuardSpeaksOnce: leaderships with one testament, as the named elections of a group have it, have one word, however
// many they are.
func TestGuardSpeaksOnce(t *testing.T) {
	p := newPlay(t, "lease=1h", "again=20")
	p.line("prepared")
	p.kill(p.program(), syscall.SIGKILL)
	p.dead(p.spoke())
}

// TestGuardLetsGo: when the program is dead, files of a leadership without a testament are let go before the witness
// speaks, which may wait for whoever needs them.
func TestGuardLetsGo(t *testing.T) {
	p := newPlay(t, "lease=1h", "bare=yes")
	p.line("prepared")
	p.kill(p.program(), syscall.SIGKILL)
	p.dead(p.spoke())
}

func (p *play) lock() string { return p.testament.lock }

// TestGuardFrozen stops the program: its family must do nothing any more when
// the lease has ended, and the others are told.
func TestGuardFrozen(t *testing.T) {
	const tries = 3 // on a busy machine the killing may begin late
	for try := range tries {
		p := newPlay(t, "hostile=yes", "lease=500ms")
		p.line("prepared")
		p.kill(p.program(), syscall.SIGSTOP)
		eventually(t, "the program is frozen", func() bool { s, _ := proc.Read(p.program()); return s.State == 'T' })
		end := clock.Boot(p.board.Deadline.Load())
		at := p.spoke()
		p.dead(at)
		if s := p.ended(); s.Signal() != syscall.SIGKILL {
			t.Errorf("the front ended with %v", s)
		}
		var last clock.Boot
		for n := range p.board.Members {
			last = max(last, clock.Boot(p.board.Members[n].Alive.Load()))
		}
		t.Logf("%v before the end of the lease the last member was alive, %v before it the witness spoke", end.Sub(last), end.Sub(at))
		if early := end.Sub(last); early > 100*time.Millisecond {
			t.Errorf("killed %v before the end of the lease", early)
		}
		if last <= end {
			return
		}
		if try == tries-1 {
			t.Error("a member was alive when the lease had ended")
		}
	}
}

// TestGuardLeases has a lease that is renewed, one that is not, and one that was
// given up.
func TestGuardLeases(t *testing.T) {
	t.Run("renewed, then not", func(t *testing.T) {
		p := newPlay(t, "lease=600ms")
		select {
		case <-time.After(1500 * time.Millisecond):
		case <-t.Context().Done():
		}
		if !alive(p.program()) {
			t.Fatal("killed although it renewed its lease")
		}
		p.kill(p.program(), syscall.SIGUSR1)
		p.spoke()
		p.ended()
	})
	t.Run("renewed during the grace", func(t *testing.T) { // as a mandate is, and a term is not
		p := newPlay(t, "lease=600ms", "grace=1m", "linger=1500ms")
		p.kill(p.front.Process.Pid, syscall.SIGTERM)
		if s := p.ended(); s.ExitStatus() != 5 {
			t.Errorf("%v, want exit status 5: its grace was not over", s)
		}
	})
	t.Run("the first of two", func(t *testing.T) {
		p := newPlay(t, "lease=1m", "second=400ms")
		end := clock.Boot(p.board.Gone.Load())
		at := p.spoke()
		if late := at.Sub(end); late < -100*time.Millisecond || late > 2*time.Second {
			t.Errorf("dead %v after the end of the lease", late)
		}
		p.ended()
	})
	t.Run("given up", func(t *testing.T) {
		p := newPlay(t, "lease=600ms", "done=yes")
		eventually(t, "the lock is free", func() bool { return free(t, p.lock()) })
		select {
		case <-time.After(time.Second):
		case <-t.Context().Done():
		}
		if !alive(p.program()) {
			t.Error("killed although it leads no more")
		}
		p.kill(p.program(), syscall.SIGKILL)
		p.ended()
		p.silent(p.keeper())
	})
}

// TestGuardInside is a guarded program below others.
func TestGuardInside(t *testing.T) {
	exe := program(t)
	t.Run("a guarded program", func(t *testing.T) {
		cmd := exec.Command(exe, selfExe(), "/bin/sh", "-c", "echo guard=$ELECT_GUARDED_BY; exit 9")
		cmd.Env = partEnv("guardrun")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if cmd.ProcessState.ExitCode() != 9 || string(out) != "guard=\n" {
			t.Errorf("%v, %q; want exit status 9 and no variable left", err, out)
		}
	})
	t.Run("a command", func(t *testing.T) {
		out, lines := listen(t)
		f := start(t, supervise.Command{
			Path: exe, Args: []string{exe, "/bin/sh", "-c", "setsid sleep 100 & echo $!; exec sleep 100"}, Env: partEnv("guardrun"),
			Stdout: out, Stderr: os.Stderr,
		})
		if !lines.Scan() {
			t.Fatal("the innermost says nothing")
		}
		inner, _ := strconv.Atoi(lines.Text())
		f.Kill()
		wait(t, f)
		if inner == 0 || alive(inner) {
			t.Errorf("process %d is alive", inner)
		}
	})
	t.Run("somebody else's variable", func(t *testing.T) {
		cmd := exec.Command(exe, "/bin/sh", "-c", "exit 9")
		cmd.Env = append(partEnv("guardrun"), "ELECT_GUARDED_BY=1:200")
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 9 {
			t.Errorf("%v, %s", cmd.ProcessState, out)
		}
	})
}

func TestGuardErrors(t *testing.T) {
	cmd := exec.Command(program(t))
	cmd.Env = partEnv("unready")
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), "begin with supervise.KeeperMain") {
		t.Errorf("%v, %q; want that KeeperMain is missing", err, out)
	}
	if _, err := supervise.Guard(supervise.GuardConfig{Grace: -1}); err == nil || !strings.Contains(err.Error(), "Grace") {
		t.Errorf("%v; want that the grace is negative", err)
	}
	var g supervise.Guardian
	for _, c := range []struct {
		left time.Duration
		told []byte
		keep []*os.File
		says string
	}{
		{left: 0, says: "it takes more than 20ms to guard it; for work that is fenced by its token and may begin earlier, set elect.Config.NonExclusive"},
		{left: time.Minute, told: []byte("x"), says: "without a file to keep"},
		{left: time.Minute, keep: []*os.File{nil}, says: "nil file"},
	} {
		end := new(atomic.Int64)
		end.Store(int64(clock.Now().Add(c.left)))
		l := &lease1{end: end}
		l.fixed.Store(true)
		if _, err := g.Lead(mandate{lease: l, will: driver.Testament{Data: c.told, Keep: c.keep}}.guarded()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
}

// TestGuardTerminal is a guarded program that a person uses.
func TestGuardTerminal(t *testing.T) {
	s := newShell(t)
	s.Type("g() { SUPERVISE_PART=guardrun \"$R\" \"$@\"; }; g cat; echo code=$?\n")
	s.Type("hello\n")
	s.Expect("hello\r\n")
	s.Type(terminal.CtrlD)
	s.Expect("code=0")
	s.Type("g sh -c 'echo started; exec sleep 100'\n")
	s.Expect("started")
	s.Type(terminal.CtrlC)
	s.Expect("$ ") // the shell sees a death by the signal, and ends its line as well
	s.Type("echo code=$?\n")
	s.Expect("code=130")
	s.Type("SUPERVISE_PART=guardrun \"$R\" cat\n")
	s.Type("one\n")
	s.Expect("one\r\n")
	s.Type(terminal.CtrlZ)
	s.Expect("Stopped")
	s.Expect("$ ") // what is typed while the shell takes the terminal back may be lost
	s.Type("echo shell has it; fg\n")
	s.Expect("shell has it\r\n")
	s.Type("two\n")
	s.Expect("two\r\n")
	s.Type(terminal.CtrlD)
	s.Type("echo code=$?\n")
	s.Expect("code=0")
}

// BenchmarkGuardLead is what the beginning of a guarded leadership costs.
func BenchmarkGuardLead(b *testing.B) {
	cmd := exec.Command(program(b))
	cmd.Env = append(partEnv("guardbench"), fmt.Sprint("SUPERVISE_ROUNDS=", b.N))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatal(err)
	}
	ns, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(ns, "ns/lead")
}

// guardBench leads again and again.
func guardBench([]string) {
	g, err := supervise.Guard(supervise.GuardConfig{})
	check(err)
	rounds, err := strconv.Atoi(os.Getenv("SUPERVISE_ROUNDS"))
	check(err)
	file, err := os.Open(os.DevNull)
	check(err)
	var took time.Duration
	for range rounds {
		l := &lease1{span: time.Minute, end: new(atomic.Int64)}
		before := time.Now()
		done, err := g.Lead(mandate{lease: l, will: driver.Testament{Keep: []*os.File{file}}}.guarded())
		took += time.Since(before)
		check(err)
		done()
	}
	fmt.Println(float64(took.Nanoseconds()) / float64(rounds))
}
