package peer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
)

// apart is a cluster whose nodes have a directory of certificates each, filled from one with ca.key. hand copies what a
// node gets.
func apart(t *testing.T, c *cluster) (dir string, hand func(to protocol.NodeID, files ...string)) {
	t.Helper()
	dir = certified(t, c)
	dirs := map[protocol.NodeID]string{}
	hand = func(to protocol.NodeID, files ...string) {
		t.Helper()
		for _, name := range files {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil { // as by install(1) or a tool like it
				err = errors.Join(os.WriteFile(filepath.Join(dirs[to], name+".new"), data, 0o600),
					os.Rename(filepath.Join(dirs[to], name+".new"), filepath.Join(dirs[to], name)))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, id := range c.voters {
		dirs[id] = t.TempDir()
		hand(id, "ca.crt", string(id)+".crt", string(id)+".key")
	}
	c.change = func(cfg *setup) { cfg.Certs, cfg.look = dirs[cfg.ID], 20*time.Millisecond }
	return dir, hand
}

// reissue replaces the files of these names in a directory that certified has made.
func reissue(t *testing.T, dir string, o certs.Options, names ...string) {
	t.Helper()
	made := t.TempDir()
	for _, name := range []string{"ca.crt", "ca.key"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(made, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	o.Cluster = "prod"
	err := certs.Make(made, o)
	for _, name := range names {
		for _, ext := range []string{".key", ".crt"} {
			err = errors.Join(err, os.Rename(filepath.Join(made, name+ext), filepath.Join(dir, name+ext)))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRolloverLive: three nodes get new certificates, and then a new authority, file by file and one after the other,
// while one leads. It keeps its token, and in the end nothing of the old authority is in use.
func TestRolloverLive(t *testing.T) {
	t.Parallel()
	c := newCluster(t, names("n", 3), nil, false).steady()
	dir, hand := apart(t, c)
	c.startAll()
	m := win(t, c.node("n1"))
	old := c.node("n1").Status().Certificate.Authority

	pairs := func() {
		for _, id := range c.voters {
			hand(id, string(id)+".key", string(id)+".crt")
		}
	}
	authority := func() {
		for _, id := range c.voters {
			hand(id, "ca.crt")
		}
	}
	settled := func(step string) {
		t.Helper()
		for _, id := range c.voters {
			eventually(t, func() bool {
				if err := m.Check(); err != nil {
					t.Fatalf("%s: the leader has lost its term: %v", step, err)
				}
				s := c.node(id).Status()
				held, err := certs.LoadDir(c.node(id).cfg.Certs, string(id))
				if err != nil || s.Certificate.Authority != held.Authority() || len(s.Certificate.Warnings) > 0 {
					return false
				}
				for _, p := range s.Peers {
					if !p.Connected {
						return false
					}
				}
				return s.Leader != nil && s.Leader.Token == m.Token() && !s.Stale
			}, func() string { return step + ": " + string(id) + " is not settled" })
		}
	}
	if _, err := certs.Renew(dir, certs.RenewOptions{}); err != nil {
		t.Fatal(err)
	}
	pairs()
	settled("renewed")
	if err := certs.BeginRollover(dir); err != nil {
		t.Fatal(err)
	}
	authority()
	settled("both authorities")
	if _, err := certs.Renew(dir, certs.RenewOptions{}); err != nil {
		t.Fatal(err)
	}
	pairs()
	settled("renewed by the new authority")
	if err := certs.FinishRollover(dir); err != nil {
		t.Fatal(err)
	}
	authority()
	settled("the new authority alone")
	if now := c.node("n1").Status().Certificate.Authority; now == old {
		t.Errorf("the authority is still %s", old)
	}
	// A node that starts now meets the others: nothing depends on earlier connections.
	c.stop("n3")
	c.founded(c.start("n3"))
	sees(t, c.node("n3"), "the leader", leads(m))
	release(t, m)
}

// TestStartAfterTheEnd: a node whose certificate has expired does not start, says what
// to do, and starts when that is done; its peers say it, too, and lead on.
func TestStartAfterTheEnd(t *testing.T) {
	t.Parallel()
	c := newCluster(t, names("n", 3), nil, false).steady()
	dir, hand := apart(t, c)
	c.startAll()
	m := win(t, c.node("n1"))
	c.stop("n3")
	reissue(t, dir, certs.Options{Nodes: []certs.Node{{ID: "n3"}}, From: time.Now().Add(-2 * time.Hour), Valid: time.Hour}, "n3")
	hand("n3", "n3.key", "n3.crt")
	_, err := open(t.Context(), c.config("n3"))
	refusedFor(t, err, "n3.crt: the certificate of n3 of cluster prod expired on 20", "want a new one: elect certs renew n3 in the directory with ca.key, and then copy n3.crt and n3.key")
	if !errors.Is(err, certs.ErrExpired) {
		t.Errorf("%v; want ErrExpired", err)
	}
	if err := m.Check(); err != nil {
		t.Errorf("the leader was disturbed: %v", err)
	}
	if _, err := certs.Renew(dir, certs.RenewOptions{Names: []string{"n3"}}); err != nil {
		t.Fatal(err)
	}
	hand("n3", "n3.key", "n3.crt")
	c.founded(c.start("n3"))
	sees(t, c.node("n3"), "the leader", leads(m))
	release(t, m)
}

// TestEndIsTold: a node reports in its status when its certificate and its authority end, and warns before. So does a
// client of its own.
func TestEndIsTold(t *testing.T) {
	c := newCluster(t, names("n", 1), nil, false)
	dir := certified(t, c)
	c.startAll()
	client := c.as(t, dir, "observe")
	told := func() *CertificateStatus {
		t.Helper()
		r := client.Statuses(t.Context())[0]
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return r.Status.Certificate
	}
	if s := told(); s == nil || len(s.Warnings) > 0 || s.AuthorityExpires.Before(s.Expires) || time.Until(s.Expires) < 300*24*time.Hour {
		t.Errorf("%+v", s)
	}
	if s := client.Certificate(); len(s.Warnings) > 0 || s.Authority != told().Authority {
		t.Errorf("%+v", s)
	}
	// A year ago for a year and ten days.
	reissue(t, dir, certs.Options{
		Nodes: []certs.Node{{ID: "n1"}}, Operators: []certs.OperatorSpec{{Role: certs.Observe}},
		From: time.Now().Add(-365 * 24 * time.Hour), Valid: 375 * 24 * time.Hour,
	}, "n1", "observe")
	if s := told(); len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "n1.crt: it expires on 20") || time.Until(s.Expires) > 10*24*time.Hour {
		t.Errorf("%+v", s)
	}
	if s := client.Certificate(); len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "observe.crt: it expires on 20") {
		t.Errorf("%+v", s)
	}
}
