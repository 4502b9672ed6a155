// Package secure is TLS as the URLs of stores have it: their parameters, the configuration that follows from them, and
// which parameter would be right when a connection fails. Its functions may be called by any number of goroutines. They
// read files, and connect to nothing.
package secure

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/electd/elect/store/internal/drive"
)

// Parameters are those of TLS in a URL; "" is not given.
type Parameters struct {
	Switch               string // tls: on or off
	Authority, Cert, Key string // cacert, cert and cert_key: files in PEM
	ServerName           string // server_name
}

// Known returns the parameters to read, without tls.
func (p *Parameters) Known() []drive.Parameter {
	return []drive.Parameter{
		drive.Text("cacert", &p.Authority), drive.Text("cert", &p.Cert), drive.Text("cert_key", &p.Key), drive.Text("server_name", &p.ServerName),
	}
}

// Given reports whether there is one beside tls.
func (p *Parameters) Given() bool { return p.Authority+p.Cert+p.Key+p.ServerName != "" }

// Complete takes what is not given from others, such as those of the environment. It reports whether TLS is on: by tls,
// by another parameter of the URL, or because asked is true.
func (p *Parameters) Complete(others Parameters, asked bool) (on bool, err error) {
	given := p.Given()
	p.Authority, p.ServerName = cmp.Or(p.Authority, others.Authority), cmp.Or(p.ServerName, others.ServerName)
	p.Cert, p.Key = cmp.Or(p.Cert, others.Cert), cmp.Or(p.Key, others.Key)
	switch {
	case p.Switch == "off" && given:
		return false, errors.New("tls=off, and parameters of TLS; want tls=on")
	case (p.Cert == "") != (p.Key == ""):
		return false, errors.New("one of cert and cert_key; want both, or neither")
	}
	return p.Switch == "on" || p.Switch == "" && (given || asked), nil
}

// Read reads the authority's file.
func (p *Parameters) Read() (t TLS, err error) {
	t = TLS{On: true, ServerName: p.ServerName, Cert: p.Cert, Key: p.Key}
	if p.Authority != "" {
		t.Authority, err = ReadAuthority(p.Authority)
	}
	return t, err
}

// TLS is how connections are secured. The zero value is not at all. It is comparable: clients with the same one, which
// has the text of the authority and not the name of its file, may be shared.
type TLS struct {
	On         bool
	ServerName string // that the server's certificate must have; "": the host to which a client connects
	Authority  string // certificates in PEM; "": those of the system
	Cert, Key  string // files in PEM, which are read again for each connection, because they may be renewed; "": none
}

// Config returns the configuration of a client, nil if TLS is not on.
func (t TLS) Config() (*tls.Config, error) {
	if !t.On {
		return nil, nil
	}
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.Authority != "" {
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM([]byte(t.Authority)) {
			return nil, errors.New("the authority has no certificate; want PEM")
		}
	}
	if t.Cert != "" {
		if _, err := tls.LoadX509KeyPair(t.Cert, t.Key); err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
			return &pair, err
		}
	}
	return c, nil
}

// ReadAuthority reads files, each with certificates in PEM.
func ReadAuthority(files ...string) (string, error) {
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			return "", fmt.Errorf("%s has no certificate; want PEM", file)
		}
		all.Write(append(text, '\n'))
	}
	return all.String(), nil
}

// remedies are found by the text of an error: some clients, as gRPC, keep only that.
var remedies = []struct {
	says, want string
	lasting    bool
}{
	{"x509: certificate signed by unknown authority", "cacert=FILE with the authority of the servers", true},
	{"x509: certificate is valid for", name, true},
	{"x509: certificate is not valid for any names", name, true},
	{"x509: cannot validate certificate for", name, true},
	{"x509: certificate has expired or is not yet valid", "a server with a valid certificate, and a clock that is right", false},
	{"tls: certificate required", own, true},
	{"tls: unknown certificate authority", own, true},
	{"tls: bad certificate", own, true},
	{"tls: expired certificate", "cert=FILE with a certificate that has not expired", false},
}

const (
	name = "server_name=NAME with a name in the certificate of the servers"
	own  = "cert=FILE and cert_key=FILE, with a certificate that the servers trust"
)

// Remedy returns what would be right in place of what err says, the error of a connection, and whether it lasts until
// the parameters or the files change; "" if it is not of a certificate. An expired certificate may be renewed.
func Remedy(err error) (want string, lasting bool) {
	for _, r := range remedies {
		if strings.Contains(err.Error(), r.says) {
			return r.want, r.lasting
		}
	}
	return "", false
}

// Transport returns one for HTTP that is as [http.DefaultTransport] is by default, and with what was set there, unless
// the program has put something else in its place.
func Transport() *http.Transport {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		return t.Clone()
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2: true, MaxIdleConns: 100, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
	}
}
