package proxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
)

// authority makes certificates of clients.
func authority(t *testing.T) (pool *x509.CertPool, issue func() tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(name string, isCA bool, parent *x509.Certificate) *x509.Certificate {
		c := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: isCA, BasicConstraintsValid: true,
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		if parent == nil {
			parent = c
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		c, err = x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ca := sign("leaders", true, nil)
	pool = x509.NewCertPool()
	pool.AddCert(ca)
	return pool, func() tls.Certificate {
		return tls.Certificate{Certificate: [][]byte{sign("n1", false, ca).Raw}, PrivateKey: key}
	}
}

// Clients with a certificate of the authority, and those that come by the socket, raise the mark;
// others with the same address do not.
func TestCredentials(t *testing.T) {
	other := httptest.NewTLSServer(nil) // for its certificate
	defer other.Close()
	pool, issue := authority(t)
	_, stranger := authority(t)
	path := filepath.Join(t.TempDir(), "claims")
	socket, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	mark := new(fence.Memory)
	s := start(t, http.NotFoundHandler(), func(c *Config) {
		c.Mark, c.Certificate, c.ClientCAs, c.Socket = mark, &other.TLS.Certificates[0], pool, socket
		c.MayClaim = func(r *http.Request) bool { return fencehttp.HasCertificate(r) || fencehttp.IsFromSocket(r) }
	})
	client := func(certificates ...tls.Certificate) *http.Client {
		return &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}}}
	}
	at := "https" + s.url[len("http"):]
	bySocket := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	for i, c := range []struct {
		name   string
		client *http.Client
		url    string
		good   bool
	}{
		{"a certificate", client(issue()), at, true},
		{"no certificate", client(), at, false},
		{"a certificate of others", client(stranger()), at, false},
		{"the socket", bySocket, "http://socket", true},
	} {
		token := fence.Token(i + 1)
		err := claim(t.Context(), c.client, c.url, fencehttp.Secret{}, "r", token)
		if highest, _ := mark.Highest(t.Context(), "r"); (err == nil) != c.good || (highest == token) != c.good {
			t.Errorf("%s: %v, and the mark is %v", c.name, err, highest)
		}
	}
	if r := s.end(t); r.err != nil {
		t.Error(r.err)
	}
}

// claim claims by a client of its own.
func claim(ctx context.Context, by *http.Client, base string, secret fencehttp.Secret, resource fence.Resource, token fence.Token) error {
	c, err := fencehttp.NewClient(base, resource, fencehttp.ClientConfig{HTTP: by, Secret: secret})
	if err != nil {
		return err
	}
	return c.Claim(ctx, token)
}
