//go:build linux

package file_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencefile"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/place"
)

// envJob is the job of a process that works on a disk for the test: the server of the disk must not
// use it itself.
const envJob = "FENCEFILE_JOB"

// job is what it is to do, on the file "value" or the marks of "r" in a directory.
type job struct {
	Do      string // install, claim, replace, raise, state, unsynced, unnamed
	Dir     string
	Token   fence.Token
	Content string
	Stop    int // before which operation it waits until it may go on; negative: none
}

// report is the output of a process: where it waits, or the result.
type report struct {
	At         string // an operation
	Operations int

	Err            string
	Stale, Unknown bool

	// The state.
	Mark, Raised fence.Token
	Content      string
}

// work does one job.
func work(text string) int {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return 64
	}
	out, in := json.NewEncoder(os.Stdout), bufio.NewReader(os.Stdin)
	var r report
	ctx := place.WithTrace(context.Background(), func(operation string) error {
		if r.Operations == j.Stop {
			_ = out.Encode(report{At: operation})
			if _, err := in.ReadString('\n'); err != nil {
				os.Exit(1)
			}
		}
		r.Operations++
		return nil
	})
	if err := j.do(ctx, &r); err != nil {
		r.Err, r.Stale, r.Unknown = err.Error(), errors.Is(err, fence.ErrStale), errors.Is(err, fence.ErrUnknownOutcome)
	}
	if out.Encode(r) != nil {
		return 1
	}
	return 0
}

func (j job) do(ctx context.Context, r *report) error {
	path := filepath.Join(j.Dir, "value")
	guard, err := fencefile.New(path, fencefile.Config{})
	if err != nil {
		return err
	}
	switch j.Do {
	case "install":
		return guard.Install(ctx)
	case "claim":
		return guard.Claim(ctx, j.Token)
	case "replace":
		return guard.Write(ctx, j.Token, func(w io.Writer) error {
			for part := range strings.SplitAfterSeq(j.Content, "\n") {
				if _, err := io.WriteString(w, part); err != nil {
					return err
				}
			}
			return nil
		})
	case "unsynced", "unnamed":
		return j.careless(ctx)
	}
	mark, err := fencefile.NewMark(j.Dir, fencefile.Config{})
	if err != nil {
		return err
	}
	switch j.Do {
	case "add":
		return mark.Install(ctx, "r")
	case "raise":
		return mark.Raise(ctx, "r", j.Token)
	}
	var s fencefile.State
	if s, err = guard.Status(ctx); err != nil && !errors.Is(err, fence.ErrResource) {
		return err
	}
	r.Mark = s.Highest
	if r.Raised, err = mark.Highest(ctx, "r"); err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	r.Content = string(b)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return err
}

// careless raises the mark of "r" as many programs replace files: without a sync of the
// content, or of the directory.
func (j job) careless(ctx context.Context) error {
	elsewhere, err := os.MkdirTemp("", "careless-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(elsewhere)
	mark, err := fencefile.NewMark(elsewhere, fencefile.Config{})
	if err != nil {
		return err
	}
	if err := errors.Join(mark.Install(ctx, "r"), mark.Raise(ctx, "r", j.Token)); err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(elsewhere, "mark-r"))
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(j.Dir, "new-r"))
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		return err
	}
	if j.Do == "unnamed" {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := os.Rename(f.Name(), filepath.Join(j.Dir, "mark-r")); err != nil {
		return err
	}
	if j.Do == "unnamed" {
		return nil
	}
	dir, err := os.Open(j.Dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// hand is a process with a job.
type hand struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *json.Decoder
}

func start(t *testing.T, j job) *hand {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	h := &hand{t: t, cmd: exec.Command("/proc/self/exe")}
	h.cmd.Env = append(os.Environ(), envJob+"="+string(text))
	h.cmd.Stderr = os.Stderr
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, out := harness.Start(t, h.cmd)
	h.stdin, h.out = in, json.NewDecoder(out)
	return h
}

// next returns the next report.
func (h *hand) next() report {
	h.t.Helper()
	var r report
	if err := h.out.Decode(&r); err != nil {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
		h.t.Fatalf("the process that works has gone: %v", err)
	}
	return r
}

func (h *hand) goOn() report {
	h.t.Helper()
	if _, err := fmt.Fprintln(h.stdin); err != nil {
		h.t.Fatal(err)
	}
	return h.next()
}

// end waits for it, or kills it.
func (h *hand) end(kill bool) {
	if kill {
		_ = h.cmd.Process.Kill()
	}
	_ = h.cmd.Wait()
}

// run does a job to its end.
func run(t *testing.T, j job) report {
	t.Helper()
	j.Stop = -1
	h := start(t, j)
	defer h.end(false)
	return h.next()
}

// must runs a job that must succeed.
func must(t *testing.T, j job) report {
	t.Helper()
	r := run(t, j)
	if r.Err != "" {
		t.Fatalf("%+v: %s", j, r.Err)
	}
	return r
}
