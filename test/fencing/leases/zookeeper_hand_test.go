//go:build linux && cgo

package leases_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/store/zookeeper"
	"github.com/electd/elect/test/fencing/server"
)

// TestZooKeeperByHand has a leader whose entry is deleted by hand, or deleted and made again, or whose queue is
// deleted. It ends, and the next one is not proven before it has.
func TestZooKeeperByHand(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for sessions")
	t.Parallel()
	s := server.StartZooKeeper(t)
	for name, do := range map[string]func(t *testing.T, z *znodes, key string) error{
		"entry deleted": func(t *testing.T, z *znodes, key string) error { return z.client.Delete(key, -1) },
		"entry made again": func(t *testing.T, z *znodes, key string) error {
			_, err := z.client.Multi(&zk.DeleteRequest{Path: key, Version: -1}, &zk.CreateRequest{Path: key, Flags: zk.FlagEphemeral, Acl: zk.WorldACL(zk.PermAll)})
			time.AfterFunc(10*time.Second, func() { _ = z.client.Delete(key, -1) }) // it is the first candidate until then
			return err
		},
		"queue deleted": func(t *testing.T, z *znodes, key string) error { z.delete(t, z.prefix); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			z := newZnodes(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			m := z.elector(t, "a", nil).campaign(ctx)
			if err := do(t, z, z.entries(t)[0]); err != nil {
				t.Fatal(err)
			}
			next := make(chan driver.Mandate, 1)
			b := z.elector(t, "b", nil)
			go func() {
				n, _ := b.Campaign(ctx, driver.Candidacy{Exclusive: true})
				if n != nil && m.Check() == nil {
					t.Error("two are proven")
				}
				next <- n
			}()
			lost(t, ctx, m, driver.ErrSuperseded, driver.ErrExpired)
			released(t, m)
			n := <-next
			if n == nil {
				t.Fatal("the next one does not win")
			}
			if n.Token() <= m.Token() {
				t.Errorf("token %v after %v", n.Token(), m.Token())
			}
			released(t, n)
		})
	}
}

// TestZooKeeperHandMadeEntries: entries that are made by hand, with the number and version of the leader's, or with lower
// numbers than that of the candidate behind it, make no second leader.
func TestZooKeeperHandMadeEntries(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for sessions")
	t.Parallel()
	s := server.StartZooKeeper(t)
	for name, do := range map[string]func(z *znodes, leader, candidate string) []any{
		"in place of the leader's": func(z *znodes, leader, _ string) []any {
			_, stat, err := z.client.Get(leader)
			if err != nil {
				t.Error(err)
				return nil
			}
			ops := []any{&zk.DeleteRequest{Path: leader, Version: -1}, &zk.CreateRequest{Path: leader, Flags: zk.FlagEphemeral, Acl: zk.WorldACL(zk.PermAll)}}
			for version := range stat.Version {
				ops = append(ops, &zk.SetDataRequest{Path: leader, Version: version})
			}
			return ops
		},
		"with lower numbers": func(z *znodes, _, candidate string) []any {
			var ops []any
			n, _ := strconv.Atoi(strings.TrimPrefix(number(candidate), "-"))
			for _, n := range []int{0, n - 1} {
				ops = append(ops, &zk.CreateRequest{Path: fmt.Sprintf("%s/e/by-hand-latch-%010d", z.prefix, n), Flags: zk.FlagEphemeral, Acl: zk.WorldACL(zk.PermAll)})
			}
			return ops
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			z := newZnodes(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			a, b := z.elector(t, "a", nil), z.elector(t, "b", nil)
			for range 2 { // numbers that nobody has any more
				released(t, a.campaign(ctx))
			}
			m := a.campaign(ctx)
			passing := z.elector(t, "passing", nil)
			passes, gives := context.WithCancel(ctx)
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				_, _ = passing.Campaign(passes, driver.Candidacy{Exclusive: true})
			}()
			z.enters(t, 2)
			next := b.campaigns(ctx)
			z.enters(t, 3)
			gives()
			<-gone
			z.enters(t, 2)
			entries := z.entries(t)
			if _, err := z.client.Multi(do(z, entries[0], entries[1])...); err != nil {
				t.Fatal(err)
			}
			// Two touches, and the candidate's poll, hold-off and win, with all that a busy machine takes.
			for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
				select {
				case n := <-next:
					if n == nil {
						t.Fatal("the candidate has failed")
					}
					if m.Check() == nil {
						t.Error("two are proven")
					}
					released(t, m)
					released(t, n)
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
			if err := m.Check(); err != nil {
				t.Errorf("nobody leads: %v", err)
			}
			released(t, m)
			released(t, <-next)
		})
	}
}

// TestZooKeeperNonsense: children and data that are not elect's neither stop an election nor end a term. A mark that is
// not elect's is said, and makes the next leader wait.
func TestZooKeeperNonsense(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for sessions")
	t.Parallel()
	z := newZnodes(t, server.StartZooKeeper(t))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	log := &harness.Buffer{}
	a := z.elector(t, "a", slog.New(slog.NewTextHandler(log, nil)))
	queue := z.prefix + "/e"
	for _, name := range []string{"config", "-0000000000", "x-0000000003"} {
		if _, err := z.client.Create(queue+"/"+name, []byte("\xff"), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	m := a.campaign(ctx)
	if !strings.Contains(log.String(), "children that are no candidates are ignored") {
		t.Errorf("the log says %q; want a warning of the other children", log)
	}
	own := ""
	for _, e := range z.entries(t) {
		if strings.Contains(e, "-latch-") {
			own = e
		}
	}
	if _, err := z.client.Set(own, []byte("\xff nonsense\nnonsense"), -1); err != nil {
		t.Fatal(err)
	}
	if err := m.(driver.Confirmer).Confirm(ctx); err != nil {
		t.Errorf("%v; want a leader whose text was written over to lead on", err)
	}
	b := z.elector(t, "b", nil)
	if l := observed(t, ctx, b); !strings.HasPrefix(l.ID, "foreign-") || l.Token != m.Token() {
		t.Errorf("%+v; want a foreign leader with token %v", l, m.Token())
	}
	released(t, m)
	if _, err := z.client.Set(queue, []byte("nonsense"), -1); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	n := b.campaign(ctx)
	if took := time.Since(start); took < 6*time.Second {
		t.Errorf("it leads after %v, while nothing tells of the leader before it; want max_hold", took)
	}
	released(t, n)
}

// TestZooKeeperRights: a user without the rights is refused at the start, with a line that says which. What a user
// makes is that user's, or has the ACL of the URL.
func TestZooKeeperRights(t *testing.T) {
	long.Test(t, "it starts a server")
	t.Parallel()
	z := newZnodes(t, server.StartZooKeeper(t))
	open := func(user, query string) (driver.Elector, error) {
		u, err := url.Parse(fmt.Sprintf("zookeeper://%s%s%s?%s%s", user, z.zookeeper.Addr, z.prefix, slow, query))
		if err != nil {
			t.Fatal(err)
		}
		e, err := zookeeper.Open(t.Context(), driver.Target{URL: u, Name: "e", ID: "a"})
		if err == nil {
			t.Cleanup(func() { _ = e.Close() })
		}
		return e, err
	}
	e, err := open("jobs:hunter2@", "")
	if err != nil {
		t.Fatal(err)
	}
	m, err := e.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := z.client.AddAuth("digest", []byte("jobs:hunter2")); err != nil {
		t.Fatal(err)
	}
	acl, _, err := z.client.GetACL(z.prefix + "/e")
	if err != nil || len(acl) != 1 || acl[0].Scheme != "digest" || !strings.HasPrefix(acl[0].ID, "jobs:") || acl[0].Perms != zk.PermAll {
		t.Errorf("the queue has the ACL %+v, %v; want all rights for jobs", acl, err)
	}
	for _, user := range []string{"", "jobs:wrong@", "others:hunter2@"} {
		if _, err := open(user, ""); err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), "want a user with the rights") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("user %q: %v; want that the rights are missing", user, err)
		}
	}
	released(t, m)
	if _, err := open("", "&path=/readable&acl=world:anyone:cdrw"); err != nil {
		t.Error(err)
	}
	if acl, _, err := z.client.GetACL("/readable"); err != nil || len(acl) != 1 || acl[0].Perms != zk.PermAll&^zk.PermAdmin {
		t.Errorf("the queue has the ACL %+v, %v; want that of the URL", acl, err)
	}
}

// TestZooKeeperGrants: a session that the servers make longer or shorter than asked is refused, because no takeover
// time would hold.
func TestZooKeeperGrants(t *testing.T) {
	long.Test(t, "it starts a server")
	t.Parallel()
	z := newZnodes(t, server.StartZooKeeper(t, "minSessionTimeout=3000", "maxSessionTimeout=20000"))
	for lease, granted := range map[string]string{"2s": "3s", "30s": "20s"} {
		u, err := url.Parse(fmt.Sprintf("zookeeper://%s/e?lease=%s", z.zookeeper.Addr, lease))
		if err != nil {
			t.Fatal(err)
		}
		_, err = zookeeper.Open(t.Context(), driver.Target{URL: u, Name: "e", ID: "a"})
		if err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), "want lease="+granted) {
			t.Errorf("lease=%s: %v; want that %s is granted", lease, err, granted)
		}
	}
}

// TestZooKeeperServerIsLate: an elector that is opened while no server answers leads when one does.
func TestZooKeeperServerIsLate(t *testing.T) {
	long.Test(t, "it starts a server")
	t.Parallel()
	s := server.StartZooKeeper(t)
	z := newZnodes(t, s)
	s.Kill(t)
	log := &bytes.Buffer{}
	e := z.elector(t, "a", slog.New(slog.NewTextHandler(log, nil)))
	if !strings.Contains(log.String(), "refused") {
		t.Errorf("the log says %q; want that the connection was refused", log)
	}
	s.Start(t)
	released(t, e.campaign(t.Context()))
}

// TestZooKeeperExamine: what doctor is told.
func TestZooKeeperExamine(t *testing.T) {
	long.Test(t, "it starts a server")
	t.Parallel()
	z := newZnodes(t, server.StartZooKeeper(t))
	e := z.elector(t, "a", nil)
	for _, name := range []string{"config", "a__lock__0000000007"} {
		if _, err := z.client.Create(z.prefix+"/e/"+name, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	found, err := e.Elector.(driver.Examiner).Examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]driver.Finding{}
	for _, f := range found {
		said[f.What] = f
	}
	if f := said["server "+z.zookeeper.Addr]; f.Wrong || !strings.HasPrefix(f.Value, "version 3.") || !strings.HasSuffix(f.Value, ", standalone") {
		t.Errorf("%+v; want the version and the mode", f)
	}
	for what, value := range map[string]string{"numbers used": "2", "other children": "1", "other layouts": "1"} {
		if said[what].Value != value {
			t.Errorf("%s: %+v; want %s", what, said[what], value)
		}
	}
}
