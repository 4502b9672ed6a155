//go:build linux

package skew_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/skew"
)

// show is a process that prints its clock readings.
type show struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
	pid int
}

func run(t *testing.T, cmd *exec.Cmd) *show {
	t.Helper()
	cmd.Stderr = os.Stderr
	in, out := harness.Start(t, cmd)
	t.Cleanup(func() {
		_ = in.Close() // it ends
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &show{t, in, bufio.NewScanner(out), cmd.Process.Pid}
}

// ahead is how far the clocks of the process are ahead of the machine's.
func (s *show) ahead() (boot, mono time.Duration) {
	s.t.Helper()
	for range 100 {
		before := machine(s.t)
		if _, err := fmt.Fprintln(s.in); err != nil {
			s.t.Fatal(err)
		}
		if !s.out.Scan() {
			s.t.Fatalf("the process has ended: %v", s.out.Err())
		}
		after := machine(s.t)
		var b, m int64
		if _, err := fmt.Sscan(s.out.Text(), &b, &m); err != nil {
			s.t.Fatalf("%q: %v", s.out.Text(), err)
		}
		boot, mono = time.Duration(b-(before[0]+after[0])/2), time.Duration(m-(before[1]+after[1])/2)
		if after[0]-before[0] < int64(exact) {
			return boot, mono
		}
	}
	s.t.Fatalf("no answer within %v", exact)
	return 0, 0
}

// exact is the precision of that.
const exact = 5 * time.Millisecond

func machine(t *testing.T) (now [2]int64) {
	t.Helper()
	for i, clock := range []int32{unix.CLOCK_BOOTTIME, unix.CLOCK_MONOTONIC} {
		var ts unix.Timespec
		if err := unix.ClockGettime(clock, &ts); err != nil {
			t.Fatal(err)
		}
		now[i] = ts.Nano()
	}
	return now
}

// reads fails the test unless the process's clocks are ahead by that much.
func (s *show) reads(what string, wantBoot, wantMono time.Duration) {
	s.t.Helper()
	boot, mono := s.ahead()
	if (boot-wantBoot).Abs() > exact || (mono-wantMono).Abs() > exact {
		s.t.Errorf("%s: ahead by %v and %v; want %v and %v", what, boot, mono, wantBoot, wantMono)
	}
}

func newClock(t *testing.T) *skew.Clock {
	t.Helper()
	c, err := skew.New(filepath.Join(t.TempDir(), "clock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestClock(t *testing.T) {
	long.Test(t, "it builds programs and bends their clocks")
	c := newClock(t)
	cmd := exec.Command(harness.Build(t, "./show", "chaos"))
	cmd.Env = append(os.Environ(), c.Env())
	s := run(t, cmd)
	s.reads("at first", 0, 0)
	c.StepBoth(time.Hour)
	s.reads("an hour ahead", time.Hour, time.Hour)
	c.StepBoth(-2 * time.Hour)
	s.reads("an hour back", -time.Hour, -time.Hour)
	c.Suspend(time.Minute)
	s.reads("after a minute's sleep", -time.Hour, -time.Hour-time.Minute)
	c.Reset()
	s.reads("reset", 0, 0)

	begun := machine(t)
	c.Rate(10)
	fast := func(want time.Duration) time.Duration {
		t.Helper()
		for late := time.After(30 * time.Second); ; {
			boot, mono := s.ahead()
			// One is read after the other, and both run at ten times the rate between.
			if (boot - mono).Abs() > 10*exact {
				t.Fatalf("ahead by %v and %v: the clocks have come apart", boot, mono)
			}
			if boot >= want {
				return boot
			}
			select {
			case <-late:
				t.Fatalf("ahead by %v; want %v", boot, want)
			default:
			}
		}
	}
	gained := fast(200 * time.Millisecond)
	if took := time.Duration(machine(t)[0] - begun[0]); gained > 9*took+exact {
		t.Errorf("gained %v in %v at ten times the rate", gained, took)
	}
	c.Rate(1)
	wantBoot, wantMono := c.Ahead()
	if wantBoot < gained-exact {
		t.Errorf("the clock is ahead by %v, and its reader was by %v", wantBoot, gained)
	}
	s.reads("true again", wantBoot, wantMono)
	c.Rate(0.01)
	for late := time.After(30 * time.Second); ; {
		if boot, _ := s.ahead(); boot < 0 {
			break
		}
		select {
		case <-late:
			t.Fatal("a slow clock does not fall behind")
		default:
		}
	}
}

// TestClockOfOthers: a process without a clock of its own, and a build without the tag, read those
// of the machine.
func TestClockOfOthers(t *testing.T) {
	c := newClock(t)
	c.StepBoth(time.Hour)
	run(t, exec.Command(harness.Build(t, "./show", "chaos"))).reads("none in its environment", 0, 0)
	cmd := exec.Command(harness.Build(t, "./show"))
	cmd.Env = append(os.Environ(), c.Env())
	run(t, cmd).reads("built without the tag", 0, 0)
}

// TestClockThatIsNone: a process with an unreadable clock does not run by another.
func TestClockThatIsNone(t *testing.T) {
	cmd := exec.Command(harness.Build(t, "./show", "chaos"))
	cmd.Env = append(os.Environ(), "ELECT_CHAOS_CLOCK="+filepath.Join(t.TempDir(), "none"))
	cmd.Stdin = strings.NewReader("\n")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "clock: ELECT_CHAOS_CLOCK: open") {
		t.Errorf("%v, with\n%s", err, out)
	}
}

// TestRateThatIsNone: clocks do not stop.
func TestRateThatIsNone(t *testing.T) {
	c := newClock(t)
	defer func() {
		if recover() == nil {
			t.Error("a rate of 0 was taken")
		}
	}()
	c.Rate(0)
}

func TestTimeNamespace(t *testing.T) {
	able(t)
	if skew.Offsets() != 0 {
		t.Skip("SKIPPED: this test runs in a time namespace itself")
	}
	program := harness.Build(t, "./show", "chaos")
	cmd := skew.TimeNamespace(exec.Command(program), time.Hour, 2*time.Hour)
	s := run(t, cmd)
	s.reads("in a namespace", time.Hour, 2*time.Hour)
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.pid)); err != nil || exe != program {
		t.Errorf("the process is %s, %v; want %s", exe, err, program)
	}

	c := newClock(t)
	cmd = skew.TimeNamespace(exec.Command(program), -time.Second, time.Hour)
	cmd.Env = append(os.Environ(), c.Env())
	s = run(t, cmd)
	s.reads("in a namespace, with a clock", -time.Second, time.Hour)
	c.StepBoth(time.Minute)
	s.reads("in a namespace, stepped", time.Minute-time.Second, time.Hour+time.Minute)
	c.Rate(1.5)
	boot, mono := s.ahead()
	const slack = 100 * time.Millisecond // two clocks are read, one after the other
	if most := 10 * time.Second; boot < time.Minute-time.Second-slack || boot > time.Minute+most || mono < time.Hour+time.Minute-slack || mono > time.Hour+time.Minute+most {
		t.Errorf("faster since just now: ahead by %v and %v: a change of the rate was a step", boot, mono)
	}
}

// TestOffsetsWithin asks a process in a time namespace for its offsets.
func TestOffsetsWithin(t *testing.T) {
	const child = "SKEW_TEST_CHILD"
	if os.Getenv(child) != "" {
		fmt.Println("offset", skew.Offsets())
		return
	}
	able(t)
	cmd := skew.TimeNamespace(exec.Command(os.Args[0], "-test.run=^TestOffsetsWithin$"), time.Hour, 0)
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.CombinedOutput()
	if want := fmt.Sprintln("offset", skew.Offsets()+time.Hour); err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: %s; want %s", err, out, want)
	}
}

func able(t *testing.T) {
	t.Helper()
	if err := skew.Able(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED, and so nothing was tested in time namespaces: %v", err)
	}
}

// TestNothingIsLeft: an ordinary build of the command has none of the code for tests.
func TestNothingIsLeft(t *testing.T) {
	long.Test(t, "it builds programs")
	marks := []string{"ELECT_CHAOS_CLOCK", "ELECT_MUTANT", "electd/elect/internal/mutation.", "internal/clock/warp.", "internal/mutant.On"}
	in := func(path string) (found []string) {
		t.Helper()
		program, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, mark := range marks {
			if strings.Contains(string(program), mark) {
				found = append(found, mark)
			}
		}
		return found
	}
	const command = "../../../cmd/elect"
	if found := in(harness.Build(t, command)); len(found) != 0 {
		t.Errorf("an ordinary build has %q", found)
	}
	if found := in(harness.Build(t, command, "chaos", "mutants")); len(found) < len(marks)-1 { // what is small is part of its callers
		t.Errorf("a test's build has %q only, of %q", found, marks)
	}
}
