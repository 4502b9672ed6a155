package supervise_test

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/proc"
)

// headlessWork is for how long a headless process works on after SIGTERM.
const headlessWork = 300 * time.Millisecond

// headless ends its main thread and works on in another one. To /proc it is a
// zombie with several threads. After SIGTERM it works on for headlessWork, and
// exits with 7. Arguments: board, place; the time of a good end goes into the next
// place.
func headless(args []string) {
	a := parseArgs(args)
	b, err := openBoard(a["board"])
	check(err)
	n, err := strconv.Atoi(a["place"])
	check(err)
	ended := func() bool { s, ok := proc.ReadAt("self"); return ok && s.State == 'Z' }
	nap := func() {
		ts := unix.NsecToTimespec(1_000_000)
		_ = unix.Nanosleep(&ts, nil)
	}
	go func() {
		for !ended() {
			nap()
		}
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		go func() {
			<-term
			ts := unix.NsecToTimespec(int64(headlessWork))
			_ = unix.Nanosleep(&ts, nil)
			b.Members[n+1].Alive.Store(int64(clock.Now()))
			os.Exit(7)
		}()
		b.Members[n].live()
		os.Exit(70) // nobody has killed it
	}()
	// The main thread runs one of the goroutines: those that are on others keep these.
	endMain := func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
		}
	}
	for endMain(); !ended(); nap() {
		go func() { endMain(); select {} }()
	}
	select {}
}

// TestMainThreadEnded: a process whose main thread has ended is alive while
// another of its threads is.
func TestMainThreadEnded(t *testing.T) {
	stop := func(f *supervise.Family) { f.Stop(context.Background()) }
	expire := func(f *supervise.Family) { f.Deadline(clock.Now()) }
	for _, c := range []struct {
		name   string
		member bool // it is a member of the command's group, and not the command
		end    func(f *supervise.Family)
		graced bool // it ended by itself
	}{
		{"command stopped", false, stop, true},
		{"member stopped", true, stop, true},
		{"command at the deadline", false, expire, false},
		{"member at the deadline", true, expire, false},
		{"command without its keeper", false, (*supervise.Family).KillKeeper, false},
		{"member without its keeper", true, (*supervise.Family).KillKeeper, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, b := newBoard(t)
			exe := executable(t)
			args := []string{exe, "board=" + path, "place=0"}
			cmd := supervise.Command{Path: exe, Args: args, Env: partEnv("headless"), Stderr: os.Stderr}
			if c.member {
				cmd = shell(`"$@" & wait`)
				cmd.Args, cmd.Env = append(cmd.Args, append([]string{"sh"}, args...)...), partEnv("headless")
			}
			f := start(t, cmd)
			m := &b.Members[0]
			eventually(t, "its main thread has ended", func() bool { return m.Alive.Load() != 0 })
			pid := int(m.PID.Load())
			if s, ok := proc.Read(pid); !ok || s.State != 'Z' || s.Dead() {
				t.Errorf("%+v, dead: %t; want state Z, and not dead", s, s.Dead())
			}
			c.end(f)
			wait(t, f)
			if threads, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task"); len(threads) > 1 {
				t.Errorf("Done although %d of its threads run", len(threads))
			}
			if got := b.Members[1].Alive.Load() != 0; got != c.graced {
				t.Errorf("ended by itself: %t; want %t", got, c.graced)
			}
		})
	}
}
