package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/electd/elect/protocol"
)

// Identity is a certificate with its key, and the authority whose certificates
// it accepts. Make one with [Load] or [LoadDir].
type Identity struct {
	Cluster string // of the certificate
	ID      string // of a node, or [Operator]

	files [3]string // authority, certificate, key
	once  bool      // they are not read again, see LoadRoot

	mu     sync.Mutex
	loaded *material
	stamps [3]stamp // of the files as they were last read
	stale  error    // why they are not in force
}

// material is what the files held when they were read.
type material struct {
	pair  tls.Certificate
	roots *x509.CertPool
	cas   []*x509.Certificate
	from  string // the authority's file

	otherwise string // ends the error about another authority
}

// stamp tells whether a file has changed.
type stamp struct {
	size int64
	time time.Time
	info fs.FileInfo
}

// LoadDir reads what [Make] wrote into a directory for a node; id "" is the
// operator.
func LoadDir(dir, id string) (*Identity, error) {
	name, want := id, id
	if id == "" || id == Operator {
		name, want = operatorFile, Operator
	} else if _, err := protocol.ParseNodeID(id); err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	i, err := Load(filepath.Join(dir, caFile+certExt), filepath.Join(dir, name+certExt), filepath.Join(dir, name+keyExt))
	if err == nil && i.ID != want {
		return nil, fmt.Errorf("certs: %s: the certificate is for %s; want %s", i.files[1], who(i.Cluster, i.ID), who(i.Cluster, want))
	}
	return i, err
}

// Load reads an authority's certificate, or several, and a certificate with its
// key, all in PEM. It refuses what could not be used now: a certificate of
// another authority, or one that has expired.
func Load(ca, cert, key string) (*Identity, error) {
	i := &Identity{files: [3]string{ca, cert, key}}
	stamps, err := i.look()
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	m, cluster, id, err := i.read()
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	i.Cluster, i.ID, i.loaded, i.stamps = cluster, id, m, stamps
	return i, nil
}

// look stamps the files.
func (i *Identity) look() (stamps [3]stamp, err error) {
	for n, name := range i.files {
		info, err := os.Stat(name)
		if err != nil {
			return stamps, err
		}
		stamps[n] = stamp{size: info.Size(), time: info.ModTime(), info: info}
	}
	return stamps, nil
}

func same(a, b [3]stamp) bool {
	for n := range a {
		if a[n].size != b[n].size || !a[n].time.Equal(b[n].time) || !os.SameFile(a[n].info, b[n].info) {
			return false
		}
	}
	return true
}

// read reads the files and checks them against each other.
func (i *Identity) read() (m *material, cluster, id string, err error) {
	fail := func(err error) (*material, string, string, error) { return nil, "", "", err }
	m = &material{roots: x509.NewCertPool(), from: i.files[0]}
	if m.cas, err = readCerts(i.files[0]); err != nil {
		return fail(err)
	}
	for _, ca := range m.cas {
		if !ca.IsCA {
			return fail(fmt.Errorf("%s: the certificate of %s is no authority's", i.files[0], subject(ca)))
		}
		m.roots.AddCert(ca)
	}
	chain, err := readCerts(i.files[1])
	if err != nil {
		return fail(err)
	}
	if m.pair, err = tls.LoadX509KeyPair(i.files[1], i.files[2]); err != nil {
		return fail(fmt.Errorf("%s with %s: %w", i.files[1], i.files[2], err))
	}
	if cluster, id, err = named(chain[0]); err != nil {
		return fail(fmt.Errorf("%s: %w", i.files[1], err))
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := m.verify(chain, usage, cluster, id, time.Now()); err != nil {
			return fail(fmt.Errorf("%s: %w", i.files[1], err))
		}
	}
	return m, cluster, id, nil
}

func readCerts(name string) (all []*x509.Certificate, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no certificate in it; want PEM, which begins with -----BEGIN CERTIFICATE-----", name)
	}
	return all, nil
}

// current is what the files hold now, or held when they last could be used.
func (i *Identity) current() *material {
	if i.once {
		return i.loaded
	}
	stamps, err := i.look()
	i.mu.Lock()
	known, loaded := i.stamps, i.loaded
	if err != nil {
		i.stale, i.stamps = err, [3]stamp{} // read again once they are back
	}
	i.mu.Unlock()
	if err != nil || same(stamps, known) {
		return loaded
	}
	m, cluster, id, err := i.read()
	if err == nil && (cluster != i.Cluster || id != i.ID) {
		err = fmt.Errorf("%s: the certificate is now for %s; want %s", i.files[1], who(cluster, id), who(i.Cluster, i.ID))
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	// A certificate and its key are replaced one after the other. What does not
	// fit together is looked at again when one of the files has changed.
	i.stamps, i.stale = stamps, err
	if err == nil {
		i.loaded = m
	}
	return i.loaded
}

// Stale looks at the files, and says why what they hold now is not in force, or
// nil.
func (i *Identity) Stale() error {
	i.current()
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stale
}

// Expires is when the certificate in force ends.
func (i *Identity) Expires() time.Time { return i.current().pair.Leaf.NotAfter }

// soon is how long before its end a certificate should have been renewed. One that
// is short-lived is renewed by a machine, and has a third of its life for that.
const soon = 30 * 24 * time.Hour

// Warnings looks at the files, and says what an operator should mend while all is
// well yet: files that are not in force, an end that is near, a key that everybody
// may read. The texts stay the same as long as the causes do.
func (i *Identity) Warnings() (all []string) {
	leaf := i.current().pair.Leaf
	if err := i.Stale(); err != nil {
		all = append(all, fmt.Sprintf("what the files hold now is not in force, and the next start will fail: %v", err))
	}
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	switch left := time.Until(leaf.NotAfter); {
	case left <= 0:
		all = append(all, fmt.Sprintf("%s: it expired on %s: nobody accepts it", i.files[1], leaf.NotAfter.UTC().Format(dateLayout)))
	case left < min(soon, life/3):
		all = append(all, fmt.Sprintf("%s: it expires on %s; issue a new one", i.files[1], leaf.NotAfter.UTC().Format(dateLayout)))
	}
	const others = 0o007
	if info, err := os.Stat(i.files[2]); err == nil && runtime.GOOS != "windows" && info.Mode()&others != 0 {
		all = append(all, fmt.Sprintf("%s: every user of this machine may use this private key (mode %04o); want 0600", i.files[2], info.Mode().Perm()))
	}
	return all
}

// String is whom the certificate is for and who signed it, for people.
func (i *Identity) String() string {
	m := i.current()
	return fmt.Sprintf("%s, CA key %s", who(i.Cluster, i.ID), fingerprint(m.pair.Leaf.AuthorityKeyId))
}

// Server is the configuration for accepting nodes and operators of the cluster.
// The caller owns it.
func (i *Identity) Server() *tls.Config {
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		ClientAuth:                  tls.RequestClientCert, // its absence is told in words, below
		SessionTicketsDisabled:      true,                  // a resumed session would outlive a certificate
		DynamicRecordSizingDisabled: true,                  // what is written at once is one record
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &i.current().pair, nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			_, err := i.Caller(state)
			return err
		},
	}
}

// Client is the configuration for dialling a node of the cluster: that one, or
// if expect is "" any. The caller owns it.
func (i *Identity) Client(expect protocol.NodeID) *tls.Config {
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		DynamicRecordSizingDisabled: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &i.current().pair, nil
		},
		// Certificates name nodes, not hosts: VerifyConnection does what this
		// leaves out, chain included.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			id, err := i.current().verify(state.PeerCertificates, x509.ExtKeyUsageServerAuth, i.Cluster, string(expect), time.Now())
			if err == nil && id == Operator {
				err = errors.New("the certificate is an operator's; want a node's")
			}
			return err
		},
	}
}
