package secure_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/secure"
)

func TestComplete(t *testing.T) {
	files := secure.Parameters{Authority: "/a", Cert: "/c", Key: "/k", ServerName: "n"}
	for name, c := range map[string]struct {
		query  string
		others secure.Parameters
		asked  bool
		on     bool
		want   string // of the error
	}{
		"nothing":                          {},
		"on":                               {query: "tls=on", on: true},
		"asked":                            {asked: true, on: true},
		"refused":                          {query: "tls=off", asked: true},
		"by a file":                        {query: "cacert=/b", on: true},
		"by a name":                        {query: "server_name=b", on: true},
		"not by a file of the environment": {others: files},
		"two answers":                      {query: "tls=off&cacert=/b", want: "want tls=on"},
		"half a pair":                      {query: "cert=/b", want: "want both, or neither"},
		"a pair from two":                  {query: "cert=/b", others: files, on: true},
	} {
		t.Run(name, func(t *testing.T) {
			var p secure.Parameters
			if err := drive.ParseParameters(c.query, append(p.Known(), drive.Choice("tls", &p.Switch))...); err != nil {
				t.Fatal(err)
			}
			on, err := p.Complete(c.others, c.asked)
			if on != c.on || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%t, %v; want %t and %q", on, err, c.on, c.want)
			}
		})
	}
}

// TestRemedy: what the handshakes of Go's TLS say is recognized.
func TestRemedy(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, p := range map[string]secure.Parameters{
		"cacert=FILE":      {},
		"server_name=NAME": {Authority: file, ServerName: "other"},
		"cert=FILE":        {Authority: file, ServerName: "example.com"},
	} {
		s, err := p.Read()
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := s.Config()
		if err != nil {
			t.Fatal(err)
		}
		if cfg.ServerName == "" {
			cfg.ServerName = "example.com"
		}
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), cfg)
		if err == nil { // the server refuses after the handshake
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
		}
		if got, lasting := secure.Remedy(err); !strings.HasPrefix(got, want) || !lasting {
			t.Errorf("%v: %q, %t; want %s, lasting", err, got, lasting, want)
		}
	}
	if want, lasting := secure.Remedy(errors.New("connection refused")); want != "" || lasting {
		t.Errorf("%q, %t; want none", want, lasting)
	}
}

// TestTransport: a program that has put its own in place of http.DefaultTransport, as those do that trace requests, gets
// one with the same times; other settings of the program's stay.
func TestTransport(t *testing.T) {
	was := http.DefaultTransport.(*http.Transport)
	t.Cleanup(func() { http.DefaultTransport = was })
	http.DefaultTransport = struct{ http.RoundTripper }{was}
	is := secure.Transport()
	if is.Proxy == nil || is.DialContext == nil || !is.ForceAttemptHTTP2 || is.MaxIdleConns != was.MaxIdleConns || is.IdleConnTimeout != was.IdleConnTimeout ||
		is.TLSHandshakeTimeout != was.TLSHandshakeTimeout || is.ExpectContinueTimeout != was.ExpectContinueTimeout {
		t.Errorf("%+v; want what is in %+v", is, was)
	}
	http.DefaultTransport = &http.Transport{MaxIdleConns: 7}
	if is := secure.Transport(); is == http.DefaultTransport || is.MaxIdleConns != 7 {
		t.Errorf("%+v; want a copy of the program's", is)
	}
}
