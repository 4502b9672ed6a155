package group

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/store/memory"
)

// authority issues certificates of members.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	a := &authority{pool: x509.NewCertPool()}
	a.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// identity is a certificate of one member, as *certs.Identity of package peer/certs is.
type identity struct {
	a    *authority
	cert tls.Certificate
}

func (a *authority) member(t testing.TB, id string) *identity {
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs:        []*url.URL{{Scheme: "elect", Host: "test", Path: "/" + id}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &identity{a, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}}
}

func (i *identity) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: i.a.pool,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &i.cert, nil },
	}
}

func (i *identity) Client(id string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.cert}, InsecureSkipVerify: true, // VerifyConnection does it
		VerifyConnection: func(s tls.ConnectionState) error {
			leaf := s.PeerCertificates[0]
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: i.a.pool}); err != nil {
				return err
			}
			if got, err := named(leaf); err != nil || got != id {
				return fmt.Errorf("the certificate is that of %q; want %q", got, id)
			}
			return nil
		},
	}
}

// TestLoopback: members over TCP with certificates. The id is that of the certificate, and a stranger gets nothing.
func TestLoopback(t *testing.T) {
	store, ca := memory.NewStore(0), newAuthority(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	join := func(id string, cfg Config) (*Group, error) {
		place, err := store.New("group", id, memory.Config{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := elect.New(place, elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Keys, cfg.Placement = Range(20), eager
		return Join(ctx, e, cfg)
	}
	h := newHolding(t)
	began := make(chan struct{}, 1000)
	note := func(e Event) {
		if e.Kind == EventBegan {
			began <- struct{}{}
		}
	}
	var all []*Group
	for i := range 3 {
		g, err := join(name(i+1), Config{TLS: ca.member(t, name(i+1)), OnEvent: note})
		if err != nil {
			t.Fatal(err)
		}
		if g.ID() != name(i+1) {
			t.Errorf("the id is %q; want that of the certificate", g.ID())
		}
		defer g.Close()
		all = append(all, g)
		go func() { _ = g.Run(ctx, h.work(g.ID())) }()
		for n := 0; ; n++ {
			s, err := g.Status(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Members) == i+1 && s.Held == 20 && s.Members[i].Keys >= 6 && s.Moving == 0 {
				break
			}
			<-began
		}
	}
	// A witness with m2's certificate is believed about processes of m2 only.
	at := remains{Coordinator: spot{"m9", "127.0.0.1:1"}, Others: []spot{{"m2", all[1].addr}}} // who says where the coordinator is
	speak := func(as, of string, process protocol.Nonce) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		env := system()
		return tell(ctx, direct(&env, ca.member(t, as)), &testament{Group: "group", ID: of, Process: process, Bits: 16}, &at)
	}
	for what, err := range map[string]error{
		`want the same`: speak("m2", "m2", all[0].process), `not shown the certificate`: speak("m2", "m1", all[0].process),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("a word about another member's process: %v; want %s", err, what)
		}
	}
	before, err := all[0].Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := speak("m2", "m2", protocol.Nonce{1, 2}); err != nil { // of a life of m2 that is over
		t.Error(err)
	}
	if s, err := all[0].Status(ctx); err != nil || s.Held != before.Held || s.Moving != 0 || len(s.Members) != 3 {
		t.Errorf("after words about nobody who is here: %+v, %v; want as before", s, err)
	}
	refused := make(chan error, 100)
	stranger, err := join("m1", Config{ID: "m1", TLS: newAuthority(t).member(t, "m9"), Observer: true, OnEvent: func(e Event) { refused <- e.Err }})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	if s, err := stranger.Status(short); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("a stranger is told %+v, %v", s, err)
	}
	imposter, err := join("m1", Config{ID: "m1", TLS: ca.member(t, "m8"), Observer: true, OnEvent: func(e Event) { refused <- e.Err }})
	if err != nil {
		t.Fatal(err)
	}
	defer imposter.Close()
	if err := <-refused; err == nil || !strings.Contains(err.Error(), `it shows the certificate of m8; want that of m1`) {
		t.Errorf("a member with another's id: %v", err)
	}
	if _, err := join("m4", Config{Listen: "0.0.0.0:0"}); err == nil || !strings.Contains(err.Error(), "want group.Config.TLS, or Insecure") {
		t.Errorf("plain TCP for other machines: %v", err)
	}
	for _, g := range all {
		if n := g.Counts(); n.Lapsed+n.Overruns > 0 {
			t.Logf("%s: %+v, as on a computer that is too busy", g.ID(), n)
		}
	}
}

// presented is an identity with another configuration of its server.
type presented struct {
	*identity
	server *tls.Config
}

func (p *presented) Server() *tls.Config { return p.server }

// TestOwnName: an empty id is that of the certificate, however the configuration has it.
func TestOwnName(t *testing.T) {
	i := newAuthority(t).member(t, "m1")
	get := func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if h.ServerName != "" {
			return nil, errors.New("another name")
		}
		return &i.cert, nil
	}
	for what, c := range map[string]struct {
		server *tls.Config
		says   string
	}{
		"a function":   {&tls.Config{GetCertificate: get}, ""},
		"a list":       {&tls.Config{Certificates: []tls.Certificate{i.cert}}, ""},
		"nothing":      {&tls.Config{}, "want group.Config.ID"},
		"what is none": {&tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }}, "want group.Config.ID"},
	} {
		if id, err := ownName(&presented{i, c.server}); c.says == "" && (err != nil || id != "m1") || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %q, %v; want m1, or an error %q", what, id, err, c.says)
		}
	}
}
