package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/peer/certs"
)

func TestResign(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		set   func(w *fakeNodes)
		token fence.Token
		want  error
		says  string
		took  time.Duration
		asked fence.Token // that n1 resigned with
	}{
		{name: "whoever leads", asked: 5},
		{name: "by its token", token: 5, asked: 5},
		{name: "by another token", token: 4, want: driver.ErrSuperseded, says: "superseded: n1 leads with token 5, and not with 4"},
		{name: "nobody leads", set: func(w *fakeNodes) { w.sees(driver.State{Cause: errors.New("not founded")}, "n1", "n2", "n3") }, want: driver.ErrNoLeader, says: "no leader: not founded"},
		{name: "nobody answers", set: func(w *fakeNodes) { w.is(down, "n1", "n2", "n3") }, want: driver.ErrUnreachable, says: "cannot tell who leads: store or peers unreachable: n1@"},
		{name: "the way to the leader is cut", set: func(w *fakeNodes) { w.is(down, "n1") }, asked: 5},
		{name: "packets to the leader are lost", set: func(w *fakeNodes) { w.is(lost, "n1") }, asked: 5, took: dialLimit},
		{name: "behind", set: func(w *fakeNodes) { w.sees(ledBy("n1", 6), "n1") }, token: 5, want: driver.ErrSuperseded, says: "token 6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newNodes("n1", "n2", "n3")
				w.sees(ledBy("n1", 5), "n1", "n2", "n3")
				if c.set != nil {
					c.set(w)
				}
				start := time.Now()
				err := w.client(t).Resign(t.Context(), c.token)
				if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v; want %v: %s", err, c.want, c.says)
				}
				if took := time.Since(start); took != c.took {
					t.Errorf("it took %v; want %v", took, c.took)
				}
				var asked fence.Token
				if n := w.nodes["n1"]; len(n.resigned) > 0 {
					asked = n.resigned[0]
				}
				if asked != c.asked {
					t.Errorf("n1 resigned with token %v; want %v", asked, c.asked)
				}
				if n := w.connections(); n != 0 {
					t.Errorf("%d connections are left", n)
				}
			})
		})
	}
}

// A leader that resigns and dies before it answers is asked again through another node, and is gone. That counts as
// success.
func TestResignOfOneThatDies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newNodes("n1", "n2", "n3")
		w.sees(ledBy("n1", 5), "n1", "n2", "n3")
		c := w.client(t)
		c.dial = func(ctx context.Context, to Peer) (conn, error) {
			inner, err := w.dial(ctx, to)
			return &deafened{inner, to.ID == "n1"}, err
		}
		if err := c.Resign(t.Context(), 0); err != nil {
			t.Error(err)
		}
		if n := w.nodes["n1"]; !reflect.DeepEqual(n.resigned, []fence.Token{5}) {
			t.Errorf("n1 resigned with %v", n.resigned)
		}
	})
}

// Resign is about the present leader: if another is elected before the leader could be asked, that one is asked.
func TestResignOfOneThatChanges(t *testing.T) {
	t.Parallel()
	for _, token := range []fence.Token{0, 5} {
		synctest.Test(t, func(t *testing.T) {
			w := newNodes("n1", "n2", "n3")
			w.sees(ledBy("n1", 5), "n1", "n2", "n3")
			c := w.client(t)
			var once sync.Once
			c.dial = func(ctx context.Context, to Peer) (conn, error) {
				inner, err := w.dial(ctx, to)
				return &hooked{inner, func() { once.Do(func() { w.sees(ledBy("n2", 6), "n1", "n2", "n3") }) }}, err
			}
			err := c.Resign(t.Context(), token)
			if token == 0 && (err != nil || !reflect.DeepEqual(w.nodes["n2"].resigned, []fence.Token{6})) {
				t.Errorf("%v; n2 resigned with %v", err, w.nodes["n2"].resigned)
			}
			if token != 0 && (!errors.Is(err, driver.ErrSuperseded) || w.nodes["n2"].resigned != nil) {
				t.Errorf("%v; want ErrSuperseded", err)
			}
		})
	}
}

// hooked does something before a resign.
type hooked struct {
	conn
	before func()
}

func (h *hooked) Call(ctx context.Context, verb string, token uint64, body any, each func(json.RawMessage) error) error {
	if verb == verbResign {
		h.before()
	}
	return h.conn.Call(ctx, verb, token, body, each)
}

// deafened loses the answer to a resign.
type deafened struct {
	conn
	deaf bool
}

func (d *deafened) Call(ctx context.Context, verb string, token uint64, body any, each func(json.RawMessage) error) error {
	err := d.conn.Call(ctx, verb, token, body, each)
	if d.deaf && verb == verbResign {
		return io.ErrUnexpectedEOF
	}
	return err
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newNodes("n1", "n2", "n3", "o1")
		w.is(frozen, "n2")
		w.is(down, "n3")
		c := w.client(t, Peer{ID: "o1", Addr: "127.0.0.1:9"})
		start := time.Now()
		var got []string
		for _, r := range c.Statuses(t.Context()) {
			if (r.Err == nil) == (r.Status == nil) {
				t.Errorf("%s: %+v, %v; want one of the two", r.Peer, r.Status, r.Err)
			}
			text := r.Peer.String()
			if r.Err != nil {
				text += ": " + r.Err.Error()
			} else {
				text += ": " + string(r.Status.ID)
			}
			got = append(got, text)
		}
		want := []string{"n1@127.0.0.1:1: n1", "n2@127.0.0.1:2: no answer within 3s", "n3@127.0.0.1:3: connection refused", "o1@127.0.0.1:9: o1"}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %q; want %q", got, want)
		}
		if took := time.Since(start); took != statusLimit {
			t.Errorf("it took %v; want %v: all at the same time", took, statusLimit)
		}
		if n := w.connections(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for _, r := range c.Statuses(t.Context()) {
			if !errors.Is(r.Err, driver.ErrClosed) && r.Peer.ID == "n2" {
				t.Errorf("a closed client: %v", r.Err)
			}
		}
	})
}

func TestHistory(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(int64(s), 0).UTC() }
	w := newNodes("n1", "n2", "n3")
	w.nodes["n1"].events = []Event{
		{At: at(10), Event: "active", Leader: "n1", Token: 5}, // at the same time by its clock
		{At: at(10), Event: "elected", Leader: "n1", Token: 5},
		{At: at(20), Event: "lost", Leader: "n1", Token: 5, Reason: "resigned"},
		{At: at(21), Event: "follows", Leader: "n2", Token: 6},
	}
	w.nodes["n2"].events = []Event{
		{At: at(3), Event: "follows", Leader: "n9", Token: 4}, // whose own account is not there
		{At: at(11), Event: "follows", Leader: "n1", Token: 5},
		{At: at(5), Event: "elected", Leader: "n2", Token: 6}, // its clock is behind
	}
	w.nodes["n3"].events = []Event{
		{At: at(4), Event: "follows", Leader: "n9", Token: 4, Reason: "known to n3"},
		{At: at(9), Event: "follows", Leader: "n1", Token: 5},
	}
	c := w.client(t)
	var got []string
	all, err := c.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%d %v %s %s %s", e.At.Unix(), e.Token, e.Event, e.Leader, e.Reason)))
	}
	want := []string{"3 4 follows n9 known to n3", "10 5 elected n1", "10 5 active n1", "20 5 lost n1 resigned", "5 6 elected n2"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}

	w.is(down, "n2")
	all, err = c.History(t.Context())
	if !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "n2@127.0.0.1:2: connection refused") || strings.Contains(err.Error(), "n1@") {
		t.Errorf("%v; want an error that names n2 alone", err)
	}
	if len(all) != 5 {
		t.Errorf("%d events; want those of the other nodes", len(all))
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.History(t.Context()); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("a closed client: %v", err)
	}
}

func TestClientDoesNotStand(t *testing.T) {
	t.Parallel()
	c := newNodes("n1", "n2", "n3").client(t, Peer{ID: "o1"})
	_, err := c.Campaign(t.Context(), driver.Candidacy{})
	if !driver.IsPermanent(err) || !strings.Contains(err.Error(), "want elect.Config.ID to be one of: n1, n2, n3") {
		t.Errorf("Campaign: %v", err)
	}
	l := c.Limits()
	if !l.Exclusive || l.Lease <= 0 || !reflect.DeepEqual(l.Abilities, []driver.Ability{driver.AbilityResign, driver.AbilityTransfer}) {
		t.Errorf("Limits: %+v", l)
	}
	if r := c.Statuses(t.Context()); len(r) != 4 || r[3].Err == nil || !strings.Contains(r[3].Err.Error(), "no address of it") {
		t.Errorf("an observer without an address: %+v", r)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Campaign(t.Context(), driver.Candidacy{}); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("Campaign after Close: %v", err)
	}
	if err := c.Resign(t.Context(), 0); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("Resign after Close: %v", err)
	}
}

func TestNewClientRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  setup
		want string
	}{
		{setup{Name: "nightly"}, "no voters"},
		{setup{Name: "a/b", Voters: ids3()}, "election name"},
		{setup{Name: "nightly", Voters: []Peer{{ID: "n1", Addr: "192.0.2.1:7400"}}}, "insecure=true"},
		{setup{Name: "nightly", Voters: ids3(), Config: Config{Certs: filepath.Join(t.TempDir(), "none")}}, "no certificate to ask with"},
	} {
		if _, err := newClient(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want an error with %q", err, c.want)
		}
	}
}

// The client uses the operator's certificate, or that of a node on whose machine it is.
func TestClientIdentity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := certs.Make(dir, certs.Options{Cluster: "blue", Nodes: []certs.Node{{ID: "n2", Hosts: []string{"127.0.0.1"}}}}); err != nil {
		t.Fatal(err)
	}
	cfg := setup{Name: "nightly", Voters: ids3(), Config: Config{Certs: dir}}
	id, err := cfg.clientIdentity()
	if err != nil || id.ID != "~operator" || cfg.Cluster != "blue" {
		t.Fatalf("%+v, %v; cluster %q", id, err, cfg.Cluster)
	}
	for _, name := range []string{"operator.crt", "operator.key"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Cluster = ""
	if id, err := cfg.clientIdentity(); err != nil || id.ID != "n2" || cfg.Cluster != "blue" {
		t.Fatalf("%+v, %v; cluster %q", id, err, cfg.Cluster)
	}
	cfg.Cluster = "green"
	if _, err := cfg.clientIdentity(); err == nil {
		t.Error("a certificate of another cluster is used")
	}
}
