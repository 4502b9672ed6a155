//go:build linux && cgo

package leases_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

// TestEtcdWish: an operator's wish ends the term of elect's leader at once. A native candidate that
// waits behind it leads next, and is not asked itself.
func TestEtcdWish(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	t.Parallel()
	k := newKeys(t, startEtcd(t))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	ours, operator := k.elector(t, "ours", nil), k.elector(t, "operator", nil).Elector.(driver.Resigner)
	m := ours.campaign(ctx)
	native := k.native(t, 60)
	next := stand(ctx, native)
	k.enters(ctx, t, 2)
	if err := operator.Resign(ctx, m.Token()+1); !errors.Is(err, driver.ErrSuperseded) {
		t.Errorf("another token: %v; want ErrSuperseded", err)
	}
	if err := operator.Resign(ctx, m.Token()); err != nil {
		t.Fatal(err)
	}
	lost(t, ctx, m, driver.ErrResigned)
	select {
	case err := <-next:
		t.Errorf("%v: the native has stopped waiting, and the work has not returned", err)
	default:
	}
	released(t, m)
	if err := <-next; err != nil {
		t.Fatal(err)
	}
	before, err := k.client.Get(ctx, native.Key())
	if err != nil {
		t.Fatal(err)
	}
	if err := operator.Resign(ctx, 0); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a native: %v; want ErrUnsupported", err)
	}
	after, err := k.client.Get(ctx, native.Key())
	if err != nil {
		t.Fatal(err)
	}
	if len(before.Kvs) != 1 || len(after.Kvs) != 1 || before.Kvs[0].ModRevision != after.Kvs[0].ModRevision || before.Header.Revision != after.Header.Revision {
		t.Errorf("%v became %v", before, after)
	}
	if r, err := k.client.Get(ctx, k.prefix+"/e.elect.wish"); err != nil || len(r.Kvs) != 0 {
		t.Errorf("the wish outlives its leader: %v, %v", r, err)
	}
	if err := native.Resign(ctx); err != nil {
		t.Error(err)
	}
}

// operator runs a verb of the command at an election.
type operator struct {
	*testing.T
	program, url string
}

// ends runs a verb, and wants an exit code, and a text in what it writes.
func (o operator) ends(code int, text string, verb ...string) (stdout string) {
	o.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(o.program, append(verb, "--election", o.url, "--name", "e")...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the code tells
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(out.String()+errs.String(), text) {
		o.Errorf("elect %s: code %d\n%s%s\nwant code %d, and %q", strings.Join(verb, " "), got, &out, &errs, code, text)
	}
	return out.String()
}

// shown is what status and watch write as JSON.
type shown struct {
	Leader struct {
		ID, Token string
		Since     time.Time
		Metadata  map[string]string
	}
	Stale bool
}

// is checks that a line of JSON shows a leader with all that belongs to it, and returns its token. With servers_fixed=on
// nothing tells since when it leads.
func (o operator) is(line, id string) (token string) {
	o.Helper()
	var s shown
	if err := json.Unmarshal([]byte(line), &s); err != nil {
		o.Fatal(err)
	}
	if l := s.Leader; s.Stale || l.ID != id || l.Token == "" || l.Metadata["contain"] == "" || time.Since(l.Since) > time.Hour && !strings.Contains(o.url, "servers_fixed=on") {
		o.Errorf("%s; want the leader %s, with token, since and contain", line, id)
	}
	return s.Leader.Token
}

// TestVerbs runs an operator's verbs at elections of elect run in real stores. What a store cannot carry is refused and
// changes nothing. A leader that is asked resigns, also while it drains. No verb says that a dead leader has agreed.
func TestVerbs(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	program := harness.Build(t, "../../../cmd/elect")
	all := stores(t, "4s")
	byDefault := all["etcd"]
	all["etcd, servers_fixed"] = func(t *testing.T) string { return byDefault(t) + "&servers_fixed=on" }
	for name, at := range all {
		t.Run(name, func(t *testing.T) {
			o := operator{t, program, at(t)}
			a := stands(t, program, o.url, "a")
			a.leads(t)
			token := o.is(o.ends(0, "", "status", "-o", "json"), "a")
			watch := exec.Command(program, "watch", "--election", o.url, "--name", "e", "-o", "json")
			var seen harness.Buffer
			watch.Stdout = &seen
			if err := watch.Start(); err != nil {
				t.Fatal(err)
			}
			defer harness.End(watch)
			sees := func(id string) {
				t.Helper()
				harness.Eventually(t, "watch shows "+id, func() bool { return strings.Contains(seen.String(), `"id":"`+id+`"`) })
			}
			sees("a")
			line, _, _ := strings.Cut(seen.String(), "\n")
			o.is(line, "a")

			o.ends(69, "elect resign hands over", "transfer", "--to", "b")
			o.ends(69, "end it", "pause", "--all")
			o.ends(69, "end it", "resume", "--node", "a")
			o.ends(69, "elect watch shows", "history")
			o.ends(69, "elect status shows", "members")
			if again := o.is(o.ends(0, "", "status", "-o", "json"), "a"); again != token {
				t.Errorf("token %s became %s by verbs that were refused", token, again)
			}

			begin := func(id string) *candidate {
				c := stands(t, program, o.url, id)
				harness.Eventually(t, id+" stands by", func() bool { return strings.Contains(c.said.String(), "standing by for e (behind") })
				return c
			}
			b := begin("b")
			o.ends(0, "a (token "+token+") has agreed to resign from e, or its term has ended", "resign")
			work := b.leads(t)
			sees("b")

			// It dies with its keeper, so that nobody obeys and nobody frees the lease.
			c := begin("c")
			b.signal(syscall.SIGSTOP)
			killed(keeperOf(work), work, b.cmd.Process.Pid)
			if err := exec.Command(program, "resign", "--election", o.url, "--name", "e", "--token", o.is(o.ends(0, "", "status", "-o", "json"), "b")).Run(); err != nil && err.(*exec.ExitError).ExitCode() != 69 {
				t.Errorf("resign of a dead leader: %v; want 0 when its term has ended, or 69 without an answer", err)
			}
			c.leads(t)
			token = o.is(o.ends(0, "", "status", "-o", "json"), "c")

			// It drains for another reason.
			d := began(t, "d", exec.Command(program, "run", "--grace", "1m", "--election", o.url, "--name", "e", "--id", "d", "--",
				"sh", "-c", "trap 'echo drains' TERM; echo $$; while :; do sleep 1; done"))
			harness.Eventually(t, "d stands by", func() bool { return strings.Contains(d.said.String(), "standing by for e (behind") })
			o.ends(69, "no leader was asked to resign", "resign", "--token", token+"0")
			o.ends(0, "c (token "+token+")", "resign", "--token", token)
			d.leads(t)
			d.signal(syscall.SIGTERM)
			harness.Eventually(t, "d drains", func() bool { return strings.Contains(d.wrote.String(), "drains") })
			o.ends(0, "d (token", "resign")
			if o.is(o.ends(0, "", "status", "-o", "json"), "d"); strings.Contains(d.said.String(), "released") {
				t.Error("d has not drained; want a leader that was asked while it drains")
			}
		})
	}
}
