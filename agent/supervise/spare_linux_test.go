package supervise_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/proc"
)

func prepare(t testing.TB) *supervise.Spare {
	t.Helper()
	s, err := supervise.Prepare(levelOfEnv(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSpare(t *testing.T) {
	lock := flocked(t)
	out, lines := listen(t)
	cmd := shell("echo $PPID; exec sleep 100")
	cmd.Spare = prepare(t)
	cmd.Stdout = out
	cmd = cmd.With(supervise.Held{Hold: []*os.File{lock}})
	want := cmd.Spare.PID()
	f := start(t, cmd)
	if f.Keeper() != want {
		t.Errorf("the keeper is %d, want the spare, %d", f.Keeper(), want)
	}
	if s, _ := proc.Read(f.PID()); !lines.Scan() || s.Parent != want {
		t.Errorf("the command says that its parent is %s, want %d", lines.Text(), want)
	}
	cmd.Spare.Close() // is none any more
	if got := f.Stop(t.Context()); got.Reason != supervise.Stopped {
		t.Error(got)
	}
	if !free(t, lock.Name()) {
		t.Error("the lock was not let go")
	}
	if f = start(t, cmd); f.Keeper() == want {
		t.Error("a spare was used twice")
	}
}

func TestSpareIsOfNoUse(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, c *supervise.Command){
		"closed": func(_ *testing.T, c *supervise.Command) { c.Spare.Close() },
		"killed": func(t *testing.T, c *supervise.Command) {
			pid := c.Spare.PID()
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the spare is dead", func() bool { return !alive(pid) })
		},
		"too many files": func(t *testing.T, c *supervise.Command) {
			*c = c.With(supervise.Held{Hold: slices.Repeat([]*os.File{flocked(t)}, 40)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := shell("exit 3")
			cmd.Spare = prepare(t)
			pid := cmd.Spare.PID()
			spoil(t, &cmd)
			if exit := wait(t, start(t, cmd)); exit != (supervise.Exit{Reason: supervise.Exited, Code: 3}) {
				t.Errorf("%v, want exit status 3", exit)
			}
			eventually(t, "the spare is gone", func() bool { return !alive(pid) })
		})
	}
}

// TestSpareAndFailedStart uses up the spare, and leaves nothing behind.
func TestSpareAndFailedStart(t *testing.T) {
	s := prepare(t)
	pid := s.PID()
	if _, err := supervise.Start(t.Context(), supervise.Command{Path: "/etc/passwd", Spare: s}); err == nil || !strings.Contains(err.Error(), "not executable") {
		t.Errorf("%v, want that it is not executable", err)
	}
	eventually(t, "the spare is gone", func() bool { return !alive(pid) })
}

// TestSpareDiesWithItsParent has the parent killed before it needed the spare.
func TestSpareDiesWithItsParent(t *testing.T) {
	path := openDir(t) + "/board"
	if err := os.WriteFile(path, make([]byte, 8192), 0o666); err != nil {
		t.Fatal(err)
	}
	b, err := openBoard(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := startPart(t, program(t), "spare", nil, "board="+path)
	eventually(t, "there is a spare", func() bool { return b.Keeper.Load() != 0 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the spare is gone", func() bool { return !alive(int(b.Keeper.Load())) })
}

// spare waits, with a spare keeper.
func spare(args []string) {
	b, err := openBoard(parseArgs(args)["board"])
	check(err)
	check(supervise.AdoptOrphans())
	s, err := supervise.Prepare(nil, nil)
	check(err)
	b.Keeper.Store(int64(s.PID()))
	<-context.Background().Done()
}
