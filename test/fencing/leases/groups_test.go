//go:build linux && cgo

package leases_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/group"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/proc"
	"github.com/electd/elect/store/etcd"
)

// memberVariable makes this program a guarded member of a group: "URL ID KEY...".
const memberVariable = "ELECT_TEST_MEMBER"

// witness is that of keepers. The coordinators of the tests are elected in etcd.
var witness = group.Witness(group.WitnessConfig{Election: etcd.Witness})

// belong stands for the keys.
func belong(arguments []string) {
	guardian, err := supervise.Guard(supervise.GuardConfig{})
	if err != nil {
		panic(err)
	}
	fmt.Println(os.Getpid(), os.Getppid())
	openers, ctx := elect.Openers{"group+etcd": group.Opener(etcd.Open)}, context.Background()
	for _, key := range arguments[2:] {
		e, err := openers.Open(ctx, arguments[0], key, elect.Config{ID: arguments[1], Guardian: guardian})
		if err != nil {
			panic(err)
		}
		go func() {
			panic(e.Lead(ctx, func(ctx context.Context, _ *elect.Term) error {
				<-ctx.Done()
				return nil
			}))
		}()
	}
	select {}
}

// startMember starts one, and returns the pid of the program that its keeper runs.
func startMember(t *testing.T, at, id string, keys ...string) (pid int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), memberVariable+"="+strings.Join(append([]string{at, id}, keys...), " "))
	cmd.Stderr = t.Output()
	_, out := harness.Start(t, cmd)
	keeper := 0
	t.Cleanup(func() {
		if p, ok := proc.Read(keeper); ok && p.Parent == cmd.Process.Pid { // the last one would look for a coordinator
			_ = syscall.Kill(keeper, syscall.SIGKILL)
		}
		harness.End(cmd)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, bad := fmt.Sscan(line, &pid, &keeper); bad != nil {
		t.Fatalf("%s says %q, %v; want the pids of its program and its keeper", id, line, err)
	}
	return pid
}

// TestGroupOverEtcd kills one coordinator after the other. The keepers, as witnesses, end its lease and free its keys, so
// that nobody waits for a lease of 30 s; members that live keep their keys; and tokens, which are made of revisions, rise.
func TestGroupOverEtcd(t *testing.T) {
	long.Test(t, "it starts a server, and members in processes")
	k := newKeys(t, startEtcd(t))
	k.times = "lease=30s&max_hold=15s&poll=3s"
	at := "group+" + k.url("") + "&group-name=e&group-promise=10s&group-token-bits=8"
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	client, err := group.OpenClient(ctx, etcd.Open, parse(t, at), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	shared, pids := []string{"x", "y", "z"}, map[string]int{}
	start := func(id string) { pids[id] = startMember(t, at, id, append(shared, "of-"+id)...) }
	// led waits until all keys of living members are led, and returns who leads them, after whom.
	led := func() (keys map[string]group.KeyStatus, s group.Status) {
		t.Helper()
		for ctx.Err() == nil {
			all, _ := client.Keys(ctx, "")
			keys = map[string]group.KeyStatus{}
			for _, key := range all {
				if pids[key.Holder] != 0 {
					keys[key.Key] = key
				}
			}
			if s, err = client.Status(ctx); err == nil && len(keys) == len(shared)+len(pids) && pids[s.Coordinator] != 0 {
				return keys, s
			}
			<-time.After(20 * time.Millisecond)
		}
		t.Fatalf("%v are led, and %+v; want %v and a key of each of %v", slices.Collect(maps.Keys(keys)), s, shared, pids)
		return
	}
	start("a")
	led() // it has all keys, and coordinates
	start("b")
	start("c")
	was, s := led()
	for range 2 {
		old, began := s.Coordinator, time.Now()
		if err := syscall.Kill(pids[old], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		delete(pids, old)
		is, next := led()
		took := time.Since(began)
		t.Logf("the keys of %s, which coordinated, are led after %v", old, took)
		if took > 10*time.Second {
			t.Errorf("the keys of %s, which has died as coordinator, are led after %v; want less than the lease and the promise", old, took)
		}
		key, _ := k.first(t)
		r, err := k.client.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if revision := fence.Token(r.Kvs[0].CreateRevision); next.Token != revision || next.Token <= s.Token {
			t.Errorf("the coordinator %s has token %v after %v; want the revision of its key, %v", next.Coordinator, next.Token, s.Token, revision)
		}
		for name, now := range is {
			switch before := was[name]; {
			case before.Holder == old && (now.Token <= before.Token || now.Token>>8 != next.Token):
				t.Errorf("%s of %s has token %v after %v; want one of the coordinator's %v", name, now.Holder, now.Token, before.Token, next.Token)
			case before.Holder != old && now.Token < before.Token, strings.HasPrefix(name, "of-") && now.Token != before.Token:
				t.Errorf("%s of %s has token %v after %v; want the same", name, now.Holder, now.Token, before.Token)
			}
		}
		start(old)
		was, s = led()
	}
}
