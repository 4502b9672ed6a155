package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
)

func TestRoles(t *testing.T) {
	all := certs.Roles()
	for i, r := range all {
		for j, other := range all {
			if r.Includes(other) != (i >= j) {
				t.Errorf("%s includes %s: %v", r, other, r.Includes(other))
			}
		}
		if got, err := certs.ParseRole(string(r)); got != r || err != nil {
			t.Errorf("%s is read as %q, %v", r, got, err)
		}
		for _, name := range []string{"", "alice", "a.b-c_1"} {
			if role, back := certs.RoleOf(certs.OperatorID(r, name)); role != r || back != name {
				t.Errorf("%s comes back as %s %q", certs.OperatorID(r, name), role, back)
			}
		}
	}
	for _, text := range []string{"", "root", "Observe", "~observe"} {
		if _, err := certs.ParseRole(text); err == nil {
			t.Errorf("role %q is taken", text)
		} else {
			says(t, err, "want observe, operate or administer")
		}
	}
	if certs.Role("").Includes("") || certs.Role("root").Includes(certs.Observe) {
		t.Error("what is no role may do something")
	}
	if certs.OperatorID(certs.Operate, "") != certs.Unnamed {
		t.Error("an operator of an earlier build has another role than operate")
	}
	for _, id := range []string{"n1", "~", "~operate", "~root", "~ca", "~observe/", "~observe/a/b", "~observe/..", "~observe/a b", "observe"} {
		if role, name := certs.RoleOf(id); role != "" || name != "" {
			t.Errorf("%q has the role %s, name %q", id, role, name)
		}
	}
}

// TestOperators: each role has files of its own, and a certificate that says it.
func TestOperators(t *testing.T) {
	dir := made(t, "prod", "n1")
	o := certs.Options{Cluster: "prod", Operators: []certs.OperatorSpec{
		{Role: certs.Observe}, {Role: certs.Administer}, {Role: certs.Operate, Name: "alice"}, {Role: certs.Observe, Name: "prometheus"},
	}}
	if err := certs.Make(dir, o); err != nil {
		t.Fatal(err)
	}
	n1 := load(t, dir, "n1")
	for file, id := range map[string]string{
		"operator": "~operator", "observe": "~observe", "administer": "~administer", "alice": "~operate/alice", "prometheus": "~observe/prometheus",
	} {
		i := load(t, dir, id)
		seen, atServer, atClient := shake(t, n1.Server(), i.Client("n1"))
		if atServer != nil || atClient != nil {
			t.Fatalf("%s: %v, %v", id, atServer, atClient)
		}
		if _, got, err := certs.PeerOf(seen); got != id || err != nil {
			t.Errorf("the server sees %q, %v; want %q", got, err, id)
		}
		if _, err := os.Stat(filepath.Join(dir, file+".crt")); err != nil {
			t.Error(err)
		}
		// None of them is a node.
		_, _, err := shake(t, i.Server(), n1.Client(""))
		says(t, err, "operator", "want a node's")
	}
	if err := certs.Make(dir, o); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v; want fs.ErrExist", err)
	}
	// A file that is somebody else's is not taken for the one that is wanted.
	says(t, certs.Make(dir, certs.Options{Cluster: "prod", Operators: []certs.OperatorSpec{{Role: certs.Observe, Name: "alice"}}}),
		"alice.crt is there already", "the operator alice (role operate) of cluster prod", "want the operator alice (role observe)")
	says(t, certs.Make(dir, certs.Options{Cluster: "prod", Nodes: nodes("alice")}), "want alice of cluster prod in a file of another name")
	for _, bad := range []certs.OperatorSpec{{}, {Role: "root"}, {Role: certs.Observe, Name: "a/b"}, {Role: certs.Observe, Name: ".."}, {Role: certs.Observe, Name: "CA"}, {Role: certs.Observe, Name: "operate"}} {
		empty := filepath.Join(t.TempDir(), "certs")
		says(t, certs.Make(empty, certs.Options{Cluster: "prod", Operators: []certs.OperatorSpec{bad}}), "want ")
		if _, err := os.Lstat(empty); err == nil {
			t.Errorf("%+v: it made something all the same", bad)
		}
	}
}

// TestStrongest: LoadDir takes the strongest operator's certificate whose key can be read.
func TestStrongest(t *testing.T) {
	dir := made(t, "prod", "n1")
	make := func(role certs.Role, name string) {
		t.Helper()
		if err := certs.Make(dir, certs.Options{Cluster: "prod", Operators: []certs.OperatorSpec{{role, name}}}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(id string) {
		t.Helper()
		if got := load(t, dir, ""); got.ID != id {
			t.Errorf("%s is taken; want %s", got.ID, id)
		}
	}
	want("~operator")
	make(certs.Observe, "")
	make(certs.Operate, "alice") // before operator.crt
	want("~operate/alice")
	make(certs.Administer, "zoe")
	want("~administer/zoe")
	make(certs.Administer, "")
	want("~administer")
	for _, file := range []string{"administer.key", "zoe.key"} {
		move(t, filepath.Join(dir, file), filepath.Join(t.TempDir(), file))
	}
	want("~operate/alice")
	if err := os.WriteFile(filepath.Join(dir, "broken.crt"), []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("~operate/alice")
	for _, file := range []string{"alice.key", "operator.key", "observe.key"} {
		move(t, filepath.Join(dir, file), filepath.Join(t.TempDir(), file))
	}
	if _, err := certs.LoadDir(dir, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no operator's certificate: %v; want fs.ErrNotExist", err)
	}
}

// FuzzName: whatever a certificate's URI is, it is refused, or means one thing, which
// is written in one way.
func FuzzName(f *testing.F) {
	for _, text := range []string{
		"elect://prod/n1", "elect://prod/~operator", "elect://prod/~observe/alice", "elect://prod/~administer", "elect://prod/~operate/a", "elect://prod/~ca",
		"elect://prod/~observe/a/b", "elect://prod/~observe/%2e%2e", "elect://prod//n1", "elect://u@prod/n1?x#y", "elect:opaque", "elect://prod/~observe%2falice",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "elect" {
			return
		}
		cluster, id, err := certs.PeerOf(tls.ConnectionState{PeerCertificates: []*x509.Certificate{{URIs: []*url.URL{u}}}})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("control characters in %q", err)
			}
			return
		}
		if _, err := certs.ParseCluster(cluster); err != nil {
			t.Error(err)
		}
		role, name := certs.RoleOf(id)
		switch _, err := protocol.ParseNodeID(id); {
		case id == "~ca":
		case role == "" && err != nil:
			t.Errorf("%q is neither a node nor an operator", id)
		case role != "" && (err == nil || certs.OperatorID(role, name) != id):
			t.Errorf("%q means %s %q", id, role, name)
		}
		if u.String() != "elect://"+cluster+"/"+id {
			t.Errorf("%q means %s of %s", u, id, cluster)
		}
	})
}
