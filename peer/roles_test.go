package peer

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// certified gives a cluster certificates, and operators of each role, with a name and
// without; it returns their directory.
func certified(t *testing.T, c *cluster, others ...protocol.NodeID) string {
	t.Helper()
	dir := t.TempDir()
	o := certs.Options{Cluster: "prod"}
	for _, id := range slices.Concat(c.voters, c.observers, others) {
		o.Nodes = append(o.Nodes, certs.Node{ID: string(id)})
	}
	for _, r := range []certs.Role{certs.Observe, certs.Operate, certs.Administer} {
		o.Operators = append(o.Operators, certs.OperatorSpec{Role: r}, certs.OperatorSpec{Role: r, Name: "the-" + string(r)})
	}
	if err := certs.Make(dir, o); err != nil {
		t.Fatal(err)
	}
	c.change = func(cfg *setup) { cfg.Certs = dir }
	return dir
}

// as is a client with one certificate of a directory, by the name of its files.
func (c *cluster) as(t *testing.T, dir, name string) *Client {
	t.Helper()
	cfg := c.config("n1")
	cfg.Certs, cfg.CA, cfg.Cert, cfg.Key = "", filepath.Join(dir, "ca.crt"), filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	client, err := newClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// TestRoles asks a real node for each verb with each kind of certificate over TLS.
func TestRoles(t *testing.T) {
	long.Test(t, "it waits for a promise of 5 s; TestPermitted is the same decision")
	t.Parallel()
	c := newCluster(t, names("n", 3), names("o", 1), false)
	dir := certified(t, c, "n9")
	text := new(harness.Buffer)
	change := c.change
	c.change = func(cfg *setup) {
		change(cfg)
		cfg.Promise = 5 * time.Second // a busy machine keeps it
		cfg.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(text, testWriter{t, cfg.ID}), nil))
	}
	c.startAll()
	m := win(t, c.node("n1"))
	c.change = nil // clients have their own

	verbs := []struct {
		name  string
		needs certs.Role
		ask   func(*Client) error
	}{
		{"status", certs.Observe, func(cl *Client) error { return cl.Statuses(t.Context())[0].Err }},
		{"watch", certs.Observe, func(cl *Client) error {
			for s, err := range cl.Watch(t.Context()) {
				return errors.Join(err, s.Cause)
			}
			return errors.New("nothing")
		}},
		{"history", certs.Observe, func(cl *Client) error { _, err := cl.History(t.Context()); return err }},
		{"pause", certs.Operate, func(cl *Client) error { return cl.Pause(t.Context(), "n3") }},
		{"resume", certs.Operate, func(cl *Client) error { return cl.Resume(t.Context(), "n3") }},
		// What is permitted is refused for another reason: nobody is disturbed.
		{"resign", certs.Operate, func(cl *Client) error {
			_, err := cl.ask(t.Context(), Peer{"n1", c.addrs["n1"]}, patience(), verbResign, m.Token()+1, appointment{}, ignore)
			return err
		}},
		{"transfer", certs.Operate, func(cl *Client) error { return cl.Transfer(t.Context(), m.Token(), "n1") }},
		{"member add", certs.Administer, func(cl *Client) error {
			_, err := cl.AddMember(t.Context(), Peer{"n4", c.addrs["n2"]}, false, nil)
			return err
		}},
		{"member remove", certs.Administer, func(cl *Client) error { _, err := cl.RemoveMember(t.Context(), "n7", nil); return err }},
		{"member replace", certs.Administer, func(cl *Client) error {
			_, err := cl.ReplaceMember(t.Context(), Peer{ID: "n8"}, nil)
			return err
		}},
	}
	for _, who := range []struct {
		file  string
		has   certs.Role
		shown string
	}{
		{"observe", certs.Observe, "this certificate has observe"},
		{"the-observe", certs.Observe, "this certificate has observe"},
		{"operator", certs.Operate, "this certificate has operate"},
		{"the-operate", certs.Operate, "this certificate has operate"},
		{"administer", certs.Administer, ""},
		{"the-administer", certs.Administer, ""},
		{"n2", certs.Operate, "the certificate of the node n2 counts as operate"},
		{"o1", certs.Operate, "the certificate of the node o1 counts as operate"},
		{"n9", certs.Observe, "the certificate of n9, which takes no part in this membership, counts as observe"},
	} {
		client := c.as(t, dir, who.file)
		for _, v := range verbs {
			var err error
			eventually(t, func() bool { // a busy machine may not answer in time
				err = v.ask(client)
				return err == nil || !strings.Contains(err.Error(), "no answer within")
			}, func() string { return err.Error() })
			if permitted := !errors.Is(err, ErrNotPermitted); permitted != who.has.Includes(v.needs) {
				t.Errorf("%s with %s: %v", v.name, who.file, err)
			} else if want := fmt.Sprintf("not permitted: %s needs the role %s, and %s; want a certificate that elect certs --role %s makes", v.name, v.needs, who.shown, v.needs); !permitted && err.Error() != want {
				t.Errorf("%s with %s: %q; want %q", v.name, who.file, err, want)
			}
		}
	}
	if err := m.Check(); err != nil {
		t.Errorf("the leader was disturbed: %v", err)
	}
	if ms := c.node("n1").membership.Load(); len(ms.Voters) != 3 || c.node("n3").pausing.isPaused() {
		t.Errorf("%v, n3 paused: %v", ms, c.node("n3").pausing.isPaused())
	}
	for _, says := range []string{
		`msg="asked to resign" by="the-operate (operate) at 127.0.0.1`, `msg="asked to resign" by="operator (operate) at `, `msg="asked to change the membership" by="the-administer (administer) at `,
		`msg="a request was refused" by="the-operate (operate) at 127.0.0.1:`, `verb="member remove"`,
	} {
		eventually(t, func() bool { return strings.Contains(text.String(), says) }, func() string { return "no node has logged " + says })
	}
	release(t, m)
}

// TestHandedOn: a client may not do by way of another node what it may not do itself. A voter passes on what it has
// permitted, with the client's name.
func TestHandedOn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, names("n", 3), nil, false).steady()
	dir := certified(t, c)
	text := new(harness.Buffer)
	change := c.change
	c.change = func(cfg *setup) {
		change(cfg)
		cfg.Logger = slog.New(slog.NewTextHandler(text, nil))
	}
	c.startAll()
	m := win(t, c.node("n1"))
	for _, n := range c.nodes {
		sees(t, n, "the leader", leads(m))
	}
	c.change = nil
	ask := func(file string, q memberRequest) error {
		var conn conn
		var err error
		eventually(t, func() bool { // a busy machine may not answer in time
			conn, err = c.as(t, dir, file).dial(t.Context(), Peer{"n2", c.addrs["n2"]})
			return err == nil
		}, func() string { return err.Error() })
		defer conn.Close()
		_, err = callChange(t.Context(), conn, q, nil)
		return err
	}
	remove := memberRequest{Op: opRemove, ID: "n7"}
	if err := ask("the-administer", remove); err != nil {
		t.Error(err)
	}
	eventually(t, func() bool { // a node's log is written by a goroutine of its own
		return strings.Contains(text.String(), `by="the-administer (administer) at 127.0.0.1:`) && strings.Contains(text.String(), ", by way of n2 at ")
	}, func() string { return "the leader has not logged for whom:\n" + text.String() })
	if err := ask("operator", remove); !errors.Is(err, ErrNotPermitted) {
		t.Errorf("by way of n2: %v; want ErrNotPermitted", err)
	}
	remove.Forwarded, remove.By = true, "somebody else"
	if err := ask("operator", remove); !errors.Is(err, ErrNotPermitted) {
		t.Errorf("an operator that says it hands on: %v; want ErrNotPermitted", err)
	}
	if err := ask("the-administer", remove); err == nil { // n2 does not lead
		t.Error("what was handed on is handed on again")
	}
	if strings.Contains(text.String(), "somebody else") {
		t.Error("what an operator says of whom it asks for is believed")
	}
	release(t, m)
}

// TestPermitted is the same decision, without a network, for what a test over TCP does
// not reach.
func TestPermitted(t *testing.T) {
	t.Parallel()
	n := newFakeNode("n1")
	n.sees(ledBy("n1", 5))
	ask := func(from link.Caller, verb, body string) (code string) {
		answer(t.Context(), n, slog.New(slog.DiscardHandler), from, &wire.Request{Verb: verb, Body: []byte(body)}, func(r *wire.Response) error {
			code = r.Code
			return nil
		})
		return code
	}
	for _, c := range []struct {
		from       link.Caller
		verb, body string
		refused    bool
	}{
		{link.Caller{}, verbMember, `{"op":"remove","id":"n2"}`, false}, // without certificates
		{link.Caller{Role: "root"}, verbPing, ``, true},
		{link.Caller{Role: certs.Operate}, verbMember, `{`, true},
		{link.Caller{ID: "n2"}, verbMember, `{"op":"remove","id":"n3"}`, true},
		{link.Caller{ID: "n2"}, verbMember, `{"op":"remove","id":"n3","forwarded":true}`, false},
		{link.Caller{ID: "o1"}, verbMember, `{"op":"remove","id":"n3","forwarded":true}`, true},
		{link.Caller{ID: "n9"}, verbMember, `{"op":"remove","id":"n3","forwarded":true}`, true},
		{link.Caller{ID: "o1"}, verbResign, `{"forwarded":true}`, false},
		{link.Caller{ID: "n9"}, verbResign, `{"forwarded":true}`, true},
		{link.Caller{Role: certs.Observe}, "elect-me", ``, false}, // no verb at all
	} {
		n.sees(ledBy("n1", 5))
		if code := ask(c.from, c.verb, c.body); (code == "not-permitted") != c.refused {
			t.Errorf("%+v, %s %.40s: %q", c.from, c.verb, c.body, code)
		}
	}
}
