package kubernetes

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/long"
)

// ServeHTTP serves the API to other processes.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var resp *http.Response
	if r.URL.Query().Get("watch") != "" {
		resp = s.watch(r.Context(), r)
	} else {
		resp = s.serve(r, body)
	}
	defer resp.Body.Close()
	maps.Copy(w.Header(), resp.Header)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(resp.StatusCode)
	out := http.NewResponseController(w)
	for part := make([]byte, 64<<10); ; {
		n, err := resp.Body.Read(part)
		_, _ = w.Write(part[:n])
		_ = out.Flush()
		if err != nil {
			return
		}
	}
}

// candidate is one of client-go, in a process of its own.
type candidate struct {
	cmd   *exec.Cmd
	leads chan struct{}
	last  atomic.Int64 // when it last took itself for the leader
	ended chan struct{}
}

// nativeTimes are the lease, renew deadline and retry period of a candidate, in the ratio of client-go's defaults.
var nativeTimes = []string{"-lease", "3s", "-renew", "2s", "-retry", "400ms"}

func startNative(t *testing.T, config, id string) *candidate {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(cache, "elect-test", "clientgo")
	if _, err := os.Stat(bin); err != nil {
		t.Skip("there is no candidate of client-go; run: make servers")
	}
	cmd := exec.Command(bin, append([]string{"-kubeconfig", config, "-namespace", "jobs", "-name", "e", "-id", id}, nativeTimes...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &candidate{cmd: cmd, leads: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		for in := bufio.NewScanner(out); in.Scan(); {
			if ns, err := strconv.ParseInt(in.Text(), 10, 64); err == nil && c.last.Swap(ns) == 0 {
				close(c.leads)
			}
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(func() { c.signal(t, syscall.SIGKILL); <-c.ended })
	return c
}

func (c *candidate) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
}

// TestClientGo has the real client-go and elect as candidates of one Lease. Each waits for the other, and takes over after
// a release and a death, and tokens rise over it. A leader of client-go that was frozen believes that it leads when it
// goes on, beside elect's: docs/kubernetes.md says so.
func TestClientGo(t *testing.T) {
	long.Full(t, "it waits for leases, beside processes of client-go")
	s := newServer(t)
	cluster := httptest.NewServer(s)
	defer cluster.Close()
	config := write(t, filepath.Join(t.TempDir(), "config"), `{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
"clusters": [{"name": "k", "cluster": {"server": "`+cluster.URL+`"}}], "users": [{"name": "u", "user": {}}]}`)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	at, err := url.Parse("kubernetes://jobs?lease=3s&max_lease=3s&kubeconfig=" + url.QueryEscape(config))
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(ctx, driver.Target{URL: at, Name: "e", ID: "ours"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	won := make(chan driver.Mandate, 1)
	campaign := func() {
		go func() {
			m, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
			if err != nil {
				t.Error(err)
			}
			won <- m
		}()
	}
	leads := func(c *candidate) {
		t.Helper()
		select {
		case <-c.leads:
		case <-ctx.Done():
			t.Fatal("client-go does not lead")
		}
	}

	// It leads, and is killed.
	first := startNative(t, config, "native_1")
	leads(first)
	campaign()
	select {
	case <-won:
		t.Fatal("elect leads beside client-go")
	case <-time.After(7 * time.Second):
	}
	was := time.Now()
	first.signal(t, syscall.SIGKILL)
	m := <-won
	if m == nil {
		t.FailNow()
	}
	t.Logf("elect leads %v after client-go was killed, with a lease of 3 s", time.Since(was).Round(time.Millisecond))

	// It waits for elect's, until the release, and is frozen.
	second := startNative(t, config, "native_2")
	select {
	case <-second.leads:
		t.Fatal("client-go leads beside elect")
	case <-time.After(7 * time.Second):
	}
	if err := m.Check(); err != nil {
		t.Fatalf("%v; want it to lead on while client-go waits", err)
	}
	was = time.Now()
	if err := m.Release(ctx); err != nil {
		t.Fatal(err)
	}
	leads(second)
	t.Logf("client-go leads %v after a release", time.Since(was).Round(time.Millisecond))
	campaign()
	was = time.Now()
	second.signal(t, syscall.SIGSTOP)
	n := <-won
	if n == nil {
		t.FailNow()
	}
	t.Logf("elect leads %v after client-go was frozen", time.Since(was).Round(time.Millisecond))
	if n.Token() <= m.Token() {
		t.Errorf("token %v after %v, with client-go in between", n.Token(), m.Token())
	}
	was = time.Now()
	second.signal(t, syscall.SIGCONT)
	<-time.After(2500 * time.Millisecond)
	if err := n.Check(); err != nil {
		t.Fatal(err)
	}
	belief := time.Unix(0, second.last.Load()).Sub(was)
	t.Logf("client-go believes for %v that it leads, beside elect's leader", belief.Round(time.Millisecond))
	if belief <= 0 {
		t.Error("client-go does not take itself for the leader after a pause: correct docs/kubernetes.md")
	}
	if err := n.Release(ctx); err != nil {
		t.Error(err)
	}
}
