package certs_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/peer/certs"
)

func nodes(ids ...string) (all []certs.Node) {
	for _, id := range ids {
		all = append(all, certs.Node{ID: id, Hosts: []string{"127.0.0.1", "localhost"}})
	}
	return all
}

// made is a directory with an authority and certificates for nodes.
func made(t *testing.T, cluster string, ids ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "certs")
	if err := certs.Make(dir, certs.Options{Cluster: cluster, Nodes: nodes(ids...)}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func load(t *testing.T, dir, id string) *certs.Identity {
	t.Helper()
	i, err := certs.LoadDir(dir, id)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// pair is the two ends of a TCP connection. (Those of net.Pipe, which buffer
// nothing, block when both sides have an alert to send.)
func pair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err == nil {
		far, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	return near, far
}

// shake makes one connection and returns what each side says to it.
func shake(t *testing.T, server, client *tls.Config) (seen tls.ConnectionState, atServer, atClient error) {
	t.Helper()
	near, far := pair(t)
	defer near.Close()
	for _, c := range []net.Conn{near, far} {
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	}
	done := make(chan error, 1)
	s := tls.Server(far, server)
	go func() {
		defer far.Close()
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x")) // the client hears of a refusal only when it reads
		}
		done <- err
	}()
	c := tls.Client(near, client)
	if atClient = c.Handshake(); atClient == nil {
		_, atClient = c.Read(make([]byte, 1))
	}
	near.Close()
	atServer = <-done
	return s.ConnectionState(), atServer, atClient
}

func says(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q; want %q in it", err, part)
		}
	}
}

func TestHandshake(t *testing.T) {
	dir := made(t, "prod", "n1", "n2")
	n1, n2, operator := load(t, dir, "n1"), load(t, dir, "n2"), load(t, dir, "")
	if n1.Cluster != "prod" || n1.ID != "n1" || operator.ID != certs.Unnamed {
		t.Fatalf("%v and %v", n1, operator)
	}
	for _, c := range []struct {
		client *certs.Identity
		expect string
	}{{n2, "n1"}, {n2, ""}, {operator, "n1"}, {n1, "n1"}} {
		seen, atServer, atClient := shake(t, n1.Server(), c.client.Client(c.expect))
		if atServer != nil || atClient != nil {
			t.Fatalf("%v: %v, %v", c.client, atServer, atClient)
		}
		if cluster, id, err := certs.PeerOf(seen); cluster != "prod" || id != c.client.ID || err != nil {
			t.Fatalf("the server sees %q of %q, %v; want %s", id, cluster, err, c.client.ID)
		}
		if seen.Version != tls.VersionTLS13 {
			t.Fatalf("TLS version %x", seen.Version)
		}
	}
}

func TestWrongPeerIsSaid(t *testing.T) {
	prod, other := made(t, "prod", "n1", "n2"), made(t, "prod", "n1")
	n1, n2 := load(t, prod, "n1"), load(t, prod, "n2")

	_, _, err := shake(t, n2.Server(), n1.Client("n3"))
	says(t, err, "is for n2 of cluster prod", "want n3 of cluster prod")

	_, _, err = shake(t, load(t, prod, "").Server(), n1.Client(""))
	says(t, err, "operator", "want a node's")

	// Another authority, of the same name.
	stranger := load(t, other, "n1")
	_, _, err = shake(t, stranger.Server(), n1.Client("n1"))
	says(t, err, "n1 of cluster prod", "signed by another CA (\"elect CA of prod\", key ", "want the CA of "+filepath.Join(prod, "ca.crt"))
	_, err, _ = shake(t, n1.Server(), insecure(stranger))
	says(t, err, "signed by another CA")

	// No certificate at all.
	_, err, atClient := shake(t, n1.Server(), &tls.Config{InsecureSkipVerify: true})
	says(t, err, "no certificate was shown", "want one of cluster prod")
	says(t, atClient, "bad certificate")

	// TLS 1.2.
	old := insecure(n2)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	_, err, _ = shake(t, n1.Server(), old)
	says(t, err, "version")
}

// insecure is a client that accepts every server, so that the server decides.
func insecure(i *certs.Identity) *tls.Config {
	c := i.Client("")
	c.VerifyConnection = nil
	return c
}

// TestOtherCluster: one authority that serves two clusters keeps them apart.
func TestOtherCluster(t *testing.T) {
	dir := made(t, "prod", "n1")
	n1 := load(t, dir, "n1")
	forge(t, dir, "foreign", func(c *x509.Certificate) { c.URIs = []*url.URL{{Scheme: "elect", Host: "test", Path: "/n2"}} })
	foreign, err := certs.Load(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "foreign.crt"), filepath.Join(dir, "foreign.key"))
	if err != nil {
		t.Fatal(err)
	}
	_, err, _ = shake(t, n1.Server(), insecure(foreign))
	says(t, err, "n2 of cluster test", "want one of cluster prod")
	_, _, err = shake(t, foreign.Server(), n1.Client("n2"))
	says(t, err, "n2 of cluster test", "want n2 of cluster prod")
}

// forge writes a certificate that Make would not.
func forge(t *testing.T, dir, name string, change func(*x509.Certificate)) {
	t.Helper()
	ca, err := tls.LoadX509KeyPair(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "forged"},
		URIs:      []*url.URL{{Scheme: "elect", Host: "prod", Path: "/n9"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	change(cert)
	der, err := x509.CreateCertificate(rand.Reader, cert, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := made(t, "prod", "n1", "n2")
	forge(t, dir, "n3", func(c *x509.Certificate) { c.URIs = nil })
	forge(t, dir, "n4", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	forge(t, dir, "n5", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })
	forge(t, dir, "n6", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	forge(t, dir, "n7", func(c *x509.Certificate) { c.URIs[0].Path = "/n7/and/more" })
	forge(t, dir, "n8", func(c *x509.Certificate) {
		c.URIs = append(c.URIs, &url.URL{Scheme: "elect", Host: "prod", Path: "/n1"})
	})
	forge(t, dir, "n10", func(c *x509.Certificate) {})
	for id, parts := range map[string][]string{
		"n0":  {"n0.crt", "no such file"},
		"n3":  {"0 URIs that begin with elect://", "such as elect://CLUSTER/ID"},
		"n4":  {"n9 of cluster prod expired on 20", "want a new one: elect certs renew n9 in the directory with ca.key"},
		"n5":  {"is not valid before", "clocks is wrong"},
		"n6":  {"not for this purpose"},
		"n7":  {"node id"},
		"n8":  {"2 URIs"},
		"n10": {"is for n9 of cluster prod", "want n10 of cluster prod"},
		"a b": {"node id"},
	} {
		_, err := certs.LoadDir(dir, id)
		says(t, err, parts...)
	}
	_, err := certs.Load(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "n1.crt"), filepath.Join(dir, "n2.key"))
	says(t, err, "n1.crt with ", "n2.key", "private key does not match")
	_, err = certs.Load(filepath.Join(dir, "n2.crt"), filepath.Join(dir, "n1.crt"), filepath.Join(dir, "n1.key"))
	says(t, err, "no authority's")
	_, err = certs.Load(filepath.Join(dir, "ca.key"), filepath.Join(dir, "n1.crt"), filepath.Join(dir, "n1.key"))
	says(t, err, "ca.key", "no certificate in it")
}

// TestExpiredAtTheOtherSide: a certificate that was valid when it was loaded is refused by the other side once it has
// expired.
func TestExpiredAtTheOtherSide(t *testing.T) {
	dir := made(t, "prod", "n1")
	n1 := load(t, dir, "n1")
	forge(t, dir, "n9", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "n9.crt"), filepath.Join(dir, "n9.key"))
	if err != nil {
		t.Fatal(err)
	}
	_, err, _ = shake(t, n1.Server(), &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})
	says(t, err, "n9 of cluster prod expired on 20")
	_, _, err = shake(t, &tls.Config{Certificates: []tls.Certificate{pair}}, n1.Client("n9"))
	says(t, err, "n9 of cluster prod expired on 20")
}

func TestReload(t *testing.T) {
	dir := made(t, "prod", "n1", "n2")
	n1, n2 := load(t, dir, "n1"), load(t, dir, "n2")
	before := n1.Expires()

	// Renewed: certificate first, then key. In between the old pair serves.
	renewed := t.TempDir()
	for _, file := range []string{"ca.crt", "ca.key"} {
		move(t, filepath.Join(dir, file), filepath.Join(renewed, file))
	}
	if err := certs.Make(renewed, certs.Options{Cluster: "prod", Nodes: nodes("n1", "n2"), Valid: 2 * certs.DefaultValid}); err != nil {
		t.Fatal(err)
	}
	move(t, filepath.Join(renewed, "ca.crt"), filepath.Join(dir, "ca.crt"))
	move(t, filepath.Join(renewed, "n1.crt"), filepath.Join(dir, "n1.crt"))
	if _, _, err := shake(t, n1.Server(), n2.Client("n1")); err != nil {
		t.Fatal(err)
	}
	says(t, n1.ReloadError(), "n1.crt", "private key does not match")
	if !n1.Expires().Equal(before) {
		t.Fatal("half a renewal is in force")
	}
	move(t, filepath.Join(renewed, "n1.key"), filepath.Join(dir, "n1.key"))
	if _, _, err := shake(t, n1.Server(), n2.Client("n1")); err != nil {
		t.Fatal(err)
	}
	if err := n1.ReloadError(); err != nil {
		t.Fatal(err)
	}
	if !n1.Expires().After(before) {
		t.Fatal("the renewed certificate is not in force")
	}

	// Somebody else's files, or none, change nothing.
	move(t, filepath.Join(renewed, "n2.crt"), filepath.Join(dir, "n1.crt"))
	move(t, filepath.Join(renewed, "n2.key"), filepath.Join(dir, "n1.key"))
	says(t, n1.ReloadError(), "is now for n2 of cluster prod", "want n1 of cluster prod")
	move(t, filepath.Join(dir, "n1.crt"), filepath.Join(renewed, "n1.crt"))
	says(t, n1.ReloadError(), "no such file")
	if _, _, err := shake(t, n1.Server(), n2.Client("n1")); err != nil {
		t.Fatal(err)
	}
}

// TestWarnings: Warnings names what should be mended, and nothing else.
func TestWarnings(t *testing.T) {
	dir := made(t, "prod", "n1", "n2")
	warns := func(i *certs.Identity, parts ...string) {
		t.Helper()
		all := i.Warnings()
		if len(all) != len(parts) {
			t.Fatalf("%q, want %d warnings", all, len(parts))
		}
		for n, part := range parts {
			if !strings.Contains(all[n], part) {
				t.Errorf("%q, want %q", all[n], part)
			}
		}
	}
	n1 := load(t, dir, "n1")
	warns(n1)
	if err := os.Chmod(filepath.Join(dir, "n1.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	const open = "every user of this machine may use this private key (mode 0644); want 0600"
	if runtime.GOOS != "windows" {
		warns(n1, open)
	}
	if err := os.Chmod(filepath.Join(dir, "n1.key"), 0o640); err != nil {
		t.Fatal(err)
	}
	warns(n1) // a group is somebody's decision
	move(t, filepath.Join(dir, "n2.key"), filepath.Join(dir, "n1.key"))
	warns(n1, "private key does not match")

	for id, c := range map[string]struct {
		before, after time.Duration
		says          []string
	}{
		"a year, a month left":           {-335 * 24 * time.Hour, 29 * 24 * time.Hour, []string{"it expires on 20"}},
		"a year, more than a month left": {-330 * 24 * time.Hour, 31 * 24 * time.Hour, nil},
		"a day, an hour left":            {-23 * time.Hour, time.Hour, []string{"want a new one: elect certs renew n9 "}},
		"a day, half of it left":         {-12 * time.Hour, 12 * time.Hour, nil},
	} {
		t.Run(id, func(t *testing.T) {
			forge(t, dir, "n9", func(c1 *x509.Certificate) {
				c1.NotBefore, c1.NotAfter = time.Now().Add(c.before), time.Now().Add(c.after)
			})
			warns(load(t, dir, "n9"), c.says...)
		})
	}
}

// TestStrangersTextIsQuoted: a certificate of any maker writes no control characters into a log, and only a bounded
// text.
func TestStrangersTextIsQuoted(t *testing.T) {
	dir, evil := made(t, "prod", "n1"), made(t, "prod", "n1")
	n1 := load(t, dir, "n1")
	const bad = "\x1b[31mHACKED\n"
	for name, change := range map[string]func(c *x509.Certificate){
		"path":    func(c *x509.Certificate) { c.URIs[0].Path = "/" + bad + strings.Repeat("x", 1000) },
		"cluster": func(c *x509.Certificate) { c.URIs[0].Host = strings.Repeat("x", 1000) },
		"subject": func(c *x509.Certificate) { c.URIs, c.Subject.CommonName = nil, bad+strings.Repeat("x", 1000) },
	} {
		t.Run(name, func(t *testing.T) {
			forge(t, evil, "n9", change)
			pair, err := tls.LoadX509KeyPair(filepath.Join(evil, "n9.crt"), filepath.Join(evil, "n9.key"))
			if err != nil {
				t.Fatal(err)
			}
			_, err, _ = shake(t, n1.Server(), &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})
			says(t, err, "signed by another CA")
			if text := err.Error(); strings.ContainsAny(text, "\x1b\n") || len(text) > 600 {
				t.Errorf("%d bytes: %q", len(text), text)
			}
		})
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	// A new file each time: no test should depend on how finely times are kept.
	if err := os.WriteFile(to+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(to+".new", to), os.Remove(from)); err != nil {
		t.Fatal(err)
	}
}

func TestMakeAdds(t *testing.T) {
	dir := made(t, "prod", "n1")
	n1 := read(t, dir)
	o := certs.Options{Cluster: "prod", Nodes: nodes("n1", "n2")}
	if err := certs.Make(dir, o); err != nil {
		t.Fatal(err)
	}
	now := read(t, dir)
	for name, data := range n1 {
		if now[name] != data {
			t.Errorf("%s was overwritten", name)
		}
	}
	if len(now) != len(n1)+2 {
		t.Errorf("%d files, then %d; want two more", len(n1), len(now))
	}
	if _, _, err := shake(t, load(t, dir, "n1").Server(), load(t, dir, "n2").Client("n1")); err != nil {
		t.Fatal(err)
	}
	if err := certs.Make(dir, o); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v; want fs.ErrExist", err)
	}
	says(t, certs.Make(dir, certs.Options{Cluster: "test", Nodes: nodes("n3")}), "is the authority of cluster prod; want test")

	if err := os.Remove(filepath.Join(dir, "n2.crt")); err != nil {
		t.Fatal(err)
	}
	says(t, certs.Make(dir, o), "n2.key is there", "n2.crt is not")
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	says(t, certs.Make(dir, o), "ca.crt is there", "ca.key is not")
}

func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(data)
	}
	return all
}

func TestMadeFiles(t *testing.T) {
	dir := made(t, "prod", "n1")
	for name := range read(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want := fs.FileMode(0o600)
		if strings.HasSuffix(name, ".crt") {
			want = 0o644
		}
		if runtime.GOOS != "windows" && info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "n1.crt"), filepath.Join(dir, "n1.key"))
	if err != nil {
		t.Fatal(err)
	}
	leaf := pair.Leaf
	if got := leaf.URIs[0].String(); len(leaf.URIs) != 1 || got != "elect://prod/n1" {
		t.Errorf("URIs %v", leaf.URIs)
	}
	if len(leaf.IPAddresses) != 1 || len(leaf.DNSNames) != 1 || leaf.IsCA {
		t.Errorf("addresses %v, names %v, authority %v", leaf.IPAddresses, leaf.DNSNames, leaf.IsCA)
	}
	if valid := time.Until(leaf.NotAfter); valid < 364*24*time.Hour || valid > 366*24*time.Hour {
		t.Errorf("valid for %v, want a year", valid)
	}
	ca, err := tls.LoadX509KeyPair(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	if !ca.Leaf.IsCA || ca.Leaf.MaxPathLen != 0 || !ca.Leaf.MaxPathLenZero {
		t.Errorf("authority %v with path length %d", ca.Leaf.IsCA, ca.Leaf.MaxPathLen)
	}
	if ca.Leaf.SerialNumber.BitLen() < 64 || ca.Leaf.SerialNumber.Cmp(leaf.SerialNumber) == 0 {
		t.Errorf("serial numbers %v and %v are not random", ca.Leaf.SerialNumber, leaf.SerialNumber)
	}

	// None outlives its authority, and an authority that has expired signs none.
	o := certs.Options{Cluster: "prod", Nodes: nodes("n2"), Valid: 100 * certs.DefaultValid}
	if err := certs.Make(dir, o); err != nil {
		t.Fatal(err)
	}
	if end := load(t, dir, "n2").Expires(); end.After(ca.Leaf.NotAfter) {
		t.Errorf("valid until %v, its authority until %v", end, ca.Leaf.NotAfter)
	}
	o.Nodes, o.From = nodes("n3"), ca.Leaf.NotAfter.Add(time.Hour)
	says(t, certs.Make(dir, o), "ca.crt expired on", "elect certs rollover")
}

func TestMakeRefuses(t *testing.T) {
	for _, c := range []struct {
		o    certs.Options
		part string
	}{
		{certs.Options{}, "cluster"},
		{certs.Options{Cluster: "a b"}, "want 1 to 63"},
		{certs.Options{Cluster: "a..b"}, "want 1 to 63"},
		{certs.Options{Cluster: strings.Repeat("x", 64)}, "want 1 to 63"},
		{certs.Options{Cluster: "prod", Valid: -1}, "more than 0"},
		{certs.Options{Cluster: "prod", Nodes: nodes("n/1")}, "node id"},
		{certs.Options{Cluster: "prod", Nodes: nodes("CA")}, "another file's name"},
		{certs.Options{Cluster: "prod", Nodes: nodes("operator")}, "another file's name"},
		{certs.Options{Cluster: "prod", Nodes: nodes("n1", "N1")}, "listed twice"},
		{certs.Options{Cluster: "prod", Nodes: []certs.Node{{ID: "n1", Hosts: []string{"10.0.0.1:7400"}}}}, "without a port"},
	} {
		dir := filepath.Join(t.TempDir(), "certs")
		says(t, certs.Make(dir, c.o), c.part)
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%s: it made something all the same", c.part)
		}
	}
}

// TestNames: every id and cluster that is allowed survives a certificate.
func TestNames(t *testing.T) {
	ids := []string{"n1", "a_b-c.d", ".", "..", strings.Repeat("x", 64)}
	for _, cluster := range []string{"prod", "eu-west.prod_1", "10.0.0.1", "UPPER", strings.Repeat("c", 63)} {
		dir := made(t, cluster, ids...)
		for _, id := range ids {
			if i := load(t, dir, string(id)); i.Cluster != cluster || i.ID != string(id) {
				t.Errorf("%s of %s came back as %s of %s", id, cluster, i.ID, i.Cluster)
			}
		}
	}
}

func BenchmarkHandshake(b *testing.B) {
	dir := b.TempDir()
	if err := certs.Make(dir, certs.Options{Cluster: "prod", Nodes: nodes("n1")}); err != nil {
		b.Fatal(err)
	}
	n1, err := certs.LoadDir(dir, "n1")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		near, far := net.Pipe()
		done := make(chan error, 1)
		go func() { done <- tls.Server(far, n1.Server()).Handshake() }()
		if err := tls.Client(near, n1.Client("n1")).Handshake(); err != nil {
			b.Fatal(err)
		}
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

// TestLoadRoot: what was read from an open directory stays, whatever becomes of the directory.
func TestLoadRoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	long := certs.Options{Cluster: "prod", Nodes: nodes("n1"), Operators: []certs.OperatorSpec{{Role: certs.Administer}}, Valid: 3 * certs.ValidCA}
	if err := certs.Make(dir, long); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	n1, err := certs.LoadRoot(root, "n1", "; and that is why")
	if err != nil {
		t.Fatal(err)
	}
	operator, err := certs.LoadRoot(root, "", "")
	if err != nil || operator.ID != certs.OperatorID(certs.Administer, "") || n1.ID != "n1" || n1.Cluster != "prod" {
		t.Fatalf("%v, %v, %v", n1, operator, err)
	}
	if left := time.Until(n1.Expires()); left < 2*certs.ValidCA {
		t.Errorf("it ends in %v; want no sooner than it was made for", left)
	}
	if _, err := certs.LoadRoot(root, "n2", ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("n2: %v", err)
	}
	stranger := load(t, made(t, "prod", "n1"), "n1")
	_, err, _ = shake(t, n1.Server(), insecure(stranger))
	says(t, err, "signed by another CA", "; and that is why")

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := shake(t, n1.Server(), operator.Client("n1")); err != nil {
		t.Error(err)
	}
	if all := n1.Warnings(); len(all) > 0 || n1.ReloadError() != nil {
		t.Errorf("%q, %v", all, n1.ReloadError())
	}
}
