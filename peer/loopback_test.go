//go:build linux || darwin || freebsd

package peer

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
)

// alone is the configuration of a node on the loopback that has nothing else.
func alone(id protocol.NodeID) *setup {
	return &setup{ID: id, Name: "job", Voters: []Peer{{ID: "n1", Addr: "127.0.0.1:1"}, {ID: "n2", Addr: "127.0.0.1:2"}, {ID: "n3", Addr: "127.0.0.1:3"}}}
}

// inState gives the test a state directory, and returns where the certificates are.
func inState(t *testing.T) (base, dir string) {
	t.Helper()
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	base = filepath.Join(state, "elect-loopback")
	return base, filepath.Join(base, "cluster-elect")
}

func made(t *testing.T, id protocol.NodeID) *certs.Identity {
	t.Helper()
	i, err := alone(id).identity()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// key is the authority of an identity, for comparison.
func key(i *certs.Identity) string {
	_, key, _ := strings.Cut(i.String(), ", ")
	return key
}

func TestUserHasOneAuthority(t *testing.T) {
	for range 20 {
		_, dir := inState(t)
		var all [9]*certs.Identity
		var errs [9]error
		var making sync.WaitGroup
		start := make(chan struct{})
		for i := range all { // three nodes, each by three processes
			making.Go(func() {
				<-start
				all[i], errs[i] = alone(names("n", 3)[i%3]).identity()
			})
		}
		close(start)
		making.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		for _, i := range all[1:] {
			if key(i) != key(all[0]) {
				t.Fatalf("%v and %v are of two authorities", all[0], i)
			}
		}
		if again := made(t, "n1"); key(again) != key(all[0]) {
			t.Fatalf("%v, and %v after it was there", all[0], again)
		}
		for path, want := range map[string]fs.FileMode{dir: 0o700, filepath.Dir(dir): 0o700, filepath.Join(dir, "ca.key"): 0o600, filepath.Join(dir, "n2.key"): 0o600} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v; want mode %v", path, info.Mode(), err, want)
			}
		}
	}
}

// TestClustersOfAUser: each has an authority.
func TestClustersOfAUser(t *testing.T) {
	inState(t)
	blue := alone("n1")
	blue.Cluster = "blue"
	i, err := blue.identity()
	if err != nil || i.Cluster != "blue" || key(i) == key(made(t, "n1")) {
		t.Errorf("%v, %v; want another authority than %v", i, err, made(t, "n1"))
	}
	lock := alone("n1")
	lock.Cluster = "lock" // as a file here
	if i, err := lock.identity(); err != nil || i.Cluster != "lock" {
		t.Error(i, err)
	}
	bad := alone("n1")
	bad.Cluster = "a..b"
	if _, err := bad.identity(); err == nil || !strings.Contains(err.Error(), `cluster "a..b": want 1 to 63 letters`) {
		t.Error(err)
	}
}

// TestNoClockEndsTheSecret: neither its age nor a clock that is wrong.
func TestNoClockEndsTheSecret(t *testing.T) {
	inState(t)
	if end := made(t, "n1").Expires(); end.Year() < 2200 || len(made(t, "n1").Warnings()) > 0 {
		t.Errorf("it ends %v: %v", end, made(t, "n1").Warnings())
	}
	if !privateBirth().Before(time.Unix(0, 0).AddDate(0, 0, 2)) {
		t.Error(privateBirth())
	}
}

// TestMakingIsCutShort: whatever a process that was killed has left, the next start
// makes what it needs, and keeps a complete authority.
func TestMakingIsCutShort(t *testing.T) {
	complete := func(t *testing.T) (dir, authority string) {
		_, dir = inState(t)
		return dir, key(made(t, "n1"))
	}
	drop := func(t *testing.T, dir string, files ...string) {
		t.Helper()
		for _, f := range files {
			if err := os.Remove(filepath.Join(dir, f)); err != nil {
				t.Fatal(err)
			}
		}
	}
	order := []string{"ca.key", "ca.crt", "n1.key", "n1.crt", "administer.key", "administer.crt"}
	for done := range order {
		t.Run("before "+order[done], func(t *testing.T) {
			dir, authority := complete(t)
			making := filepath.Join(filepath.Dir(dir), ".making-1")
			drop(t, dir, order[done:]...)
			if err := os.Rename(dir, making); err != nil {
				t.Fatal(err)
			}
			if again := made(t, "n1"); key(again) == authority {
				t.Errorf("%v: the one that was not complete is in use", again)
			}
			if _, err := os.Stat(making); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left: %v", making, err)
			}
		})
	}
	for name, damage := range map[string]func(t *testing.T, dir string){
		"no certificate for the key": func(t *testing.T, dir string) { drop(t, dir, "n1.crt") },
		"no key":                     func(t *testing.T, dir string) { drop(t, dir, "n1.key") },
		"no operator":                func(t *testing.T, dir string) { drop(t, dir, "administer.crt") },
		"half a file": func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, "n1.key"), 20); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, authority := complete(t)
			damage(t, dir)
			if again := made(t, "n1"); key(again) != authority {
				t.Errorf("%v; want the same authority", again)
			}
			made(t, "n2") // which makes the operator's, if need be
			if _, err := alone("").identity(); err != nil {
				t.Errorf("the client: %v", err)
			}
		})
	}
	t.Run("no key of the authority", func(t *testing.T) {
		dir, _ := complete(t)
		drop(t, dir, "ca.key")
		made(t, "n1") // has all that it needs
		if _, err := alone("n2").identity(); err == nil || !strings.Contains(err.Error(), "ca.key is not") || !strings.Contains(err.Error(), "want "+dir+" removed while no node runs") {
			t.Error(err)
		}
	})
}

// TestSecretOfOthers: node and client refuse a directory that another user could read or replace, and make nothing in
// it.
func TestSecretOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(base, dir string) error
		says   string
		root   bool
	}{
		"open to others":       {func(_, dir string) error { return os.Chmod(dir, 0o755) }, "is open to other users (mode 0755), who may have read its keys; want it removed", false},
		"open to a group":      {func(_, dir string) error { return os.Chmod(dir, 0o710) }, "(mode 0710)", false},
		"all open to others":   {func(base, _ string) error { return os.Chmod(base, 0o777) }, "(mode 0777)", false},
		"a link":               {func(base, dir string) error { return errors.Join(os.Rename(dir, base+"/x"), os.Symlink("x", dir)) }, "cluster-elect is a link; want a directory", false},
		"all a link":           {func(base, _ string) error { return errors.Join(os.Rename(base, base+"x"), os.Symlink(base+"x", base)) }, "elect-loopback is a link; want a directory", false},
		"another user's":       {func(_, dir string) error { return os.Chown(dir, 65534, 65534) }, "belongs to uid 65534, and this process is of uid 0; want this as that user (sudo -u)", true},
		"all of another's":     {func(base, _ string) error { return os.Chown(base, 65534, 65534) }, "belongs to uid 65534", true},
		"a file":               {func(base, _ string) error { return errors.Join(os.RemoveAll(base), os.WriteFile(base, nil, 0o600)) }, "not a directory", false},
		"a file for a cluster": {func(_, dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) }, "not a directory", false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("NOT TESTED: the directory of another user; it needs root to make one")
			}
			base, dir := inState(t)
			made(t, "n1")
			if err := c.change(base, dir); err != nil {
				t.Fatal(err)
			}
			for _, id := range []protocol.NodeID{"n1", "n2", ""} {
				i, err := alone(id).identity()
				if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "want ") {
					t.Errorf("%q: %v, %v; want %q", id, i, err, c.says)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "n2.key")); err == nil {
				t.Error("a key was made")
			}
			if _, err := newClient(*alone("")); err == nil {
				t.Error("a client is made, as if the nodes were to come")
			}
		})
	}
}

// TestStateOfTheUser: which directory it is, and what is said when there is none.
func TestStateOfTheUser(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "relative") // is ignored, as its specification says
	home := t.TempDir()
	t.Setenv("HOME", home)
	if base, err := privateBase(); err != nil || base != home+"/.local/state/elect-loopback" {
		t.Error(base, err)
	}
	// Of another user, as sudo may leave it: by the user database.
	if os.Geteuid() == 0 {
		if err := os.Chown(home, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if base, err := privateBase(); err != nil && !strings.Contains(err.Error(), "HOME is "+home+", which is not this user's own directory") || strings.HasPrefix(base, home) {
			t.Error(base, err)
		}
	}
	t.Setenv("HOME", "")
	if base, err := privateBase(); err != nil && !strings.Contains(err.Error(), "HOME is not set, and uid ") || err == nil && !filepath.IsAbs(base) {
		t.Error(base, err)
	}
	t.Setenv("XDG_STATE_HOME", "/proc/nowhere") // nobody can make that
	for _, id := range []protocol.NodeID{"n1", ""} {
		if _, err := alone(id).identity(); err == nil || !strings.Contains(err.Error(), "certs=DIR") || !strings.Contains(err.Error(), "insecure=true") {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestClientBeforeTheNodes: a client that comes before the nodes makes nothing and says once why it cannot ask. It can
// ask when they have started.
func TestClientBeforeTheNodes(t *testing.T) {
	base, _ := inState(t)
	c := newCluster(t, names("n", 3), nil, false)
	client, err := newClient(c.config(""))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Resign(t.Context(), 0); err == nil || strings.Count(err.Error(), "connection refused") != 3 || strings.Contains(err.Error(), "uid") {
		t.Errorf("nobody is there: %v", err)
	}
	var others []net.Listener
	for _, id := range c.voters { // of somebody else
		l, err := net.Listen("tcp", c.addrs[id])
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, l)
	}
	err = client.Resign(t.Context(), 0)
	if err == nil || strings.Count(err.Error(), "it is not of this user (uid ") != 1 || !strings.Contains(err.Error(), "want this as the user of the nodes (sudo -u)") {
		t.Errorf("somebody else is there: %v", err)
	}
	for _, l := range others {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(base); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a client has made something: %v", err)
	}
	c.startAll()
	release(t, win(t, c.node("n1")))
	for _, r := range client.Statuses(t.Context()) {
		if r.Err != nil {
			t.Errorf("%s: %v", r.Peer, r.Err)
		}
	}
}

// TestWhatIsOpenIsSaid: at the start of a node, and by each side of two that differ.
func TestWhatIsOpenIsSaid(t *testing.T) {
	inState(t)
	c := newCluster(t, names("n", 3), nil, false)
	start := func(id protocol.NodeID, insecure bool) func() string {
		t.Helper()
		log := new(harness.Buffer)
		cfg := c.config(id)
		cfg.Insecure, cfg.Logger = insecure, slog.New(slog.NewTextHandler(log, nil))
		n, err := open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		return log.String
	}
	plain, secret := start("n1", true), start("n2", false)
	const open = "insecure: everybody who can reach this node, such as every user of this machine, can elect, depose, pause and remove"
	if !strings.Contains(plain(), open) || strings.Contains(secret(), "insecure: ") || !strings.Contains(secret(), "elect-loopback") {
		t.Errorf("%s\n%s", plain(), secret())
	}
	for _, c := range []struct {
		log  func() string
		says string
	}{
		{plain, "it calls without TLS; this node wants TLS 1.3 with a certificate of cluster elect"},
		{plain, "it calls with TLS; this node speaks plain text (insecure=true, or an older version)"},
		{secret, "it does not answer with TLS: it speaks plain text (insecure=true, or an older version)"},
		{secret, "it calls without TLS"},
	} {
		eventually(t, func() bool { return strings.Contains(c.log(), c.says) }, func() string { return "it does not say " + c.says + ":\n" + c.log() })
	}
}
