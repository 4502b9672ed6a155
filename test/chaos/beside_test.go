//go:build linux

package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/disk"
)

// beside is what goes on beside an election of three elect run, and must not touch it.
type beside struct {
	name  string
	flags []string              // of elect run
	begin func(s *surroundings) // when there is a leader
	mute  bool                  // stderr is a pipe that is full, and that nobody reads
	bombs bool                  // health commands fork until they are refused
	full  bool                  // the data directories are on a file system that is full
}

func besides() []beside {
	http := []string{"--http", "unix:@DIR/@ID.sock"}
	// The first run ends, so that the candidate stands; later ones go on until they are killed.
	health := func(then string) []string {
		return append([]string{"--health-every", "1s", "--health-timeout", "2s", "--health-failures", "1000000",
			"--health-command", "[ -e @DIR/@ID.well ] || { touch @DIR/@ID.well; exit; }; " + then}, http...)
	}
	return []beside{
		{name: "HTTP and health, all well", flags: health("true")},
		{name: "a scraper that hangs", flags: http, begin: func(s *surroundings) {
			for range 8 {
				s.deaf("/leader", "/metrics", "/v1/elections/job", "/v1/elections/job/watch")
			}
		}},
		{name: "1,000 slow watchers", flags: http, begin: func(s *surroundings) {
			for range 334 { // of each of three nodes
				s.deaf("/v1/elections/job/watch")
			}
		}},
		{name: "a log that blocks", flags: []string{"--verbose"}, mute: true},
		{name: "a full disk", full: true},
		{name: "a health command that never returns", flags: health("sleep 1000000")},
		{name: "a health command that forks bombs", bombs: true, flags: health("echo $$ > @PIDS/tasks && echo $$ > @CPU/tasks || exit 0; bomb() { bomb | bomb & wait; }; bomb")},
	}
}

// TestNothingTouchesTheElection measures takeovers with each of these things beside an election, and in turns those of
// one with nothing beside it: from just before SIGKILL to the command until the next one writes down its time. It says
// the medians, and fails where they are far apart.
func TestNothingTouchesTheElection(t *testing.T) {
	long.Full(t, "it takes minutes")
	if os.Geteuid() != 0 {
		unable(t, fmt.Errorf("%w: a full disk and a bounded fork bomb are for root", disk.ErrUnable), disk.ErrUnable)
	}
	rounds := number(t, "ELECT_CHAOS_ROUNDS", 15)
	programs := builder(t)()
	for _, b := range besides() {
		t.Run(b.name, func(t *testing.T) {
			both := [2]*surroundings{surround(t, beside{name: "nothing"}, programs), surround(t, b, programs)}
			for round := range rounds + 1 {
				for _, s := range both {
					took := s.takeover()
					if round > 0 { // the first one finds pages that are not in memory
						s.took = append(s.took, took)
					}
				}
			}
			without, with := both[0].median(), both[1].median()
			t.Logf("%s: median %.1f ms, most %.1f; without %.1f, %.1f; %.2f times; %d and %d terms ended by themselves", b.name, ms(with), ms(slices.Max(both[1].took)),
				ms(without), ms(slices.Max(both[0].took)), float64(with)/float64(without), both[1].lost, both[0].lost)
			if with > without*3/2+promise/16 {
				t.Errorf("a takeover takes %v; want about %v, as with nothing", with, without)
			}
			if text, err := os.ReadFile(filepath.Join(both[1].pids, "pids.events")); b.bombs && (err != nil || strings.TrimSpace(string(text)) == "max 0") {
				t.Errorf("no fork was refused, so there was no bomb: %s%v", text, err)
			}
		})
	}
}

func (s *surroundings) median() time.Duration {
	return slices.Sorted(slices.Values(s.took))[len(s.took)/2]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// surroundings is one election with what goes on beside it.
type surroundings struct {
	beside
	t     *testing.T
	dir   string
	began int // commands that have begun
	pid   int // of the last one
	at    time.Time
	took  []time.Duration
	pids  string // the control group of bombs
	lost  int    // terms that ended by themselves
}

func surround(t *testing.T, b beside, programs cluster.Programs) *surroundings {
	t.Helper()
	s := &surroundings{beside: b, t: t, dir: t.TempDir()}
	data := filepath.Join(s.dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if b.full {
		if err := unix.Mount("elect-test", data, "tmpfs", 0, "size=2m,mode=700"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(data, unix.MNT_DETACH) })
	}
	s.pids = s.bounded("pids", "pids.max", "64")
	place := strings.NewReplacer("@DIR", s.dir, "@PIDS", s.pids, "@CPU", s.bounded("cpu", "cpu.cfs_quota_us", "20000"))
	url := harness.FreePeers(t, 3) + "?data=" + data
	for i := range 3 {
		id := fmt.Sprintf("n%d", i+1)
		args := []string{"run", "--election", url, "--name", "job", "--id", id}
		for _, f := range b.flags {
			args = append(args, strings.ReplaceAll(place.Replace(f), "@ID", id))
		}
		args = append(args, "--", "sh", "-c", `echo $$ $(date +%s%N) >> "$BEGAN"; exec sleep 1000000`)
		cmd := exec.Command(programs.Elect, args...)
		cmd.Env = append(os.Environ(), "BEGAN="+filepath.Join(s.dir, "began"), "XDG_STATE_HOME="+s.dir, "HOME="+s.dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if b.mute {
			cmd.Stderr = s.fullPipe()
		} else if log, err := os.Create(filepath.Join(s.dir, id+".log")); err != nil {
			t.Fatal(err)
		} else {
			defer log.Close()
			cmd.Stderr = log
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // gently, because what a health command has started outlives an elect run that is killed
			defer time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }).Stop()
			_ = cmd.Process.Signal(unix.SIGTERM)
			_ = cmd.Wait()
		})
	}
	s.next()
	if b.full {
		s.fill(data)
	}
	if b.begin != nil {
		b.begin(s)
	}
	return s
}

// next waits for the next command.
func (s *surroundings) next() {
	s.t.Helper()
	harness.Eventually(s.t, s.name+": a leader", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.dir, "began"))
		lines := bytes.Split(text, []byte{'\n'})
		if len(lines)-1 <= s.began {
			return false
		}
		pid, at, _ := strings.Cut(string(lines[len(lines)-2]), " ")
		began, err := strconv.ParseInt(at, 10, 64)
		if s.pid, _ = strconv.Atoi(pid); err != nil || s.pid < 2 {
			s.t.Fatalf("%s: %q began; want a process and a time", s.name, lines[len(lines)-2])
		}
		s.began, s.at = len(lines)-1, time.Unix(0, began)
		return true
	})
}

func (s *surroundings) takeover() time.Duration {
	s.t.Helper()
	for {
		begin := time.Now()
		err := unix.Kill(s.pid, unix.SIGKILL)
		s.next()
		if err == nil {
			return s.at.Sub(begin)
		}
		s.lost++ // a term has ended by itself, as on a busy computer
	}
}

// deaf asks each node for paths, and reads no answer.
func (s *surroundings) deaf(paths ...string) {
	s.t.Helper()
	for i := range 3 {
		for _, path := range paths {
			c, err := net.Dial("unix", filepath.Join(s.dir, fmt.Sprintf("n%d.sock", i+1)))
			if err != nil {
				s.t.Fatal(err)
			}
			s.t.Cleanup(func() { _ = c.Close() })
			if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// fullPipe is the writing end of a pipe that is full and stays so.
func (s *surroundings) fullPipe() *os.File {
	s.t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		s.t.Fatal(err)
	}
	var err error
	for chunk := make([]byte, 4096); err == nil; {
		_, err = unix.Write(ends[1], chunk)
	}
	if !errors.Is(err, unix.EAGAIN) {
		s.t.Fatal(err)
	}
	if err := unix.SetNonblock(ends[1], false); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = unix.Close(ends[0]) })
	f := os.NewFile(uintptr(ends[1]), "full pipe")
	s.t.Cleanup(func() { _ = f.Close() })
	return f
}

// fill leaves no space in a directory.
func (s *surroundings) fill(dir string) {
	s.t.Helper()
	f, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	for chunk := make([]byte, 4096); err == nil; {
		_, err = f.Write(chunk)
	}
	if !errors.Is(err, unix.ENOSPC) {
		s.t.Fatal(err)
	}
}

// bounded makes a control group with one bound, so that this machine survives, and returns its path.
func (s *surroundings) bounded(controller, file, most string) string {
	s.t.Helper()
	dir, err := os.MkdirTemp(filepath.Join("/sys/fs/cgroup", controller), "elect-test-")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, file), []byte(most), 0)
	}
	if err != nil {
		unable(s.t, fmt.Errorf("%w: %w", disk.ErrUnable, err), disk.ErrUnable)
	}
	s.t.Cleanup(func() { s.clear(dir) })
	return dir
}

// clear kills what is in a control group, and removes it.
func (s *surroundings) clear(dir string) {
	harness.Eventually(s.t, "an end of "+dir, func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "tasks"))
		for pid := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(pid); err == nil {
				_ = unix.Kill(n, unix.SIGKILL)
			}
		}
		return os.Remove(dir) == nil
	})
}
