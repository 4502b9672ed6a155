//go:build linux

package http_test

import (
	"bufio"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/zombie"
)

// TestSharedMark: two proxies of the finished command in front of one upstream, with one mark in a
// table.
func TestSharedMark(t *testing.T) {
	long.Test(t, "it freezes real processes before each step of a write")
	t.Parallel()
	elect, pg := harness.Build(t, "../../../cmd/elect"), server.StartPostgres(t)
	start := func(t *testing.T) (mark, upstream, one, other string) {
		t.Helper()
		mark, upstream = pg.Database(t), startUpstream(t)
		if out, err := exec.Command(elect, "fence", "install", "--at", mark, string(register)).CombinedOutput(); err != nil {
			t.Fatalf("elect fence install: %v\n%s", err, out)
		}
		flags := []string{"--mark", mark, "--drain", "100ms"} // goes before the mark that startProxy names
		_, one = startProxy(t, elect, upstream, "", flags...)
		_, other = startProxy(t, elect, upstream, "", flags...)
		return mark, upstream, one, other
	}

	// Leaders that are frozen before each step, in the middle of an upload among them, each at a
	// proxy of its own.
	t.Run("zombies", func(t *testing.T) {
		_, upstream, one, other := start(t)
		r := zombie.Prove(t, zombie.Config{Opener: "upload", Where: one + "," + other, Read: directly(upstream), Wait: 500 * time.Millisecond})
		if r.Waited == 0 {
			t.Error("no newer leader had to wait for a request at the other proxy: nothing was tested")
		}
	})

	// One of them, step by step.
	t.Run("in the middle of a body", func(t *testing.T) {
		mark, upstream, one, other := start(t)
		db, err := sql.Open("pgx", mark)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		sessions := func(which string) func() bool {
			return func() bool {
				var n int
				if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND `+which).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n == 1
			}
		}
		claim(t, one, 5)
		conn, err := net.Dial("tcp", strings.TrimPrefix(one, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		body := "5\n" + strings.Repeat("x", 1000)
		if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nFencing-Token: %s;5\r\nContent-Length: %d\r\n\r\n%s", register, len(body), body[:500]); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, "the older leader's request holds the mark", sessions(`application_name = 'elect fence hold' AND state = 'idle in transaction'`))
		claimed := make(chan error, 1)
		go func() { claimed <- claimBy(t.Context(), nil, other, secret, 6) }()
		harness.Eventually(t, "the newer leader's claim waits for it", sessions(`wait_event_type = 'Lock'`))
		select {
		case err := <-claimed:
			t.Fatalf("the newer leader is let in, with %v, while the older one's request is under way", err)
		default:
		}
		if _, err := conn.Write([]byte(body[500:])); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("the older leader's request: %v, %v", resp, err)
		}
		if err := <-claimed; err != nil {
			t.Fatal(err)
		}
		if value, err := directly(upstream)(t.Context()); value != 5 || err != nil {
			t.Errorf("the newer leader reads %d, %v first; want what landed before", value, err)
		}
		if err := write(fence.NewContext(t.Context(), 6), leader(nil), other+"/", 6, 0); err != nil {
			t.Error(err)
		}
		for _, at := range []string{one, other} {
			if err := write(fence.NewContext(t.Context(), 5), leader(nil), at+"/", 7, 0); !isStale(err, 5, 6) {
				t.Errorf("the older leader at %s: %v", at, err)
			}
		}
		if value, err := directly(upstream)(t.Context()); value != 6 || err != nil {
			t.Errorf("the register has %d, %v; want 6", value, err)
		}
	})
}

func isStale(err error, shown, highest fence.Token) bool {
	stale, ok := errors.AsType[*fence.StaleError](err)
	return ok && *stale == fence.StaleError{Shown: shown, Highest: highest}
}
