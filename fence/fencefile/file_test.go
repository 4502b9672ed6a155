//go:build linux || darwin || freebsd

package fencefile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/place"
)

// guarded is the guard of a file whose path is right.
func guarded(path string) *Guard {
	g, err := New(path, Config{})
	if err != nil {
		panic(err)
	}
	return g
}

// traced is [place.WithTrace] for a function that has nothing fail.
func traced(ctx context.Context, before func(string)) context.Context {
	return place.WithTrace(ctx, func(operation string) error {
		before(operation)
		return nil
	})
}

func installed(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a file")
	if err := guarded(path).Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return path
}

func replace(ctx context.Context, path string, token fence.Token, content string) error {
	g, err := New(path, Config{})
	if err != nil {
		return err
	}
	return g.Write(ctx, token, func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	})
}

func want(t *testing.T, path, content string, mark fence.Token) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) || string(b) != content {
		t.Errorf("%.100q, %v; want %q", b, err, content)
	}
	if s, err := guarded(path).Status(t.Context()); err != nil || s.Highest != mark {
		t.Errorf("the mark is %v, %v; want %v", s.Highest, err, mark)
	}
}

func names(t *testing.T, path string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, ", ")
}

func TestReplace(t *testing.T) {
	path := installed(t)
	want(t, path, "", 0)
	for _, do := range []error{
		replace(t.Context(), path, 5, "first"),
		replace(t.Context(), path, 5, "again"),
		guarded(path).Claim(t.Context(), 7),
		guarded(path).Claim(t.Context(), 7),
	} {
		if do != nil {
			t.Fatal(do)
		}
	}
	want(t, path, "again", 7)
	wantStale(t, replace(t.Context(), path, 6, "stale"), 6, 7)
	wantStale(t, guarded(path).Claim(t.Context(), 6), 6, 7)
	want(t, path, "again", 7)
	if err := replace(t.Context(), path, fence.MaxToken, "last"); err != nil {
		t.Fatal(err)
	}
	if err := guarded(path).Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, path, "last", fence.MaxToken) // to install again forgets nothing
	if got := names(t, path); got != "a file, a file.fence, a file.fence.lock" {
		t.Errorf("there are %s", got)
	}
	if err := guarded(path).Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := names(t, path); got != "a file" {
		t.Errorf("there are %s", got)
	}
}

// TestReplaceOvertaken: the content is written for nothing if a later leader has claimed
// meanwhile.
func TestReplaceOvertaken(t *testing.T) {
	path := installed(t)
	err := guarded(path).Write(t.Context(), 5, func(w io.Writer) error {
		if err := guarded(path).Claim(t.Context(), 6); err != nil {
			t.Error(err)
		}
		_, err := io.WriteString(w, "stale")
		return err
	})
	wantStale(t, err, 5, 6)
	want(t, path, "", 6)
	if got := names(t, path); got != "a file.fence, a file.fence.lock" {
		t.Errorf("there are %s", got)
	}
}

func TestReplaceRefuses(t *testing.T) {
	path := installed(t)
	dir := filepath.Dir(path)
	run := func(err error, want error, what string) {
		t.Helper()
		if !errors.Is(err, want) || errors.Is(err, fence.ErrStale) {
			t.Errorf("%s: %v; want %v", what, err, want)
		}
	}
	for token, want := range map[fence.Token]error{0: fence.ErrMissing, 1 << 48: fence.ErrToken, fence.MaxToken + 1: fence.ErrToken} {
		run(replace(t.Context(), path, token, "x"), want, "Write")
		run(guarded(path).Claim(t.Context(), token), want, "Claim")
	}
	for _, other := range []string{path + ".fence", dir + "/", "/"} {
		_, err := New(other, Config{})
		run(err, fence.ErrResource, other)
	}
	other := dir + "/other"
	run(replace(t.Context(), other, 5, "x"), fence.ErrResource, other)
	run(guarded(other).Claim(t.Context(), 5), fence.ErrResource, other)
	run(guarded(other).Uninstall(t.Context()), fence.ErrResource, other)
	_, err := guarded(other).Status(t.Context())
	run(err, fence.ErrResource, other)
	mine := errors.New("the writer's")
	if err := guarded(path).Write(t.Context(), 5, func(io.Writer) error { return mine }); err != mine {
		t.Errorf("%v; want the writer's error", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	run(guarded(path).Write(ctx, 5, func(io.Writer) error { cancel(mine); return nil }), mine, "ended in time")
	want(t, path, "", 0)
	if err := os.Symlink("nowhere", path); err != nil {
		t.Fatal(err)
	}
	if err := replace(t.Context(), path, 5, "x"); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("over a link: %v", err)
	}
	if err := os.Remove(path + ".fence"); err != nil {
		t.Fatal(err)
	}
	run(replace(t.Context(), path, 5, "x"), fence.ErrResource, "a mark that was lost")
	run(guarded(path).Claim(t.Context(), 5), fence.ErrResource, "a mark that was lost")
	if err := os.WriteFile(path+".fence", encode(ownFile, 5)[1:], 0o600); err != nil {
		t.Fatal(err)
	}
	run(replace(t.Context(), path, 5, "x"), ErrDamaged, "a mark that was damaged")
	run(guarded(path).Install(t.Context()), ErrDamaged, "a mark that was damaged")
}

// TestReplaceFails is TestMarkFails for files: the content is the old one or the new one,
// and the new one only with its mark.
func TestReplaceFails(t *testing.T) {
	for _, killed := range []bool{false, true} {
		for _, token := range []fence.Token{5, 6} {
			unknown := 0
			for at := 0; ; at++ {
				path := installed(t)
				if err := replace(t.Context(), path, 5, "old"); err != nil {
					t.Fatal(err)
				}
				n, what := 0, ""
				err := replace(place.WithTrace(t.Context(), func(operation string) error {
					defer func() { n++ }()
					if n == at || killed && n > at {
						what += operation + ", "
						return syscall.ENOSPC
					}
					return nil
				}), path, token, "new")
				if n <= at {
					if at < 10 || err != nil {
						t.Errorf("%d operations, %v", n, err)
					}
					break
				}
				b, _ := os.ReadFile(path)
				s, _ := guarded(path).Status(t.Context())
				state := fmt.Sprint(string(b), " ", s.Highest)
				switch {
				case err == nil && strings.HasPrefix(what, "unlock") && state == fmt.Sprint("new ", token):
				case !errors.Is(err, syscall.ENOSPC):
					t.Errorf("%s: %v", what, err)
				case errors.Is(err, fence.ErrUnknownOutcome):
					unknown++
					if s.Highest != token {
						t.Errorf("%s: %s", what, state)
					}
				case state != "old 5" && state != fmt.Sprint("old ", token):
					t.Errorf("%s: %v, and there is %s", what, err, state)
				}
				if killed {
					if err := os.WriteFile(path+".fence.0000000000000000004.X", nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if err := guarded(path).Claim(t.Context(), 7); err != nil {
					t.Error(err)
				}
				if got := names(t, path); got != "a file, a file.fence, a file.fence.lock" {
					t.Errorf("killed %v, %s: there are %s", killed, what, got)
				}
			}
			if want := int(token) - 4; unknown != want {
				t.Errorf("token %v: the outcome was unknown %d times; want %d", token, unknown, want)
			}
		}
	}
}

// TestErrorsSay what was wrong, of what, and what would be right, in one line.
func TestErrorsSay(t *testing.T) {
	path := installed(t)
	dir := filepath.Dir(path)
	if err := replace(t.Context(), path, 5, "old"); err != nil {
		t.Fatal(err)
	}
	failing := func(operation string, errno error) context.Context {
		return place.WithTrace(t.Context(), func(o string) error {
			if strings.HasPrefix(o, operation) {
				return errno
			}
			return nil
		})
	}
	claim := func(ctx context.Context) error { return guarded(path).Claim(ctx, 6) }
	write := func(ctx context.Context) error { return replace(ctx, path, 5, "new") }
	for _, c := range []struct {
		do              func(context.Context) error
		operation       string
		errno           error
		what, of, right string
	}{
		{write, "write ", syscall.ENOSPC, "no space left on device", ".fence.0000000000000000005.", "want room for"},
		{write, "sync a file", syscall.EDQUOT, "quota exceeded", ".fence.0000000000000000005.", "want room for"},
		{claim, "create ", syscall.ENOSPC, "no space left on device", ".fence.new", "want room for"},
		{write, "create ", syscall.EACCES, "permission denied", ".fence.0000000000000000005.", "want the right to make and remove files in " + dir + ","},
		{write, "rename ", syscall.EPERM, "operation not permitted", path + ":", "want the right to make and remove files in " + dir + ","},
		{claim, "remove ", syscall.EACCES, "permission denied", ".fence.new", "want the right to make and remove files in " + dir + ","},
		{write, "chmod ", syscall.EPERM, "operation not permitted", ".fence.0000000000000000005.", "the owner and the mode of the old one"},
		{claim, "open a file.fence.lock", syscall.EACCES, "permission denied", path + ".fence.lock", "want the user who made it"},
		{claim, "read ", syscall.EACCES, "permission denied", path + ".fence", "want the user who made it"},
		{write, "write ", syscall.EIO, "input/output error", ".fence.0000000000000000005.", ""},
		{write, "create ", syscall.EROFS, "read-only file system", ".fence.0000000000000000005.", ""},
	} {
		err := c.do(failing(c.operation, c.errno))
		if !errors.Is(err, c.errno) || errors.Is(err, fence.ErrUnknownOutcome) {
			t.Errorf("%s: %v; want %v", c.operation, err, c.errno)
			continue
		}
		text := err.Error()
		if !strings.HasPrefix(text, "fencefile: ") || strings.Contains(text, "\n") {
			t.Errorf("%s; want one line that begins with the package", text)
		}
		for _, part := range []string{c.what, c.of, c.right} {
			if !strings.Contains(text, part) {
				t.Errorf("%s; want %q in it", text, part)
			}
		}
		if c.right == "" && strings.Contains(text, "want") {
			t.Errorf("%s; it cannot know what would be right", text)
		}
	}
	want(t, path, "old", 5)
	damage := func(path string) {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	damage(path + ".fence")
	m := newMark(t, dir)
	damage(filepath.Join(dir, "mark-file"))
	_, highest := m.Highest(t.Context(), "file")
	missing := filepath.Join(dir, "missing")
	_, noGuard := New(path+".fence", Config{})
	for _, c := range []struct {
		err   error
		parts []string
	}{
		{claim(t.Context()), []string{path + ".fence: the mark is damaged: ", "remove it, install it, and claim again"}},
		{highest, []string{filepath.Join(dir, "mark-file") + ": the mark is damaged: ", "remove it, install it, and claim again"}},
		{guarded(missing).Claim(t.Context(), 5), []string{missing + " has no sidecar; install it"}},
		{guarded(missing+"/file").Claim(t.Context(), 5), []string{"open " + missing + ": no such file or directory"}},
		{noGuard, []string{"want the path of a file that is no sidecar"}},
	} {
		for _, part := range c.parts {
			if c.err == nil || !strings.Contains(c.err.Error(), part) {
				t.Errorf("%v; want %q in it", c.err, part)
			}
		}
	}
}

// TestReplaceKeeps: mode and owner stay.
func TestReplaceKeeps(t *testing.T) {
	path := installed(t)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mode, owner := os.FileMode(0o640), os.Geteuid()
	if owner == 0 {
		owner = 12345
	}
	if err := errors.Join(os.Chown(path, owner, -1), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	if err := replace(t.Context(), path, 5, "new"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != mode || int(info.Sys().(*syscall.Stat_t).Uid) != owner {
		t.Errorf("%v of %d, %v; want %v of %d", info.Mode(), info.Sys().(*syscall.Stat_t).Uid, err, mode, owner)
	}
}

// TestReplaceTogether: of leaders that write at once, without having claimed, none is
// overwritten by a smaller token.
func TestReplaceTogether(t *testing.T) {
	path := installed(t)
	var all sync.WaitGroup
	for token := fence.Token(1); token <= 16; token++ {
		all.Go(func() {
			for range 5 {
				if err := replace(t.Context(), path, token, token.String()); err != nil && !errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	want(t, path, "16", 16)
	if got := names(t, path); got != "a file, a file.fence, a file.fence.lock" {
		t.Errorf("there are %s", got)
	}
}

// TestUninstallMeanwhile: who waits for a lock that is removed does not get it.
func TestUninstallMeanwhile(t *testing.T) {
	path := installed(t)
	waits, removed := make(chan bool), make(chan bool)
	var once sync.Once
	var all sync.WaitGroup
	all.Go(func() {
		ctx := traced(t.Context(), func(o string) {
			if strings.HasPrefix(o, "lock ") {
				once.Do(func() { waits <- true; <-removed })
			}
		})
		if err := guarded(path).Claim(ctx, 5); !errors.Is(err, fence.ErrResource) {
			t.Errorf("%v; want ErrResource", err)
		}
	})
	<-waits
	if err := guarded(path).Uninstall(t.Context()); err != nil {
		t.Error(err)
	}
	close(removed)
	all.Wait()
	if got := names(t, path); got != "" {
		t.Errorf("there are %s", got)
	}
}
