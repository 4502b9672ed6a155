package supervise_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/agent/lease"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/leasepage"
)

// withPage starts a command with a lease page, and opens that.
func withPage(t *testing.T, h supervise.Held) (*supervise.Family, *lease.Page, string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h.Token = func() uint64 { return 7 }
	f, err := supervise.Start(context.Background(), supervise.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", `echo "$ELECT_LEASE"; exec sleep 1000`}, Env: os.Environ(),
		Stdout: w, Stderr: os.Stderr, LeasePage: true,
	}.With(h))
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Kill(); f.Wait() })
	path, err := bufio.NewReader(r).ReadString('\n')
	path = strings.TrimSuffix(path, "\n")
	if err != nil || path == "" {
		t.Fatalf("the command got the page %q, %v", path, err)
	}
	p, err := lease.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	if p.Token() != 7 {
		t.Errorf("the page's token is %v; want 7", p.Token())
	}
	return f, p, path
}

// wantOver requires that nothing is proven any more, and that the file is gone.
func wantOver(t *testing.T, p *lease.Page, path string) {
	t.Helper()
	if err := p.Check(); !errors.Is(err, lease.ErrOver) {
		t.Errorf("after the end of the family Check returned %v; want ErrOver", err)
	}
	if _, err := lease.Open(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening the page of a dead family: %v; want ErrNotExist", err)
	}
}

// TestLeasePage: a page proves leadership for as long as the lease is renewed, and never beyond the end of the lease
// or the family's death.
func TestLeasePage(t *testing.T) {
	const long = 8 * time.Second // the supervisor looks for a renewal after an eighth
	until := func(end *atomic.Int64) supervise.Held {
		return supervise.Held{Lease: func() (left time.Duration, bounded bool) {
			return max(clock.Boot(end.Load()).Sub(clock.Now()), 0), true
		}}
	}
	forever := supervise.Held{Lease: func() (left time.Duration, bounded bool) { return long, true }}
	t.Run("renewed", func(t *testing.T) {
		t.Parallel()
		var end atomic.Int64
		end.Store(int64(clock.Now().Add(long)))
		_, p, _ := withPage(t, until(&end))
		if left := p.Remaining(); left <= 0 || left > long {
			t.Fatalf("%v remain of a lease of %v", left, long)
		}
		end.Store(int64(clock.Now().Add(3 * long)))
		eventually(t, "the page has the renewal", func() bool { return p.Remaining() > long })
		if left := p.Remaining(); left > 3*long {
			t.Errorf("%v remain of a lease of %v", left, 3*long)
		}
	})
	t.Run("not renewed", func(t *testing.T) {
		t.Parallel()
		var end atomic.Int64
		end.Store(int64(clock.Now().Add(long)))
		f, p, path := withPage(t, until(&end))
		eventually(t, "the page is over", func() bool {
			before := clock.Now()
			over := p.Check() != nil
			if !over && int64(before) >= end.Load() {
				t.Error("the page proved leadership after the end of the lease")
			}
			return over
		})
		f.Wait()
		wantOver(t, p, path)
	})
	t.Run("stopped", func(t *testing.T) {
		f, p, path := withPage(t, forever)
		f.Stop(context.Background())
		wantOver(t, p, path)
	})
	t.Run("keeper killed", func(t *testing.T) {
		f, p, path := withPage(t, forever)
		f.KillKeeper()
		f.Wait()
		wantOver(t, p, path)
	})
	t.Run("lost before its end", func(t *testing.T) {
		var lost atomic.Bool
		f, p, _ := withPage(t, supervise.Held{Lease: func() (left time.Duration, bounded bool) {
			if lost.Load() {
				return 0, true
			}
			return long, true
		}})
		lost.Store(true)
		f.Renew()
		if p.Check() == nil {
			t.Error("leadership is lost, and the page proves it")
		}
		f.Deadline(clock.Now().Add(long)) // one that was on its way
		lost.Store(false)
		f.Renew()
		f.Deadline(clock.Now().Add(long))
		eventually(t, "a lease that is renewed after all is proven again", func() bool { return p.Check() == nil })
	})
	t.Run("lost while the family ends", func(t *testing.T) { // what writes to a page that is closed may write to another file
		var asked atomic.Int64
		f, p, path := withPage(t, supervise.Held{Lease: func() (left time.Duration, bounded bool) {
			return long * time.Duration(asked.Add(1)%2), true
		}})
		var renewing sync.WaitGroup
		renewing.Go(func() {
			for {
				f.Renew()
				select {
				case <-f.Done():
					return
				default:
				}
			}
		})
		f.Kill()
		renewing.Wait()
		wantOver(t, p, path)
	})
	t.Run("without a lock", func(t *testing.T) {
		_, p, _ := withPage(t, supervise.Held{})
		if p.Check() == nil {
			t.Error("nothing is held, and the page proves leadership")
		}
	})
	t.Run("inherited variable", func(t *testing.T) {
		c := supervise.Command{
			Path: "/bin/sh", Args: []string{"sh", "-c", `test -z "$ELECT_LEASE"`}, Env: append(os.Environ(), lease.Env+"=outer"), Stderr: os.Stderr, LeasePage: true,
		}
		for range 2 {
			f, err := supervise.Start(context.Background(), c)
			if err != nil {
				t.Fatal(err)
			}
			if e := f.Wait(); e.Code != 0 {
				t.Errorf("the command ended by %v; want that it has one page at most", e)
			}
			c.Args = []string{"sh", "-c", `test "$(env | grep -c ^ELECT_LEASE=)" = 1`}
			c = c.With(supervise.Held{Lease: forever.Lease, Token: func() uint64 { return 7 }})
		}
	})
	t.Run("truncated by its reader", func(t *testing.T) {
		f, p, path := withPage(t, forever)
		_ = p.Close() // a mapping beyond the end of a file cannot be read
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		f.Stop(context.Background())
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the file is left: %v", err)
		}
	})
	t.Run("no lease", func(t *testing.T) {
		lock, err := os.Create(filepath.Join(t.TempDir(), "lock"))
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Close()
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		f, p, path := withPage(t, supervise.Held{Hold: []*os.File{lock}})
		begun := clock.Now() // what is proven later than half a second from now was written later
		eventually(t, "the page is written again and again", func() bool {
			left := p.Remaining()
			return left > 0 && clock.Now().Add(left).Sub(begun) > 500*time.Millisecond
		})
		if err := os.Remove(lock.Name()); err != nil {
			t.Fatal(err)
		}
		if e := f.Wait(); e.Reason != supervise.Replaced {
			t.Errorf("the family ended by %v; want %v", e.Reason, supervise.Replaced)
		}
		wantOver(t, p, path)
	})
}

// TestPageThatIsGone: a keeper that cannot open the page says so, and the command runs.
func TestPageThatIsGone(t *testing.T) {
	const token = 77_777
	remove := func() { // what another program of this user may do
		pages, _ := filepath.Glob(filepath.Join(leasepage.Dir(), "*"))
		for _, path := range pages {
			if b, err := os.ReadFile(path); err == nil && len(b) == leasepage.Size && binary.LittleEndian.Uint64(b[leasepage.Token:]) == token {
				_ = os.Remove(path)
			}
		}
	}
	var log harness.Buffer
	f, err := supervise.Start(context.Background(), supervise.Command{
		Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Env: os.Environ(), LeasePage: true, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}.With(supervise.Held{
		Token: func() uint64 { return token },
		Lease: func() (left time.Duration, bounded bool) { remove(); return time.Hour, true }, // asked before the keeper is
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { f.Kill(); f.Wait() }()
	harness.Eventually(t, "the keeper says that it cannot write to the page", func() bool {
		return strings.Contains(log.String(), "the lease page cannot be written, and will prove nothing: open /dev/shm/")
	})
}
