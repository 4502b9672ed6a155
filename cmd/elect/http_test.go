package main

import (
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/spf13/pflag"

	"github.com/electd/elect/electhttp"
)

// Of many that find the socket of a dead process at the same time, one replaces it.
func TestListenPrivately(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		path := filepath.Join(dir, strconv.Itoa(i))
		dead, err := listenPrivately(path)
		if err != nil {
			t.Fatal(err)
		}
		_ = dead.Close() // and its path stays
		var won atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				l, err := listenPrivately(path)
				if err == nil {
					won.Add(1)
					t.Cleanup(func() { _ = l.Close() })
				} else if !strings.HasPrefix(err.Error(), "another process listens on ") {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d listen on %s", won.Load(), path)
		}
	}
}

// On loopback a Host that is not local is refused; the host of --http is not.
func TestHTTPHosts(t *testing.T) {
	var f httpFlags
	f.flags(pflag.NewFlagSet("run", pflag.ContinueOnError))
	f.addr = "localhost:0"
	s, err := f.listen(electhttp.Config{Name: "job", ID: "a"})
	if err != nil {
		t.Skip(err) // there is no such name here
	}
	defer s.Listener.Close()
	for host, want := range map[string]int{"localhost:1": 200, "127.0.0.1": 200, "evil.example": 421} {
		r := httptest.NewRequest("GET", "/follower", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if s.Handler.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d, want %d", host, w.Code, want)
		}
	}
}
