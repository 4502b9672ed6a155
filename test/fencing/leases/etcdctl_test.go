//go:build linux && cgo

package leases_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fenceetcd"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
)

// etcdctl is a run of it as a candidate of the election "e".
type etcdctl struct {
	cmd   *exec.Cmd
	leads chan string // its first line, which is the key with which it leads
	ended chan struct{}
}

func (k *keys) etcdctl(t *testing.T, args ...string) *etcdctl {
	t.Helper()
	cmd := exec.Command(server.Etcdctl(t), append(args, "--endpoints", k.etcd.URL)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &etcdctl{cmd, make(chan string, 1), make(chan struct{})}
	go func() {
		defer close(c.ended)
		in := bufio.NewReader(out)
		if line, err := in.ReadString('\n'); err == nil {
			c.leads <- strings.TrimSpace(line)
		}
		_, _ = io.Copy(io.Discard, in)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() { c.end(t, syscall.SIGKILL) })
	return c
}

// end ends it.
func (c *etcdctl) end(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	<-c.ended
}

// waits fails the test if one of these leads within three seconds.
func waits(t *testing.T, native *etcdctl, ours <-chan driver.Mandate) {
	t.Helper()
	var leads chan string
	if native != nil {
		leads = native.leads
	}
	select {
	case key := <-leads:
		t.Fatalf("etcdctl leads with %s beside another leader", key)
	case m := <-ours:
		t.Fatalf("%v leads beside etcdctl", m)
	case <-time.After(3 * time.Second):
	}
}

// campaigns campaigns in the background. Nil is sent if that fails.
func (l local) campaigns(ctx context.Context) <-chan driver.Mandate {
	won := make(chan driver.Mandate, 1)
	go func() {
		m, err := l.Campaign(ctx, driver.Candidacy{Exclusive: true})
		if err != nil {
			l.t.Error(err)
		}
		won <- m
	}()
	return won
}

// TestEtcdctl: etcdctl elect and etcdctl lock are candidates of elect's elections. Never do both sides
// lead, and each takes over from the other.
func TestEtcdctl(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	for verb, args := range map[string][]string{"elect": {"elect", "KEY", "native-1"}, "lock": {"lock", "--ttl", "5", "KEY"}} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			k := newKeys(t, startEtcd(t))
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			run := func() *etcdctl {
				own := append([]string(nil), args...)
				for i := range own {
					own[i] = strings.ReplaceAll(own[i], "KEY", k.prefix+"/e")
				}
				return k.etcdctl(t, own...)
			}

			// It leads, and ours waits until it is told to end.
			first := run()
			key := <-first.leads
			ours := k.elector(t, "ours", nil).campaigns(ctx)
			k.enters(ctx, t, 2)
			waits(t, nil, ours)
			r, err := k.client.Get(ctx, key)
			if err != nil || len(r.Kvs) != 1 {
				t.Fatalf("%v, %v; want the key of etcdctl", r, err)
			}
			first.end(t, syscall.SIGINT)
			m := <-ours
			if m == nil {
				t.FailNow()
			}
			if int64(m.Token()) <= r.Kvs[0].CreateRevision {
				t.Errorf("token %v after the revision %d of etcdctl", m.Token(), r.Kvs[0].CreateRevision)
			}

			// Ours leads, and it waits until the release.
			second := run()
			k.enters(ctx, t, 2)
			waits(t, second, nil)
			if err := m.Check(); err != nil {
				t.Errorf("%v; want it to lead on while etcdctl waits", err)
			}
			ours = k.elector(t, "ours-2", nil).campaigns(ctx)
			k.enters(ctx, t, 3)
			released(t, m)
			key = <-second.leads

			// It is killed, and ours leads when its lease has ended. etcdctl elect has one of 60 s.
			r, err = k.client.Get(ctx, key)
			if err != nil || len(r.Kvs) != 1 {
				t.Fatalf("%v, %v; want the key of etcdctl", r, err)
			}
			second.end(t, syscall.SIGKILL)
			if m = <-ours; m == nil {
				t.FailNow()
			}
			if l, err := k.client.TimeToLive(ctx, clientv3.LeaseID(r.Kvs[0].Lease)); err != nil || l.TTL > 0 {
				t.Errorf("%v, %v: it leads while the lease of etcdctl lives", l, err)
			}
			released(t, m)
		})
	}
}

// TestEtcdctlPhantom: an etcdctl elect whose key was deleted while it waited may say that it leads
// (etcd issue 19597). elect's candidate leads with its own key, and what the phantom writes with its
// revision is refused by the guard.
func TestEtcdctlPhantom(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	t.Parallel()
	k := newKeys(t, startEtcd(t))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	first := k.etcdctl(t, "elect", k.prefix+"/e", "first")
	before := <-first.leads
	phantom := k.etcdctl(t, "elect", k.prefix+"/e", "phantom")
	k.enters(ctx, t, 2)
	r, err := k.client.Get(ctx, k.prefix+"/e/", clientv3.WithLastCreate()...)
	if err != nil {
		t.Fatal(err)
	}
	revision := r.Kvs[0].CreateRevision
	ours := k.elector(t, "ours", nil).campaigns(ctx)
	k.enters(ctx, t, 3)
	if _, err := k.client.Delete(ctx, string(r.Kvs[0].Key)); err != nil {
		t.Fatal(err)
	}
	waits(t, phantom, ours)
	first.end(t, syscall.SIGINT)
	m := <-ours
	if m == nil {
		t.FailNow()
	}
	select {
	case key := <-phantom.leads:
		t.Logf("etcdctl, whose key was deleted, says that it leads: %q; the leader before it was %s", key, before)
	case <-time.After(5 * time.Second):
		t.Log("etcdctl does not say that it leads")
	}
	if err := m.(driver.Confirmer).Confirm(ctx); err != nil {
		t.Errorf("%v; want the only candidate with a key to lead", err)
	}
	g, err := fenceetcd.New(k.client, "phantom", fenceetcd.Config{})
	if err == nil {
		err = g.Install(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write(ctx, m.Token(), clientv3.OpPut("x", "ours")); err != nil {
		t.Error(err)
	}
	if _, err := g.Write(ctx, fence.Token(revision), clientv3.OpPut("x", "phantom")); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a write of the phantom: %v; want it refused", err)
	}
	released(t, m)
}
