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

	"github.com/electd/elect/internal/protocol"
)

// Identity is a certificate with its key, and the authority whose certificates
// it accepts. Make one with [Load] or [LoadDir].
type Identity struct {
	Cluster string // of the certificate
	ID      string // of a node or of an operator, see [RoleOf]

	files [3]string // authority, certificate, key
	once  bool      // the files are not read again, see LoadRoot

	mu     sync.Mutex
	loaded *material
	stamps [3]stamp // of the files as they were last read
	stale  error    // why they are not in force
	reads  uint64   // how often new contents came into force
}

// material is what the files held when they were read.
type material struct {
	pair  tls.Certificate
	roots *x509.CertPool
	cas   []*x509.Certificate
	from  string // the authority's file
	caEnd time.Time

	otherwise string // ends the error about another authority
}

// stamp tells whether a file has changed.
type stamp struct {
	size int64
	time time.Time
	info fs.FileInfo
}

// LoadDir reads what [Make] wrote for a node. If id is "" it reads the operator's certificate with the strongest role
// whose key can be read, and of several the one with the first file name.
func LoadDir(dir, id string) (*Identity, error) {
	name, want := id, id
	if id == "" {
		var err error
		if name, want, err = strongest(dir); err != nil {
			return nil, fmt.Errorf("certs: %w", err)
		}
	} else if role, label := RoleOf(id); role != "" {
		name = fileOf(role, label)
	} else if _, err := protocol.ParseNodeID(id); err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	i, err := Load(filepath.Join(dir, caFile+certExt), filepath.Join(dir, name+certExt), filepath.Join(dir, name+keyExt))
	if err == nil && i.ID != want {
		return nil, fmt.Errorf("certs: %s: the certificate is for %s; want %s", i.files[1], who(i.Cluster, i.ID), who(i.Cluster, want))
	}
	return i, err
}

// strongest finds the operator's certificate for a client. If there is none it returns
// operator.crt, so that the error names that file.
func strongest(dir string) (name, id string, err error) {
	name, id = operatorFile, unnamed
	if _, err := os.Stat(filepath.Join(dir, caFile+certExt)); err != nil {
		return "", "", err
	}
	files, err := pairs(dir)
	if err != nil {
		return "", "", err
	}
	var best Role
	for _, file := range files {
		_, h, err := readNamed(dir, file)
		if err != nil {
			continue // it cannot be read or is damaged, and the caller did not name it
		}
		role, _ := RoleOf(h.id)
		if role.rank() <= best.rank() {
			continue
		}
		if key, err := os.Open(filepath.Join(dir, file+keyExt)); err == nil {
			_ = key.Close()
			best, name, id = role, file, h.id
		}
	}
	return name, id, nil
}

// Load reads an authority's certificate, or several, and a certificate with its key, all in PEM. It refuses a
// certificate of another authority, or one that has expired.
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
	i.Cluster, i.ID, i.loaded, i.stamps, i.reads = cluster, id, m, stamps, 1
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
	m.caEnd = m.authorityEnd(chain)
	return m, cluster, id, nil
}

// authorityEnd is when the authorities end on which a valid certificate depends.
func (m *material) authorityEnd(chain []*x509.Certificate) (end time.Time) {
	ways, err := chain[0].Verify(x509.VerifyOptions{
		Roots: m.roots, Intermediates: poolOf(chain[1:]), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return chain[0].NotAfter // it has ended within this moment
	}
	for _, way := range ways {
		first := way[len(way)-1].NotAfter
		for _, cert := range way[1:] {
			first = earlier(first, cert.NotAfter)
		}
		if first.After(end) {
			end = first
		}
	}
	return end
}

func poolOf(all []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range all {
		pool.AddCert(c)
	}
	return pool
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

// current returns the contents of the files: the present ones if they can be used, or
// else the last ones that could.
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
		i.reads++
	}
	return i.loaded
}

// Version checks the files, and rises when new contents come into force.
func (i *Identity) Version() uint64 {
	i.current()
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.reads
}

// reloadError checks the files, and returns why their present contents are not in force, or nil if they are.
func (i *Identity) reloadError() error {
	i.current()
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stale
}

// Expires is when the certificate in force ends.
func (i *Identity) Expires() time.Time { return i.current().pair.Leaf.NotAfter }

// AuthorityExpires is when the authority of the certificate in force ends, and the certificate with it.
func (i *Identity) AuthorityExpires() time.Time { return i.current().caEnd }

// Authority is the beginning of the key identifier of the authority that signed the certificate in force.
func (i *Identity) Authority() string { return fingerprint(i.current().pair.Leaf.AuthorityKeyId) }

// How long before its end a certificate should be renewed. A short-lived one is
// renewed automatically, and has a third of its life for that. A new authority takes
// longer, because files are copied to every node three times.
const (
	soon          = 30 * 24 * time.Hour
	soonAuthority = 90 * 24 * time.Hour
)

// ExpiresSoon reports whether a certificate should have been renewed at a time: in the last 30 days of its life, an
// authority's in the last 90, and never before its last third.
func ExpiresSoon(cert *x509.Certificate, at time.Time) bool {
	before := soon
	if cert.IsCA {
		before = soonAuthority
	}
	return cert.NotAfter.Sub(at) < min(before, cert.NotAfter.Sub(cert.NotBefore)/3)
}

// Warnings checks the files, and returns what an operator should mend: files that are not in force, a certificate or an
// authority that ends soon, a key that every user may read. The texts stay the same as long as the causes do.
func (i *Identity) Warnings() (all []string) {
	m := i.current()
	leaf := m.pair.Leaf
	if err := i.reloadError(); err != nil {
		all = append(all, fmt.Sprintf("what the files hold now is not in force, and the next start will fail: %v", err))
	}
	now := time.Now()
	date := leaf.NotAfter.UTC().Format(dateLayout)
	switch {
	case !leaf.NotAfter.After(now):
		all = append(all, fmt.Sprintf("%s: it expired on %s: no new connection is accepted with it, and the next start will fail; want a new one: %s",
			i.files[1], date, remedy(leaf)))
	case leaf.NotAfter.Before(m.caEnd) && ExpiresSoon(leaf, now):
		all = append(all, fmt.Sprintf("%s: it expires on %s; want a new one: %s", i.files[1], date, remedy(leaf)))
	}
	if m.caEnd.Sub(now) < min(soonAuthority, m.caLife()/3) {
		all = append(all, fmt.Sprintf("%s: the authority ends on %s, and all its certificates with it; want a new one: elect certs rollover in the directory with ca.key",
			i.files[0], m.caEnd.UTC().Format(dateLayout)))
	}
	const others = 0o007
	if info, err := os.Stat(i.files[2]); err == nil && runtime.GOOS != "windows" && info.Mode()&others != 0 {
		all = append(all, fmt.Sprintf("%s: every user of this machine may use this private key (mode %04o); want 0600", i.files[2], info.Mode().Perm()))
	}
	return all
}

// caLife is how long the authority that ends first is valid.
func (m *material) caLife() time.Duration {
	for _, ca := range m.cas {
		if ca.NotAfter.Equal(m.caEnd) {
			return ca.NotAfter.Sub(ca.NotBefore)
		}
	}
	return validCA // it is an intermediate one
}

// String names the holder of the certificate and its authority, for people.
func (i *Identity) String() string {
	m := i.current()
	return fmt.Sprintf("%s, CA key %s", who(i.Cluster, i.ID), fingerprint(m.pair.Leaf.AuthorityKeyId))
}

// Server is the configuration for accepting nodes and operators of the cluster.
// The caller owns it.
func (i *Identity) Server() *tls.Config {
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		ClientAuth:                  tls.RequestClientCert, // below, its absence is an error with an explanation
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

// Client is the configuration for dialling a node of the cluster: the node expect, or
// any node if expect is "". The caller owns it.
func (i *Identity) Client(expect string) *tls.Config {
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
			if role, _ := RoleOf(id); err == nil && role != "" {
				err = errors.New("the certificate is an operator's; want a node's")
			}
			return err
		},
	}
}
