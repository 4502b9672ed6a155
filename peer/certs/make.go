package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// How long certificates are valid where nothing else is said.
const (
	DefaultValid = 365 * 24 * time.Hour      // of nodes and operators
	validCA      = 10 * 365 * 24 * time.Hour // of the authority

	early = time.Hour // before now: for clocks that are late
)

const (
	caFile, operatorFile = "ca", "operator"
	certExt, keyExt      = ".crt", ".key"
)

// OperatorSpec is an operator to issue a certificate to. Without a Name the files are called operator for [Operate] and
// as the role otherwise.
type OperatorSpec struct {
	Role Role
	Name string // for logs; may be empty
}

// Node is a node to issue a certificate to.
type Node struct {
	ID string
	// Hosts are IP addresses and DNS names for the certificate, for other tools.
	Hosts []string
}

// Options says what to make.
type Options struct {
	Cluster string
	Nodes   []Node
	// Operators are the operators to issue certificates to; nil is one without a name and with the role [Operate].
	Operators []OperatorSpec
	// Valid is how long the certificates of nodes and operators are valid; 0 is
	// [DefaultValid]. None outlives its authority, which is made for ten years, or for
	// Valid if that is longer.
	Valid time.Duration
	// From is when the certificates, and a new authority, begin to be valid; zero is now. They are valid an hour
	// before, for clocks that are late.
	From time.Time
}

// Make writes into dir, which it makes if need be, an authority (ca.crt, ca.key) and a certificate with its key for
// each node (ID.crt, ID.key) and each operator (NAME.crt, NAME.key). Keys are ECDSA on P-256 and can be read by their
// owner only. A node needs ca.crt and its own two files; ca.key belongs on no node.
//
// Nothing is overwritten: with the authority already there it adds what is missing. If nothing is missing, the error
// matches fs.ErrExist.
func Make(dir string, o Options) error {
	if err := o.check(); err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	if err := o.make(dir); err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	return nil
}

func (o *Options) check() error {
	if _, err := ParseCluster(o.Cluster); err != nil {
		return err
	}
	if o.Valid < 0 {
		return fmt.Errorf("valid for %v; want more than 0", o.Valid)
	}
	for n, node := range o.Nodes {
		if _, err := protocol.ParseNodeID(node.ID); err != nil {
			return err
		}
		if reserved(node.ID) {
			return fmt.Errorf("node id %q: %s%s is another file's name; want another id", node.ID, strings.ToLower(node.ID), certExt)
		}
		if slices.IndexFunc(o.Nodes, func(other Node) bool { return strings.EqualFold(other.ID, node.ID) }) != n {
			return fmt.Errorf("node id %q is listed twice (upper and lower case count as the same, as in some file systems)", node.ID)
		}
		for _, host := range node.Hosts {
			if net.ParseIP(host) == nil && (host == "" || strings.ContainsAny(host, ":/[] \t")) {
				return fmt.Errorf("host %q of %s: want an IP address or a DNS name, without a port", host, node.ID)
			}
		}
	}
	for _, p := range o.Operators {
		if _, err := ParseRole(string(p.Role)); err != nil {
			return err
		}
		if p.Name == "" {
			continue
		}
		if err := checkName(p.Name); err != nil {
			return err
		}
		if reserved(p.Name) {
			return fmt.Errorf("operator name %q: %s%s is another file's name; want another name", p.Name, strings.ToLower(p.Name), certExt)
		}
	}
	return nil
}

func (o *Options) make(dir string) error {
	now := o.From
	if now.IsZero() {
		now = time.Now()
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, made, err := o.authority(dir, now)
	if err != nil {
		return err
	}
	valid := o.Valid
	if valid == 0 {
		valid = DefaultValid
	}
	for _, one := range o.subjects() {
		there, err := pairThere(dir, one.file)
		if err != nil {
			return err
		}
		if there {
			if err := one.has(dir, o.Cluster); err != nil {
				return err
			}
			continue
		}
		made = true
		cert := template(o.Cluster, one.id, now, valid, ca)
		for _, host := range one.hosts {
			if ip := net.ParseIP(host); ip != nil {
				cert.IPAddresses = append(cert.IPAddresses, ip)
			} else {
				cert.DNSNames = append(cert.DNSNames, host)
			}
		}
		if _, err := issue(dir, one.file, cert, ca, create); err != nil {
			return err
		}
	}
	if !made {
		return fmt.Errorf("%s: authority and all certificates are there: %w; renew them, or remove both files of the one to issue anew", dir, fs.ErrExist)
	}
	return nil
}

// subjectOf is a node or an operator to issue a certificate to.
type subjectOf struct {
	id, file string
	hosts    []string
}

func (o *Options) subjects() (all []subjectOf) {
	for _, n := range o.Nodes {
		all = append(all, subjectOf{n.ID, n.ID, n.Hosts})
	}
	people := o.Operators
	if people == nil {
		people = []OperatorSpec{{Role: Operate}}
	}
	for _, p := range people {
		all = append(all, subjectOf{operatorID(p.Role, p.Name), fileOf(p.Role, p.Name), nil})
	}
	return all
}

// has says what is wrong with the certificate that exists already.
func (s *subjectOf) has(dir, cluster string) error {
	name := filepath.Join(dir, s.file+certExt)
	chain, err := readCerts(name)
	if err != nil {
		return err
	}
	if _, id, err := named(chain[0]); err != nil || id != s.id {
		return fmt.Errorf("%s is there already, and is the certificate of %s; want %s in a file of another name",
			name, subject(chain[0]), who(cluster, s.id))
	}
	return nil
}

// template is a certificate to be issued.
func template(cluster, id string, now time.Time, valid time.Duration, ca *issuer) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: id, Organization: []string{cluster}},
		URIs:        []*url.URL{uriOf(cluster, id)},
		NotBefore:   now.Add(-early),
		NotAfter:    earlier(now.Add(valid), ca.cert.NotAfter),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// issuer is an authority that can sign.
type issuer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// authority is the one in dir, or a new one.
func (o *Options) authority(dir string, now time.Time) (ca *issuer, made bool, err error) {
	there, err := pairThere(dir, caFile)
	if err != nil {
		return nil, false, err
	}
	if !there {
		ca, err = issue(dir, caFile, authorityFor(o.Cluster, now, max(validCA, o.Valid)), nil, create)
		return ca, true, err
	}
	if ca, _, err = readAuthority(dir); err == nil {
		err = ca.signs(dir, now)
	}
	if err != nil {
		return nil, false, err
	}
	// An authority that was made elsewhere need not name a cluster.
	if cluster, _, err := named(ca.cert); err == nil && cluster != o.Cluster {
		return nil, false, fmt.Errorf("%s is the authority of cluster %s; want %s", filepath.Join(dir, caFile+certExt), cluster, o.Cluster)
	}
	return ca, false, nil
}

// authorityFor is the certificate of a new authority.
func authorityFor(cluster string, now time.Time, valid time.Duration) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: "elect CA of " + cluster, Organization: []string{cluster}},
		URIs:                  []*url.URL{uriOf(cluster, authority)},
		NotBefore:             now.Add(-early),
		NotAfter:              now.Add(valid),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true, // it signs no other authorities
	}
}

// readAuthority returns the authority in dir whose key is ca.key, and all trusted
// authorities: during a rollover ca.crt has two.
func readAuthority(dir string) (ca *issuer, all []*x509.Certificate, err error) {
	certName, keyName := filepath.Join(dir, caFile+certExt), filepath.Join(dir, caFile+keyExt)
	if all, err = readCerts(certName); err != nil {
		return nil, nil, err
	}
	secret, err := os.ReadFile(keyName)
	if err != nil {
		return nil, nil, err
	}
	for _, cert := range all {
		pair, failed := tls.X509KeyPair(pem.EncodeToMemory(block(cert)), secret)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		key, ok := pair.PrivateKey.(crypto.Signer)
		if !ok || !cert.IsCA {
			return nil, nil, fmt.Errorf("%s is the certificate of %s, which is no authority", certName, subject(cert))
		}
		return &issuer{cert, key}, all, nil
	}
	return nil, nil, fmt.Errorf("%s with %s: %w", certName, keyName, err)
}

// signs returns why an authority must not sign any more; nil if it may.
func (ca *issuer) signs(dir string, now time.Time) error {
	if !now.After(ca.cert.NotAfter) {
		return nil
	}
	return fmt.Errorf("%s expired on %s; want a new authority: elect certs rollover",
		filepath.Join(dir, caFile+certExt), ca.cert.NotAfter.UTC().Format(time.DateOnly))
}

func block(cert *x509.Certificate) *pem.Block {
	return &pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}
}

// pairThere reports whether a certificate and its key exist; one without the other is
// an error.
func pairThere(dir, name string) (bool, error) {
	var there, missing []string
	for _, ext := range []string{certExt, keyExt} {
		file := filepath.Join(dir, name+ext)
		switch _, err := os.Lstat(file); {
		case err == nil:
			there = append(there, file)
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, file)
		default:
			return false, err
		}
	}
	if len(there) == 1 {
		return false, fmt.Errorf("%s is there and %s is not; bring the one here, or remove the other to have both made anew", there[0], missing[0])
	}
	return len(there) == 2, nil
}

// issue signs a certificate, and writes it and its key with put.
func issue(dir, name string, cert *x509.Certificate, by *issuer, put putter) (*issuer, error) {
	made, secret, err := sign(name, cert, by)
	if err != nil {
		return nil, err
	}
	if err := put(filepath.Join(dir, name+keyExt), 0o600, secret); err != nil {
		return nil, err
	}
	return made, put(filepath.Join(dir, name+certExt), 0o644, block(made.cert))
}

// sign draws a key, and signs the certificate: with by, or with its own key if by is
// nil.
func sign(name string, cert *x509.Certificate, by *issuer) (made *issuer, secret *pem.Block, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if by == nil {
		by = &issuer{cert, key}
	}
	// Without a SerialNumber it is random, with the bits that RFC 5280 wants.
	der, err := x509.CreateCertificate(rand.Reader, cert, by.cert, key.Public(), by.key)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate for %s: %w", name, err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		return nil, nil, fmt.Errorf("certificate for %s: %w", name, err)
	}
	bytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return &issuer{cert, key}, &pem.Block{Type: "PRIVATE KEY", Bytes: bytes}, nil
}

// putter writes a file atomically.
type putter func(name string, mode fs.FileMode, blocks ...*pem.Block) error

// create is a putter that fails if the file exists.
func create(name string, mode fs.FileMode, blocks ...*pem.Block) error {
	// Unlike a rename, a link fails if name is there.
	return write(name, mode, blocks, func(temp string) error { return os.Link(temp, name) })
}

// replace is a putter that replaces an existing file.
func replace(name string, mode fs.FileMode, blocks ...*pem.Block) error {
	return write(name, mode, blocks, func(temp string) error { return os.Rename(temp, name) })
}

func write(name string, mode fs.FileMode, blocks []*pem.Block, place func(temp string) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // made with 0600
	if err != nil {
		return err
	}
	defer func() {
		if removed := os.Remove(f.Name()); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}()
	for _, b := range blocks {
		err = errors.Join(err, pem.Encode(f, b))
	}
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return place(f.Name())
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
