//go:build linux && cgo

package leases_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/store/sqlstore"
	"github.com/electd/elect/test/fencing/server"
)

// silencer forwards to a MySQL server. When it is armed, the next execution of an UPDATE reaches the
// server, and from then on nothing comes back over that connection, nor, if all is set, over any
// other; nothing is closed towards the server.
type silencer struct {
	addr       string
	armed, all atomic.Bool
	hit        chan struct{}

	mu    sync.Mutex
	conns []net.Conn
}

func newSilencer(t *testing.T, to string) *silencer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &silencer{addr: l.Addr().String(), hit: make(chan struct{})}
	var work sync.WaitGroup
	keep := func(c net.Conn) { s.mu.Lock(); defer s.mu.Unlock(); s.conns = append(s.conns, c) }
	work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			keep(client)
			if s.silent() {
				continue
			}
			up, err := net.Dial("tcp", to)
			if err != nil {
				continue
			}
			keep(up)
			var mute atomic.Bool
			silent := func() bool { return mute.Load() || s.silent() }
			work.Go(func() { pass(client, up, func([]byte) {}, silent) })
			updates := false
			work.Go(func() {
				pass(up, client, func(packet []byte) {
					updates = updates || bytes.Contains(packet, []byte("UPDATE"))
					const execute = 0x17 // COM_STMT_EXECUTE
					if updates && len(packet) > 4 && packet[4] == execute && s.armed.CompareAndSwap(true, false) {
						if _, err := up.Write(packet); err == nil {
							mute.Store(true)
							close(s.hit)
						}
					}
				}, silent)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		work.Wait()
	})
	return s
}

// silent reports whether nothing is forwarded any more.
func (s *silencer) silent() bool {
	select {
	case <-s.hit:
		return s.all.Load()
	default:
		return false
	}
}

// pass forwards until it is silent, and then reads on.
func pass(to io.WriteCloser, from io.Reader, look func([]byte), silent func() bool) {
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			if !silent() {
				_ = to.Close()
			}
			return
		}
		look(buf[:n])
		if !silent() {
			_, _ = to.Write(buf[:n])
		}
	}
}

// TestSilence: a host that vanishes while it writes leaves no lock behind, so others take over; and
// an answer that is lost for ever keeps its participant neither from standing again nor from Close.
func TestSilence(t *testing.T) {
	long.Test(t, "it waits for leases")
	t.Parallel()
	m := server.StartMariaDB(t)
	d := database{dialect: sqlstore.MySQL, make: func(t testing.TB) *url.URL {
		cfg := m.Database(t)
		return parse(t, "mysql://"+cfg.User+"@"+cfg.Addr+"/"+cfg.DBName)
	}}
	for name, all := range map[string]bool{"host": true, "answer": false} {
		t.Run(name, func(t *testing.T) {
			p := d.place(t)
			s := newSilencer(t, p.at.Host)
			s.all.Store(all)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			e, err := openers["mysql"](ctx, driver.Target{URL: parse(t, p.url(s.addr)), Name: "e", ID: "a"})
			if err != nil {
				t.Fatal(err)
			}
			a := local{e, t}
			was := a.campaign(ctx)
			s.armed.Store(true)
			select {
			case <-s.hit:
			case <-ctx.Done():
				t.Fatal("it does not renew")
			}
			next := a
			if all {
				next = elector(t, p, "b")
			} else if err := was.Release(ctx); err != nil {
				t.Error(err)
			}
			is := next.campaign(ctx)
			if was.Check() == nil || is.Token() <= was.Token() {
				t.Errorf("%v, and token %v after %v", was.Check(), is.Token(), was.Token())
			}
			if err := a.Close(); err != nil || ctx.Err() != nil {
				t.Errorf("Close: %v, %v", err, ctx.Err())
			}
		})
	}
}
