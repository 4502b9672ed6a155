//go:build linux

package etcd_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fenceetcd"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
)

func get(t *testing.T, c *clientv3.Client, key string) string {
	t.Helper()
	resp, err := c.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}

func put(t *testing.T, c *clientv3.Client, key, text string) {
	t.Helper()
	if _, err := c.Put(t.Context(), key, text); err != nil {
		t.Fatal(err)
	}
}

// guard is the guard of a resource.
func guard(t testing.TB, c *clientv3.Client, resource fence.Resource) *fenceetcd.Guard {
	t.Helper()
	g, err := fenceetcd.New(c, resource, fenceetcd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestGuard tests what a mark admits and refuses.
func TestGuard(t *testing.T) {
	t.Parallel()
	c := server.StartEtcd(t).Client(t)
	f := guard(t, c, "r")
	write := func(token fence.Token, ops ...clientv3.Op) error {
		_, err := f.Write(t.Context(), token, append(ops, clientv3.OpPut("k", token.String()))...)
		return err
	}
	if err := write(1); !errors.Is(err, fence.ErrResource) {
		t.Errorf("a write before the resource was added: %v", err)
	}
	if err := f.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := guard(t, c, "s").Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	last := fence.Token(0)
	for _, token := range []fence.Token{1, 9, 10, 10, 1<<53 + 1, 1<<53 + 2, fence.MaxToken - 1, fence.MaxToken, fence.MaxToken} {
		if err := write(token); err != nil || get(t, c, "k") != token.String() {
			t.Fatalf("%v after %v: %v", token, last, err)
		}
		for _, smaller := range []fence.Token{1, 8, token - 1} {
			if smaller >= token || !smaller.Valid() {
				continue
			}
			err := write(smaller)
			if stale, ok := errors.AsType[*fence.StaleError](err); !ok || *stale != (fence.StaleError{Shown: smaller, Highest: token}) {
				t.Errorf("%v after %v: %v", smaller, token, err)
			}
		}
		if got := get(t, c, "k"); got != token.String() {
			t.Fatalf("a refused write was applied: %s", got)
		}
		if err := f.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		last = token
	}
	for resource, want := range map[fence.Resource]fence.Token{"r": fence.MaxToken, "s": 0} {
		if s, err := guard(t, c, resource).Status(t.Context()); err != nil || s.Highest != want || s.Revision == 0 {
			t.Errorf("the status of %s: %+v, %v; want %v", resource, s, err, want)
		}
	}
	for token, want := range map[fence.Token]error{0: fence.ErrMissing, 1 << 48: fence.ErrToken, 1 << 63: fence.ErrToken, 1<<64 - 1: fence.ErrToken} {
		if err := write(token); !errors.Is(err, want) {
			t.Errorf("%d: %v; want %v", uint64(token), err, want)
		}
	}
	if _, err := fenceetcd.New(c, "no name", fenceetcd.Config{}); !errors.Is(err, fence.ErrResource) {
		t.Errorf("a malformed resource: %v", err)
	}
	if err := f.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := write(fence.MaxToken); !errors.Is(err, fence.ErrResource) {
		t.Errorf("a write after the resource was removed: %v", err)
	}
	if _, err := f.Status(t.Context()); !errors.Is(err, fence.ErrResource) {
		t.Errorf("the mark of a resource that was removed: %v", err)
	}
}

// TestOperations: an operation that etcd itself refuses has a known outcome, and changes nothing,
// at any place in the list; responses are those of the operations.
func TestOperations(t *testing.T) {
	t.Parallel()
	c := server.StartEtcd(t).Client(t)
	f := guard(t, c, "r")
	if err := f.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, c, "k", "before")
	resp, err := f.Write(t.Context(), 5, clientv3.OpGet("k"), clientv3.OpPut("k", "after"))
	if err != nil || len(resp.Responses) != 2 || string(resp.Responses[0].GetResponseRange().Kvs[0].Value) != "before" {
		t.Errorf("%v, %v", resp, err)
	}
	grant, err := c.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Revoke(t.Context(), grant.ID); err != nil {
		t.Fatal(err)
	}
	for name, refused := range map[string]struct {
		want error
		ops  []clientv3.Op
	}{
		"puts the mark":              {rpctypes.ErrDuplicateKey, []clientv3.Op{clientv3.OpPut(f.MarkKey(), fence.Token(1).Fixed())}},
		"deletes the mark":           {rpctypes.ErrDuplicateKey, []clientv3.Op{clientv3.OpDelete(f.MarkKey())}},
		"deletes all marks":          {rpctypes.ErrDuplicateKey, []clientv3.Op{clientv3.OpDelete(fenceetcd.DefaultPrefix, clientv3.WithPrefix())}},
		"puts the mark further in":   {rpctypes.ErrDuplicateKey, []clientv3.Op{clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(f.MarkKey(), "0")}, nil)}},
		"more operations than 127":   {rpctypes.ErrTooManyOps, slices.Repeat([]clientv3.Op{clientv3.OpGet("k")}, 128)},
		"a lease that has gone":      {rpctypes.ErrLeaseNotFound, []clientv3.Op{clientv3.OpPut("leased", "", clientv3.WithLease(grant.ID))}},
		"a key that is not there":    {rpctypes.ErrKeyNotFound, []clientv3.Op{clientv3.OpPut("no key", "", clientv3.WithIgnoreValue())}},
		"a revision that is to come": {rpctypes.ErrFutureRev, []clientv3.Op{clientv3.OpGet("k", clientv3.WithRev(1<<40))}},
	} {
		for _, ops := range [][]clientv3.Op{append(slices.Clone(refused.ops), clientv3.OpPut("k", name)), append([]clientv3.Op{clientv3.OpPut("k", name)}, refused.ops...)} {
			_, err := f.Write(t.Context(), 6, ops...)
			if !errors.Is(err, refused.want) || errors.Is(err, fence.ErrUnknownOutcome) {
				t.Errorf("%s: %v; want %v", name, err, refused.want)
			}
		}
	}
	if s, err := f.Status(t.Context()); s.Highest != 5 || err != nil || get(t, c, "k") != "after" {
		t.Errorf("the mark is %v, %v, and the key %q", s.Highest, err, get(t, c, "k"))
	}
}

// TestForeignMarks: a mark that was written by hand refuses all.
func TestForeignMarks(t *testing.T) {
	c := server.StartEtcd(t).Client(t)
	f := guard(t, c, "r")
	for _, text := range []string{"", "0", "7", "42", "9223372036854775808", "forty-two"} {
		put(t, c, f.MarkKey(), text)
		_, err := f.Write(t.Context(), 50, clientv3.OpPut("k", "applied"))
		if err == nil || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrUnknownOutcome) || get(t, c, "k") != "" {
			t.Errorf("with the mark %q: %v", text, err)
		}
	}
}

// TestUnpadded: the order of decimal text is not that of numbers, so the mark has 19 digits.
func TestUnpadded(t *testing.T) {
	c := server.StartEtcd(t).Client(t)
	put(t, c, "mark", "")
	write := func(token fence.Token) bool {
		resp, err := c.Txn(t.Context()).
			If(clientv3.Compare(clientv3.Value("mark"), "<", (token+1).String())).
			Then(clientv3.OpPut("mark", token.String()), clientv3.OpPut("k", token.String())).
			Commit()
		if err != nil {
			t.Fatal(err)
		}
		return resp.Succeeded
	}
	if !write(10) || !write(8) || get(t, c, "k") != "8" {
		t.Errorf("8 was refused after 10, as plain text: the key is %q", get(t, c, "k"))
	}
}

// campaign wins an election and returns its key, and its lease.
func campaign(t *testing.T, c *clientv3.Client) (*concurrency.Election, *concurrency.Session) {
	t.Helper()
	s, err := concurrency.NewSession(c, concurrency.WithTTL(60))
	if err != nil {
		t.Fatal(err)
	}
	e := concurrency.NewElection(s, "election")
	if err := e.Campaign(t.Context(), "somebody"); err != nil {
		t.Fatal(err)
	}
	return e, s
}

// TestKey: a term writes as long as its key exists.
func TestKey(t *testing.T) {
	c := server.StartEtcd(t).Client(t)
	first, lease := campaign(t, c)
	older := fenceetcd.KeyOf(first)
	write := func(k fenceetcd.Key, text string) error {
		_, err := k.Write(t.Context(), c, clientv3.OpPut("k", text))
		return err
	}
	if err := older.Claim(t.Context(), c); err != nil {
		t.Errorf("a claim: %v", err)
	}
	if err := write(older, "older"); err != nil {
		t.Errorf("a write: %v", err)
	}
	token, err := older.Token()
	if err != nil || token.Count() != uint64(older.Revision) {
		t.Errorf("the token of %v: %v, %v", older, token, err)
	}
	// There is no leader.
	if _, err := c.Revoke(t.Context(), lease.Lease()); err != nil {
		t.Fatal(err)
	}
	err = write(older, "nobody leads")
	if stale, ok := errors.AsType[*fence.StaleError](err); !ok || *stale != (fence.StaleError{Shown: token, Highest: token}) || !errors.Is(err, fenceetcd.ErrGone) {
		t.Errorf("after the lease has gone: %v", err)
	}
	// Another leads.
	second, _ := campaign(t, c)
	newer := fenceetcd.KeyOf(second)
	later, _ := newer.Token()
	if later <= token {
		t.Errorf("the later token is %v, the earlier one %v", later, token)
	}
	if err := write(newer, "newer"); err != nil {
		t.Errorf("a write of the later leader: %v", err)
	}
	err = write(older, "older again")
	if stale, ok := errors.AsType[*fence.StaleError](err); !ok || *stale != (fence.StaleError{Shown: token, Highest: later}) || !errors.Is(err, fenceetcd.ErrGone) {
		t.Errorf("after another was elected: %v", err)
	}
	// The same name with another revision is another term.
	put(t, c, older.Name, "made again")
	if err := write(older, "by another's key"); !errors.Is(err, fence.ErrStale) {
		t.Errorf("with a key that was made again: %v", err)
	}
	if got := get(t, c, "k"); got != "newer" {
		t.Errorf("a refused write was applied: %q", got)
	}
	for _, none := range []fenceetcd.Key{{}, {Name: "k"}, {Revision: 1}, {Name: "k", Revision: -1}} {
		if err := write(none, "none"); !errors.Is(err, fence.ErrMissing) {
			t.Errorf("%v: %v", none, err)
		}
	}
}

// TestKilled kills etcd at random moments of guarded writes. Afterwards every acknowledged write is
// there, and the mark is that of the value beside it.
func TestKilled(t *testing.T) {
	long.Test(t, "it starts a real server and freezes processes")
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("the seed is %d", seed)
	etcd := server.StartEtcd(t)
	c := etcd.Client(t)
	f := guard(t, c, "r")
	if err := f.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	token, unknown := fence.Token(0), 0
	for range 8 {
		ctx, cancel := context.WithCancel(t.Context())
		var shown, answered atomic.Uint64
		done := make(chan error, 1)
		go func() {
			for n := token + 1; ; n++ {
				shown.Store(uint64(n))
				_, err := f.Write(ctx, n, clientv3.OpPut("k", strconv.FormatUint(uint64(n), 10)))
				if err != nil {
					done <- err
					return
				}
				answered.Store(uint64(n))
			}
		}()
		// A moment within the writes, not at the answer of one.
		after := uint64(token) + 1 + random.Uint64N(20)
		for answered.Load() < after {
			select {
			case err := <-done:
				t.Fatalf("before the kill: %v", err)
			case <-time.After(time.Duration(random.Int64N(int64(3 * time.Millisecond)))):
			}
		}
		etcd.Kill(t)
		cancel()
		if err := <-done; errors.Is(err, fence.ErrStale) || !errors.Is(err, fence.ErrUnknownOutcome) {
			t.Errorf("a write that was not answered: %v", err)
		}
		etcd.Start(t)
		s, err := f.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		highest := s.Highest
		if highest < fence.Token(answered.Load()) || highest > fence.Token(shown.Load()) {
			t.Errorf("%d was answered and %d was shown, and the mark is %v", answered.Load(), shown.Load(), highest)
		}
		if got := get(t, c, "k"); got != highest.String() {
			t.Errorf("the mark is %v and the value beside it %s", highest, got)
		}
		if uint64(highest) > answered.Load() {
			unknown++
		}
		if highest > 1 {
			if err := f.Claim(t.Context(), highest-1); !errors.Is(err, fence.ErrStale) {
				t.Errorf("%v after %v: %v", highest-1, highest, err)
			}
		}
		token = highest
	}
	t.Logf("%d writes; %d of 8 that were not answered had been applied", token, unknown)
}
