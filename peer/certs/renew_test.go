package certs_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/peer/certs"
)

func leaf(t *testing.T, dir, name string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

// TestRenew: new keys and a new end. Ids, roles and hosts stay, and a node that has loaded the files goes on with the
// new ones.
func TestRenew(t *testing.T) {
	dir := made(t, "prod", "n1", "n2")
	if err := certs.Make(dir, certs.Options{Cluster: "prod", Operators: []certs.OperatorSpec{{Role: certs.Observe, Name: "alice"}}, Valid: time.Hour}); err != nil {
		t.Fatal(err)
	}
	n1, alice := load(t, dir, "n1"), load(t, dir, "~observe/alice")
	before := read(t, dir)
	old := leaf(t, dir, "n1")
	version := n1.Version()

	done, err := certs.Renew(dir, certs.RenewOptions{Names: []string{"n1", "alice"}, Valid: 2 * certs.DefaultValid})
	if err != nil || len(done) != 2 || done[0].ID != "n1" || done[1].ID != "~observe/alice" || done[1].Name != "alice" {
		t.Fatalf("%+v, %v", done, err)
	}
	var changed []string
	for name, data := range read(t, dir) {
		if before[name] != data {
			changed = append(changed, name)
		}
	}
	if slices.Sort(changed); !slices.Equal(changed, []string{"alice.crt", "alice.key", "n1.crt", "n1.key"}) {
		t.Errorf("changed: %v", changed)
	}
	renewed := leaf(t, dir, "n1")
	if bytes.Equal(renewed.RawSubjectPublicKeyInfo, old.RawSubjectPublicKeyInfo) {
		t.Error("the key is the old one")
	}
	if renewed.URIs[0].String() != old.URIs[0].String() || !slices.Equal(renewed.DNSNames, old.DNSNames) || len(renewed.IPAddresses) != 1 {
		t.Errorf("%v %v %v; want what was there", renewed.URIs, renewed.DNSNames, renewed.IPAddresses)
	}
	if _, _, err := shake(t, n1.Server(), alice.Client("n1")); err != nil {
		t.Fatal(err)
	}
	if n1.Version() != version+1 || !n1.Expires().Equal(renewed.NotAfter) || !done[0].Expires.Equal(renewed.NotAfter) {
		t.Errorf("version %d, ends %v; want %d, %v", n1.Version(), n1.Expires(), version+1, renewed.NotAfter)
	}

	if done, err = certs.Renew(dir, certs.RenewOptions{}); err != nil || len(done) != 4 {
		t.Fatalf("all: %+v, %v", done, err)
	}
	for _, r := range done {
		if info, err := os.Stat(filepath.Join(dir, r.Name+".key")); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s.key: %v, %v", r.Name, info.Mode(), err)
		}
	}
	if left := slices.Collect(maps.Keys(read(t, dir))); len(left) != 10 {
		t.Errorf("files: %v", left)
	}
}

// TestRenewRefuses: and then nothing has changed.
func TestRenewRefuses(t *testing.T) {
	dir := made(t, "prod", "n1")
	before := read(t, dir)
	_, err := certs.Renew(dir, certs.RenewOptions{Names: []string{"n1", "n2"}})
	says(t, err, "no certificate n2.crt", "want some of: n1, operator")
	_, err = certs.Renew(dir, certs.RenewOptions{Valid: -1})
	says(t, err, "more than 0")
	old := filepath.Join(t.TempDir(), "certs")
	if err := certs.Make(old, certs.Options{Cluster: "prod", From: time.Now().Add(-2 * certs.ValidCA)}); err != nil {
		t.Fatal(err)
	}
	_, err = certs.Renew(old, certs.RenewOptions{})
	says(t, err, "ca.crt expired on", "elect certs rollover")
	_, err = certs.Renew(t.TempDir(), certs.RenewOptions{})
	says(t, err, "ca.crt", "want the directory with ca.crt and ca.key")
	if !maps.Equal(read(t, dir), before) {
		t.Error("something has changed")
	}
	forge(t, dir, "n3", func(c *x509.Certificate) { c.URIs = nil })
	before = read(t, dir)
	_, err = certs.Renew(dir, certs.RenewOptions{})
	says(t, err, "n3.crt", "0 URIs")
	if !maps.Equal(read(t, dir), before) {
		t.Error("something has changed")
	}
}

// TestRenewAfterTheEnd: a certificate that has expired, and one whose key does not fit
// it, as a crash may leave it, are renewed like others.
func TestRenewAfterTheEnd(t *testing.T) {
	dir := made(t, "prod", "n1", "n2")
	forge(t, dir, "n9", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	if _, err := certs.LoadDir(dir, "n9"); !errors.Is(err, certs.ErrExpired) {
		t.Errorf("%v; want ErrExpired", err)
	}
	move(t, filepath.Join(dir, "n2.key"), filepath.Join(dir, "n1.key"))
	if _, err := certs.Renew(dir, certs.RenewOptions{Names: []string{"n1", "n9"}}); err != nil {
		t.Fatal(err)
	}
	load(t, dir, "n1")
	load(t, dir, "n9")
}

// TestRollover: at each step all that have the files of the step before or after it
// accept each other.
func TestRollover(t *testing.T) {
	dir := made(t, "prod", "n1", "n2")
	copyOf := func() string {
		to := t.TempDir()
		for name, data := range read(t, dir) {
			if err := os.WriteFile(filepath.Join(to, name), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return to
	}
	steps := []string{copyOf()}
	says(t, certs.FinishRollover(dir), "no rollover is under way")
	if err := certs.BeginRollover(dir); err != nil {
		t.Fatal(err)
	}
	steps = append(steps, copyOf())
	says(t, certs.BeginRollover(dir), "2 authorities already")
	says(t, certs.FinishRollover(dir), "n1.crt is of an old authority", "want all certificates renewed before")
	if _, err := certs.Renew(dir, certs.RenewOptions{}); err != nil {
		t.Fatal(err)
	}
	steps = append(steps, copyOf())
	if err := certs.FinishRollover(dir); err != nil {
		t.Fatal(err)
	}
	steps = append(steps, copyOf())
	for i := range len(steps) - 1 {
		for _, ends := range [][2]string{{steps[i], steps[i+1]}, {steps[i+1], steps[i]}, {steps[i], steps[i]}} {
			if _, atServer, atClient := shake(t, load(t, ends[0], "n1").Server(), load(t, ends[1], "n2").Client("n1")); atServer != nil || atClient != nil {
				t.Errorf("after step %d: %v, %v", i, atServer, atClient)
			}
		}
	}
	// The old authority is out.
	_, _, err := shake(t, load(t, steps[0], "n1").Server(), load(t, steps[3], "n2").Client("n1"))
	says(t, err, "signed by another CA")
	if load(t, steps[0], "n1").Authority() == load(t, steps[3], "n1").Authority() {
		t.Error("the authorities cannot be told apart")
	}
}

// TestRolloverInterrupted: between the new ca.crt and its key the old authority still signs, and to begin again is
// right.
func TestRolloverInterrupted(t *testing.T) {
	dir := made(t, "prod", "n1")
	key := read(t, dir)["ca.key"]
	if err := certs.BeginRollover(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.key"), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := certs.Make(dir, certs.Options{Cluster: "prod", Nodes: nodes("n2")}); err != nil {
		t.Fatal(err)
	}
	load(t, dir, "n2")
	if err := certs.BeginRollover(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := certs.Renew(dir, certs.RenewOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := certs.FinishRollover(dir); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(read(t, dir)["ca.crt"], "BEGIN CERTIFICATE"); n != 1 {
		t.Errorf("%d authorities", n)
	}
	load(t, dir, "n1")
}

// TestAuthorityEnds: warnings come before the authority ends, and say that its certificates cannot be renewed beyond
// it.
func TestAuthorityEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	long := time.Now().Add(60*24*time.Hour - certs.ValidCA)
	if err := certs.Make(dir, certs.Options{Cluster: "prod", Nodes: nodes("n1"), From: long}); err != nil {
		t.Fatal(err)
	}
	if _, err := certs.Renew(dir, certs.RenewOptions{}); err != nil {
		t.Fatal(err)
	}
	n1 := load(t, dir, "n1")
	all := n1.Warnings()
	if len(all) != 1 || !strings.Contains(all[0], "ca.crt: the authority ends on 20") || !strings.Contains(all[0], "elect certs rollover") {
		t.Errorf("%q", all)
	}
	if !n1.AuthorityExpires().Equal(n1.Expires()) {
		t.Errorf("it ends on %v, its authority on %v", n1.Expires(), n1.AuthorityExpires())
	}
	if err := certs.BeginRollover(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := certs.Renew(dir, certs.RenewOptions{}); err != nil {
		t.Fatal(err)
	}
	if all := n1.Warnings(); len(all) != 0 {
		t.Errorf("after the rollover: %q", all)
	}
}

// TestRecheck: what Recheck says of an open connection after the certificate shown on it has changed.
func TestRecheck(t *testing.T) {
	const day = 24 * time.Hour
	dir, other := t.TempDir(), t.TempDir()
	for _, d := range []string{dir, other} {
		if err := certs.Make(d, certs.Options{Cluster: "prod", Nodes: nodes("n1"), From: time.Now().Add(-400 * day), Valid: 800 * day}); err != nil {
			t.Fatal(err)
		}
	}
	n1 := load(t, dir, "n1")
	for name, c := range map[string]struct {
		dir           string
		before, after time.Duration
		part          string
		over          bool
	}{
		"valid":                         {dir, -day, day, "", false},
		"a year, a week ago":            {dir, -372 * day, -7*day + time.Minute, "expired on", false},
		"a year, more than a week":      {dir, -372 * day, -7*day - time.Minute, "expired on", true},
		"three hours, an hour ago":      {dir, -4*time.Hour + 2*time.Minute, -time.Hour + time.Minute, "expired on", false},
		"three hours, more than one":    {dir, -4*time.Hour - 2*time.Minute, -time.Hour - time.Minute, "expired on", true},
		"of an authority that was left": {other, -day, day, "signed by another CA", true},
	} {
		forge(t, c.dir, "x", func(x *x509.Certificate) { x.NotBefore, x.NotAfter = time.Now().Add(c.before), time.Now().Add(c.after) })
		refused, over := n1.Recheck(tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf(t, c.dir, "x")}})
		if over != c.over || (refused == nil) != (c.part == "") || refused != nil && !strings.Contains(refused.Error(), c.part) {
			t.Errorf("%s: %v, %v; want %q, %v", name, refused, over, c.part, c.over)
		}
	}
}
