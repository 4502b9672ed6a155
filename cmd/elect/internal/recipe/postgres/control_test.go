package postgres

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/peer/certs"
)

// answering is a node of few words.
type answering struct{ said string }

func (a *answering) state(_ context.Context, confirm bool) Status {
	return Status{Name: "orders", ID: "n1", Confirmed: confirm}
}

func (a *answering) promise(_ context.Context, token uint64) (answer, error) {
	if token < 5 {
		return answer{}, &refusal{5}
	}
	return answer{ID: "n1", Whole: true, LSN: token}, nil
}

func (a *answering) handOver(_ context.Context, to string) error {
	return errors.New("cannot hand over to " + to)
}

func (a *answering) pause(on bool) error { a.said = "paused"; return nil }

// channel serves one node, and returns the settings of clients.
func channel(t *testing.T, with func(*Settings, *control)) *Settings {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Settings{Name: "orders", ID: "n2", Nodes: []NodeEntry{{ID: "n1", Control: l.Addr().String()}, {ID: "n2"}}}
	c := &control{of: &answering{}, name: s.cluster(), ids: s.ids()}
	with(s, c)
	if c.certs != nil {
		t.Cleanup(serve(l, c, c.certs.Server(), slog.New(slog.DiscardHandler)))
	} else {
		t.Cleanup(serve(l, c, nil, slog.New(slog.DiscardHandler)))
	}
	return s
}

func TestSecret(t *testing.T) {
	s := channel(t, func(_ *Settings, c *control) { c.secret = "sixteen bytes ok" })
	right, err := NewClient(s, "sixteen bytes ok")
	if err != nil {
		t.Fatal(err)
	}
	n := right.node("n1")
	if got, err := n.status(t.Context(), true); err != nil || !got.Confirmed {
		t.Errorf("%+v, %v; want a status", got, err)
	}
	if got, err := n.prepare(t.Context(), 7); err != nil || got.LSN != 7 {
		t.Errorf("%+v, %v; want an answer", got, err)
	}
	_, err = n.prepare(t.Context(), 4)
	if r, ok := errors.AsType[*refusal](err); !ok || r.Promised != 5 {
		t.Errorf("%v; want a refusal", err)
	}
	if err := right.Switchover(t.Context(), "n1", "n9"); err == nil || !strings.Contains(err.Error(), "cannot hand over to n9") {
		t.Errorf("%v; want the reason", err)
	}
	for _, c := range []struct{ secret, cluster, want string }{{"another one 16 b", "orders", "want that of secret-file"}, {"", "orders", "want that of secret-file"}, {"sixteen bytes ok", "other", "this is the cluster orders with confirm 0 of n1, n2"}} {
		other := *s
		other.Name = c.cluster
		wrong, err := NewClient(&other, c.secret)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wrong.node("n1").prepare(t.Context(), 7); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want %s", err, c.want)
		}
	}
	other := *s
	other.Confirm = 1
	wrong, err := NewClient(&other, "sixteen bytes ok")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wrong.node("n1").prepare(t.Context(), 7); err == nil || !strings.Contains(err.Error(), "want the same name, confirm and nodes") {
		t.Errorf("%v; want that a node which counts otherwise is refused", err)
	}
}

func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	if err := certs.Make(dir, certs.Options{Cluster: "c", Nodes: []certs.Node{{ID: "n1"}, {ID: "n2"}, {ID: "n7"}}, Operators: []certs.OperatorSpec{{Role: certs.Observe}, {Role: certs.Operate}}}); err != nil {
		t.Fatal(err)
	}
	load := func(id string) *certs.Identity {
		i, err := certs.LoadDir(dir, id)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	s := channel(t, func(s *Settings, c *control) { s.Certs, c.certs = dir, load("n1") })
	for _, c := range []struct {
		id      string
		prepare bool
	}{{"n2", true}, {"n7", false}, {"", false}} {
		client, err := NewClient(s, "")
		if err != nil {
			t.Fatal(err)
		}
		identity := load(c.id)
		client.use(identity)
		if _, err := client.node("n1").prepare(t.Context(), 7); (err == nil) != c.prepare {
			t.Errorf("%s: %v; want that it may prepare: %v", identity.ID, err, c.prepare)
		}
		if _, err := client.Status(t.Context(), "n1"); (err == nil) != (c.id != "n7") {
			t.Errorf("%s: %v; want that nodes of the cluster and operators may look, and others not", identity.ID, err)
		}
	}
	plain, err := NewClient(&Settings{Name: "orders", Nodes: s.Nodes}, "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Status(t.Context(), "n1"); err == nil {
		t.Error("a client without TLS was answered; want an error")
	}
}

// TestPromiseInterrupts has a promise come while a copy is made: a whole node gives the copy up and answers.
func TestPromiseInterrupts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 3)
		p := l.primary()
		l.settled(p)
		i := (p + 1) % 3
		l.stop(i)
		l.keeps[i].of = saved{}
		l.dbs[i].slow = time.Hour
		l.start(i, l.nodes[p].s.Nodes)
		time.Sleep(5 * time.Second)
		begun := time.Now()
		a, err := l.nodes[i].promise(l.ctx, l.nodes[p].record().Followed+5)
		if err != nil || a.Whole {
			t.Errorf("%+v, %v; want the answer of a node that is not whole", a, err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it took %v; want it at once", took)
		}
	})
}
