//go:build linux

package file_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencefile"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/place"
	"github.com/electd/elect/test/fencing/zombie"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(envJob); job != "" {
		os.Exit(work(job))
	}
	zombie.Main(m, map[string]zombie.Opener{
		"guarded":     opener(guarded),
		"looks-first": opener(looksFirst),
		"bare":        opener(bare),
	})
}

// register is a file with a number in it.
type register struct {
	path  string
	guard *fencefile.Guard
	steps *zombie.Steps
	write func(context.Context, *register, fence.Token, int64) error
}

func opener(write func(context.Context, *register, fence.Token, int64) error) zombie.Opener {
	return func(_ context.Context, where string, steps *zombie.Steps) (zombie.Resource, error) {
		guard, err := fencefile.New(where, fencefile.Config{})
		return &register{where, guard, steps, write}, err
	}
}

// stepped makes each operation on the file system a step.
func (r *register) stepped(ctx context.Context) context.Context {
	return place.WithTrace(ctx, func(string) error {
		r.steps.Step()
		return nil
	})
}

func (r *register) Claim(ctx context.Context, token fence.Token) error {
	return r.guard.Claim(r.stepped(ctx), token)
}

func (r *register) Read(context.Context) (int64, error) {
	r.steps.Step()
	return read(r.path)
}

func read(path string) (int64, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(b), 10, 64)
}

func (r *register) Write(ctx context.Context, token fence.Token, value int64) error {
	return r.write(ctx, r, token, value)
}

func (r *register) Close() error { return nil }

func guarded(ctx context.Context, r *register, token fence.Token, value int64) error {
	return r.guard.Write(r.stepped(ctx), token, func(w io.Writer) error {
		_, err := fmt.Fprint(w, value)
		return err
	})
}

// looksFirst is unsafe: a claim comes between the look and the rename.
func looksFirst(ctx context.Context, r *register, token fence.Token, value int64) error {
	s, err := r.guard.Status(r.stepped(ctx))
	if err != nil {
		return err
	}
	if token < s.Highest {
		return &fence.StaleError{Shown: token, Highest: s.Highest}
	}
	return bare(ctx, r, token, value)
}

func bare(_ context.Context, r *register, token fence.Token, value int64) error {
	r.steps.Step()
	temp := r.path + ".bare." + token.String()
	if err := os.WriteFile(temp, []byte(strconv.FormatInt(value, 10)), 0o600); err != nil {
		return err
	}
	r.steps.Step()
	return os.Rename(temp, r.path)
}

func stage(t *testing.T, name string) zombie.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "value")
	guard, err := fencefile.New(path, fencefile.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return zombie.Config{
		Opener: name, Where: path, Wait: 500 * time.Millisecond,
		Read: func(context.Context) (int64, error) { return read(path) },
	}
}

// TestZombie: a leader that is frozen before any operation of its claim and its write changes
// nothing afterwards. If it holds the lock, the newer one waits.
func TestZombie(t *testing.T) {
	long.Test(t, "it freezes real processes before each step of a write")
	t.Parallel()
	r := zombie.Prove(t, stage(t, "guarded"))
	if r.Waited == 0 || r.Waited == r.Plays {
		t.Errorf("the newer leader waited in %d of %d plays; want it to, where the older one has the lock", r.Waited, r.Plays)
	}
}

// TestUnsafe: to read the mark first and rename afterwards is no fencing.
func TestUnsafe(t *testing.T) {
	long.Test(t, "it freezes real processes before each step of a write")
	t.Parallel()
	for _, name := range []string{"looks-first", "bare"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zombie.Disprove(t, stage(t, name))
		})
	}
}
