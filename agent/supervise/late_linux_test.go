package supervise_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
)

// The load of BenchmarkDeadline: processes that compute, and such that read all of
// /proc again and again, half of them with the lowest priority. They share a
// session with the keepers, as the processes of a service or of a storm do, and
// rest while no deadline is near.
const (
	lateSpinners = 24
	lateReaders  = 8
	lateFamilies = 3 // at a time
)

// BenchmarkDeadline is how late a keeper kills: from the deadline that it was told
// to the last sign of life of the command, and of a descendant that ignores all
// signals and has left the session. An iteration is three families, with deadlines
// some 50 ms apart; -benchtime 34x makes 102 kills of each case. The load is there
// until all of them are dead, and not while the next ones start. On a machine that
// is busy with something else, too, an iteration may take 10 s.
func BenchmarkDeadline(b *testing.B) {
	for _, load := range []string{"idle", "busy"} {
		b.Run(load, func(b *testing.B) {
			b.Run("as=me", func(b *testing.B) { benchmarkDeadline(b, load == "busy", nil) })
			if os.Getuid() == 0 {
				b.Run("as=ordinary", func(b *testing.B) {
					benchmarkDeadline(b, load == "busy", &syscall.Credential{Uid: nobody, Gid: nobody})
				})
			}
		})
	}
}

func benchmarkDeadline(b *testing.B, busy bool, as *syscall.Credential) {
	exe, dir := program(b), openDir(b)
	path := filepath.Join(dir, "boards")
	if err := os.WriteFile(path, make([]byte, 8192*(1+lateFamilies)), 0o666); err != nil {
		b.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		b.Fatal(err)
	}
	if busy {
		for n := range lateSpinners + lateReaders {
			part := "spin"
			if n >= lateSpinners {
				part = "readproc"
			}
			startPart(b, exe, part, nil, "board="+path, "nice="+strconv.Itoa(19*(n%2)))
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	in, to, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer to.Close()
	startPartWithFiles(b, exe, "late", as, in, w, "board="+path)
	in.Close()
	w.Close()
	lines := bufio.NewScanner(r)
	var command, other []time.Duration
	for b.Loop() {
		if _, err := to.WriteString("\n"); err != nil {
			b.Fatal(err)
		}
		for range lateFamilies {
			if !lines.Scan() {
				b.Fatalf("the parent of the families has ended: %v", lines.Err())
			}
			var c, o int64
			if _, err := fmt.Sscan(lines.Text(), &c, &o); err != nil {
				b.Fatalf("%q: %v", lines.Text(), err)
			}
			command, other = append(command, time.Duration(c)), append(other, time.Duration(o))
		}
	}
	for _, m := range []struct {
		name string
		took []time.Duration
	}{{"command", command}, {"other", other}} {
		slices.Sort(m.took)
		at := func(share float64) float64 {
			return m.took[int(share*float64(len(m.took)-1))].Seconds() * 1000
		}
		b.ReportMetric(at(0.5), "ms-median-"+m.name)
		b.ReportMetric(at(0.9), "ms-p90-"+m.name)
		b.ReportMetric(at(1), "ms-worst-"+m.name)
	}
	late := 0
	for _, d := range other {
		if d > 20*time.Millisecond {
			late++
		}
	}
	b.ReportMetric(float64(late), "later-than-20ms")
	b.ReportMetric(float64(len(other)), "kills")
	b.ReportMetric(0, "ns/op")
}

// startPartWithFiles is startPart with a standard input and output.
func startPartWithFiles(t testing.TB, exe, part string, as *syscall.Credential, in, out *os.File, args ...string) {
	t.Helper()
	process, err := os.StartProcess(exe, append([]string{part}, args...), &os.ProcAttr{
		Env: partEnv(part), Files: []*os.File{in, out, os.Stderr},
		Sys: &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Kill()
		_, _ = process.Wait()
	})
}

// openBoards opens the boards of BenchmarkDeadline: the first is the load's, the
// others are the families'.
func openBoards(path string) ([]*board, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	data, err := unix.Mmap(fd, 0, 8192*(1+lateFamilies), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	var all []*board
	for n := range 1 + lateFamilies {
		all = append(all, (*board)(unsafe.Pointer(&data[8192*n])))
	}
	return all, nil
}

// late runs families with a deadline, as many rounds as it reads lines, and writes
// for each family how much later than that its command and its other member lived.
func late(args []string) {
	a := parseArgs(args)
	all, err := openBoards(a["board"])
	check(err)
	load, boards := all[0], all[1:]
	rounds := bufio.NewScanner(os.Stdin)
	for rounds.Scan() {
		var families []*supervise.Family
		for n, b := range boards {
			*b = board{}
			f, err := supervise.Start(context.Background(), supervise.Command{
				Path: selfExe(), Args: []string{"latecommand", "board=" + a["board"], "family=" + strconv.Itoa(n)}, Env: partEnv("latecommand"), Stderr: os.Stderr,
			})
			check(err)
			families = append(families, f)
		}
		for n, b := range boards {
			for b.Members[0].Alive.Load() == 0 || b.Members[1].Alive.Load() == 0 {
				if families[n].Gone() {
					check(fmt.Errorf("a family ended before its deadline: %+v", families[n].Wait()))
				}
				time.Sleep(time.Millisecond)
			}
		}
		var deadlines []clock.Boot
		at := clock.Now().Add(300 * time.Millisecond)
		for _, f := range families {
			at = at.Add(30*time.Millisecond + rand.N(40*time.Millisecond))
			f.Deadline(at)
			deadlines = append(deadlines, at)
		}
		load.Hurry.Store(1)
		for _, b := range boards {
			for alive(int(b.Members[0].PID.Load())) || alive(int(b.Members[1].PID.Load())) {
				time.Sleep(10 * time.Millisecond)
			}
		}
		load.Hurry.Store(0)
		for _, f := range families {
			f.Wait()
		}
		for n, b := range boards {
			fmt.Println(b.Members[0].Alive.Load()-int64(deadlines[n]), b.Members[1].Alive.Load()-int64(deadlines[n]))
		}
	}
}

// lateCommand is the command of such a family.
func lateCommand(args []string) {
	a := parseArgs(args)
	n, err := strconv.Atoi(a["family"])
	check(err)
	all, err := openBoards(a["board"])
	check(err)
	deafen()
	if a["place"] == "" {
		_, err := syscall.ForkExec(selfExe(), append(slices.Clone(os.Args), "place=1"), &syscall.ProcAttr{
			Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
		})
		check(err)
		all[1+n].Members[0].live()
	}
	all[1+n].Members[1].live()
}

// spin computes, while it is told to.
func spin(args []string) {
	strain(args, func() {})
}

// readProc reads what there is to be read of all processes, while it is told to.
func readProc(args []string) {
	runtime.LockOSThread() // nice is a thread's
	nice, err := strconv.Atoi(parseArgs(args)["nice"])
	check(err)
	if nice != 0 {
		check(unix.Setpriority(unix.PRIO_PROCESS, 0, nice))
	}
	strain(args, func() {
		dirs, _ := os.ReadDir("/proc")
		for _, d := range dirs {
			if strings.Trim(d.Name(), "0123456789") != "" {
				continue
			}
			for _, name := range []string{"stat", "status", "task/" + d.Name() + "/children", "task/" + d.Name() + "/stat"} {
				_, _ = os.ReadFile("/proc/" + d.Name() + "/" + name)
			}
		}
	})
}

// strain does something again and again while the board says so. It ends with its
// parent, and in the end by itself.
func strain(args []string, do func()) {
	b, err := openBoard(parseArgs(args)["board"])
	check(err)
	for end := clock.Now().Add(10 * time.Minute); clock.Now() < end; {
		if b.Hurry.Load() == 0 {
			ts := unix.NsecToTimespec(1_000_000)
			_ = unix.Nanosleep(&ts, nil)
			continue
		}
		do()
	}
}
