//go:build linux || darwin || freebsd

package fencefile

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/place"
)

func newMark(t *testing.T, dir string) *Mark {
	t.Helper()
	m, err := NewMark(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// added are marks to which the resource was added.
func added(t *testing.T, dir string, resource fence.Resource) *Mark {
	t.Helper()
	m := newMark(t, dir)
	if err := m.Install(t.Context(), resource); err != nil {
		t.Fatal(err)
	}
	return m
}

func highest(t *testing.T, m *Mark, r fence.Resource) fence.Token {
	t.Helper()
	token, err := m.Highest(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func wantStale(t *testing.T, err error, shown, highest fence.Token) {
	t.Helper()
	s, ok := errors.AsType[*fence.StaleError](err)
	if !ok || *s != (fence.StaleError{Shown: shown, Highest: highest}) || !errors.Is(err, fence.ErrStale) {
		t.Fatalf("got %v; want stale: %v shown, %v highest", err, shown, highest)
	}
}

func TestMark(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "for it")
	m := added(t, dir, "r")
	if got := highest(t, m, "r"); got != 0 {
		t.Errorf("%v of a resource that was never claimed; want 0", got)
	}
	for _, token := range []fence.Token{5, 5, 1<<53 + 1, fence.MaxToken} {
		if err := m.Raise(t.Context(), "r", token); err != nil {
			t.Fatal(err)
		}
		if got := highest(t, newMark(t, dir), "r"); got != token {
			t.Errorf("%v; want %v", got, token)
		}
	}
	wantStale(t, m.Raise(t.Context(), "r", fence.MaxToken-1), fence.MaxToken-1, fence.MaxToken)
	if err := m.Install(t.Context(), "r"); err != nil || highest(t, m, "r") != fence.MaxToken {
		t.Errorf("added again: %v, %v; want it as it is", err, highest(t, m, "r"))
	}
	if got := highest(t, added(t, dir, "R"), "R"); got != 0 {
		t.Errorf("%v of another resource; want 0", got)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
}

// TestMarkLost: a missing mark is no mark of 0, whatever removed it.
func TestMarkLost(t *testing.T) {
	dir := t.TempDir()
	lost := func(when string, m *Mark) {
		t.Helper()
		for range 2 {
			if err := m.Raise(t.Context(), "r", 5); !errors.Is(err, fence.ErrResource) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s: a raise: %v; want ErrResource, and where", when, err)
			}
			if got, err := m.Highest(t.Context(), "r"); !errors.Is(err, fence.ErrResource) || got != 0 {
				t.Errorf("%s: %v, %v; want ErrResource", when, got, err)
			}
		}
	}
	lost("never added", newMark(t, dir))
	m := added(t, dir, "r")
	if err := m.Raise(t.Context(), "r", 6); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "mark-r")); err != nil {
		t.Fatal(err)
	}
	lost("its file removed", m)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	lost("the directory made anew", newMark(t, dir))
	m = added(t, dir, "r")
	if err := m.Raise(t.Context(), "r", 6); err != nil {
		t.Fatal(err)
	}
	release, err := newMark(t, dir).Alone("r")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Uninstall(t.Context(), "r"); err == nil || highest(t, m, "r") != 6 {
		t.Errorf("%v; want what a guard has not to be removed", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Uninstall(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%v, %v are left", left, err)
		}
	}
	lost("removed", m)
}

func TestMarkRefuses(t *testing.T) {
	dir := t.TempDir()
	m := newMark(t, dir)
	for _, c := range []struct {
		resource fence.Resource
		token    fence.Token
		want     error
	}{
		{"r", 0, fence.ErrMissing},
		{"r", fence.MaxToken + 1, fence.ErrToken},
		{"r", 1 << 48, fence.ErrToken},
		{"", 5, fence.ErrResource},
		{"a b", 5, fence.ErrResource},
	} {
		if err := m.Raise(t.Context(), c.resource, c.token); !errors.Is(err, c.want) {
			t.Errorf("%q with %d: %v; want %v", c.resource, c.token, err, c.want)
		}
	}
	if _, err := m.Highest(t.Context(), "../r\n"); !errors.Is(err, fence.ErrResource) {
		t.Errorf("%v; want ErrResource", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the caller's"))
	if err := m.Raise(ctx, "r", 5); err == nil || err.Error() != "the caller's" {
		t.Errorf("%v; want the cause of the end of the context", err)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 0 || err != nil {
		t.Errorf("what was refused has left %v, %v", entries, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewMark(file, Config{}); err == nil {
		t.Error("NewMark takes a file")
	}
	if err := os.Remove(dir + "/file"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Highest(t.Context(), "r"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that has gone: %v; want an error, and not 0", err)
	}
}

// TestMarkDamaged: whatever is wrong with the file, it is an error, for a raise too, and
// the file stays as it is.
func TestMarkDamaged(t *testing.T) {
	good := encode("r", 42)
	for name, b := range map[string][]byte{
		"empty":             {},
		"torn":              good[:len(good)-1],
		"torn in the token": good[:40],
		"longer":            append(append([]byte{}, good...), '\n'),
		"too long":          []byte(strings.Repeat("x", 1<<16)),
		"zeros":             make([]byte, len(good)),
		"another's":         encode("another", 42),
		"a bit":             append([]byte{good[0] ^ 1}, good[1:]...),
		"no token":          encode("r", 1<<48),
		"of later":          withSum("elect fence mark 2\nof r\ntoken 42\n"),
		"not canonical":     withSum("elect fence mark 1\nof r\ntoken 42\n"),
		"more lines":        withSum("elect fence mark 1\nof r\ntoken 0000000000000000042\n\n"),
		"another head":      withSum("elect fence marks 1\nof r\ntoken 0000000000000000042\n"),
	} {
		dir := t.TempDir()
		m := newMark(t, dir)
		path := filepath.Join(dir, "mark-r")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := m.Highest(t.Context(), "r")
		if err == nil || name != "of later" && !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want ErrDamaged, and where", name, err)
		}
		if err := m.Raise(t.Context(), "r", fence.MaxToken); err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("%s: a raise: %v; want its error", name, err)
		}
		if after, err := os.ReadFile(path); string(after) != string(b) || err != nil {
			t.Errorf("%s: it was changed: %v", name, err)
		}
	}
}

func withSum(body string) []byte { return append([]byte(body), sum([]byte(body))...) }

// TestMarkFails: whichever operation fails, once or from then on as for a process that is
// killed, the mark is the old one or the new one; it is the old one unless the error says
// that this is not known; and the next raise succeeds.
func TestMarkFails(t *testing.T) {
	for _, killed := range []bool{false, true} {
		unknown := 0
		for at := 0; ; at++ {
			dir := t.TempDir()
			m := added(t, dir, "r")
			if err := m.Raise(t.Context(), "r", 5); err != nil {
				t.Fatal(err)
			}
			n, what := 0, ""
			ctx := place.WithTrace(t.Context(), func(operation string) error {
				defer func() { n++ }()
				if n == at || killed && n > at {
					what += operation + ", "
					return syscall.ENOSPC
				}
				return nil
			})
			err := m.Raise(ctx, "r", 6)
			if n <= at {
				if at < 10 || err != nil {
					t.Errorf("%d operations, %v", n, err)
				}
				break
			}
			got := highest(t, m, "r")
			switch {
			case err == nil && got == 6 && strings.HasPrefix(what, "unlock"):
			case errors.Is(err, fence.ErrUnknownOutcome) && errors.Is(err, syscall.ENOSPC) && got == 6:
				unknown++
			case !errors.Is(err, fence.ErrUnknownOutcome) && errors.Is(err, syscall.ENOSPC) && got == 5:
			default:
				t.Errorf("killed %v, %s: %v, and the mark is %v", killed, what, err, got)
			}
			if err := m.Raise(t.Context(), "r", 6); err != nil {
				t.Errorf("killed %v, %s: the next raise: %v", killed, what, err)
			}
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), "new-") {
					t.Errorf("killed %v, %s: %s is left", killed, what, e.Name())
				}
			}
		}
		if unknown != 1 {
			t.Errorf("killed %v: the outcome was unknown %d times; want once, for the sync of the directory", killed, unknown)
		}
	}
}

// TestMarkSyncs: also a mark that stands already is synced before it is confirmed: who
// wrote it may have been killed before he did that.
func TestMarkSyncs(t *testing.T) {
	m := added(t, t.TempDir(), "r")
	for range 2 {
		var did []string
		if err := m.Raise(traced(t.Context(), func(o string) { did = append(did, o) }), "r", 5); err != nil {
			t.Fatal(err)
		}
		if len(did) < 2 || did[len(did)-2] != "sync ." || did[len(did)-1] != "unlock lock-r" {
			t.Errorf("%q; want it synced, and then unlocked", did)
		}
	}
}

// TestMarkTogether: many raise it at once, through marks that know nothing of each other;
// what one was told never goes back, and greater ones are the reason of a refusal.
func TestMarkTogether(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	var mu sync.Mutex
	top := fence.Token(0)
	added(t, dir, "r")
	for i := range 8 {
		m, random := newMark(t, dir), rand.New(rand.NewPCG(1, uint64(i)))
		all.Go(func() {
			for range 25 {
				token := fence.Token(1 + random.IntN(1000))
				mu.Lock()
				before := top
				mu.Unlock()
				err := m.Raise(t.Context(), "r", token)
				stale, isStale := errors.AsType[*fence.StaleError](err)
				switch {
				case err == nil && token >= before:
					mu.Lock()
					top = max(top, token)
					mu.Unlock()
				case isStale && stale.Highest > token && stale.Highest >= before:
				default:
					t.Errorf("%v, above %v: %v", token, before, err)
				}
				if got, err := m.Highest(t.Context(), "r"); err != nil || got < before {
					t.Errorf("%v, %v; it was %v before", got, err, before)
				}
			}
		})
	}
	all.Wait()
	if got := highest(t, newMark(t, dir), "r"); got != top {
		t.Errorf("%v; want the greatest that was confirmed, %v", got, top)
	}
}

// TestMarkWaits: a waiter for the lock can stop waiting.
func TestMarkWaits(t *testing.T) {
	m := added(t, t.TempDir(), "r")
	locked, free := make(chan bool), make(chan bool)
	var all sync.WaitGroup
	all.Go(func() {
		ctx := traced(t.Context(), func(o string) {
			if o == "read mark-r" {
				locked <- true
				<-free
			}
		})
		if err := m.Raise(ctx, "r", 5); err != nil {
			t.Error(err)
		}
	})
	<-locked
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := m.Raise(ctx, "r", 6); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v; want the end of its context", err)
	}
	close(free)
	all.Wait()
	if err := m.Raise(t.Context(), "r", 6); err != nil {
		t.Error(err)
	}
}

func TestFileName(t *testing.T) {
	seen := map[string]fence.Resource{}
	for _, r := range []fence.Resource{
		"a", "A", "_a", "=2e", ".", "..", "a/b", "a-b", "a:b", "a@b", "a_b", "aB", "ab", "con", "public.Orders",
		fence.Resource(strings.Repeat("A", 128)), fence.Resource(strings.Repeat("a", 128)), fence.Resource(strings.Repeat("/", 128)), fence.Resource(strings.Repeat("/", 127) + "."),
	} {
		name := fileName(r)
		if other, ok := seen[strings.ToLower(name)]; ok {
			t.Errorf("%s and %s are both %s", r, other, name)
		}
		seen[strings.ToLower(name)] = r
		if len("mark-"+name) > 255 || strings.ContainsAny(name, "/\\:.") {
			t.Errorf("%s: %s", r, name)
		}
		m := newMark(t, t.TempDir())
		if r.Valid() {
			if err := errors.Join(m.Install(t.Context(), r), m.Raise(t.Context(), r, 5)); err != nil {
				t.Error(err)
			}
		}
	}
	if len(seen) < 19 {
		t.Errorf("%d names", len(seen))
	}
}

func TestMarkForTheGroup(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	m, err := NewMark(dir, Config{SharedPlace: true})
	if err == nil {
		err = errors.Join(m.Install(t.Context(), "r"), m.Raise(t.Context(), "r", 5))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mark-r", "lock-r"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o660 {
			t.Errorf("%s: %v, %v; want 0660", name, info.Mode(), err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("r", []byte{})
	f.Add("r", encode("r", 42))
	f.Add(".", encode(".", 0))
	f.Add("r", withSum("elect fence mark 1\nof r\ntoken 42\n"))
	f.Fuzz(func(t *testing.T, of string, b []byte) {
		for _, b := range [][]byte{b, withSum(string(b))} {
			token, err := decode(of, b)
			if err != nil {
				continue
			}
			if token != 0 && !token.Valid() || string(encode(of, token)) != string(b) {
				t.Errorf("%q is read as %d", b, token)
			}
		}
	})
}
