package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"
)

// LoadRoot is [LoadDir] for an open directory, with an authority of one certificate. If id is "" it reads the
// certificate of the operator without a name and with the role [Administer]. It reads the files once. Errors about a
// certificate of another authority end with the text otherwise.
func LoadRoot(dir *os.Root, id, otherwise string) (*Identity, error) {
	name := id
	if id == "" {
		name, id = fileOf(Administer, ""), operatorID(Administer, "")
	}
	var data [3][]byte
	for n, file := range []string{caFile + certExt, name + certExt, name + keyExt} {
		var err error
		if data[n], err = dir.ReadFile(file); err != nil {
			return nil, fmt.Errorf("certs: %s: %w", dir.Name(), err)
		}
	}
	fail := func(err error) (*Identity, error) {
		return nil, fmt.Errorf("certs: %s of %s: %w", name+certExt, dir.Name(), err)
	}
	block, _ := pem.Decode(data[0])
	if block == nil {
		return fail(fmt.Errorf("%s has no certificate in it", caFile+certExt))
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fail(err)
	}
	m := &material{roots: x509.NewCertPool(), cas: []*x509.Certificate{ca}, from: dir.Name(), otherwise: otherwise}
	m.roots.AddCert(ca)
	if m.pair, err = tls.X509KeyPair(data[1], data[2]); err != nil {
		return fail(err)
	}
	cluster, _, err := named(m.pair.Leaf)
	if err != nil {
		return fail(err)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := m.verify([]*x509.Certificate{m.pair.Leaf}, usage, cluster, id, time.Now()); err != nil {
			return fail(err)
		}
	}
	m.caEnd = m.authorityEnd([]*x509.Certificate{m.pair.Leaf})
	return &Identity{Cluster: cluster, ID: id, loaded: m, once: true}, nil
}
