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

	"github.com/electd/elect/protocol"
)

// How long certificates are valid where nothing else is said.
const (
	DefaultValid = 365 * 24 * time.Hour      // of nodes and the operator
	ValidCA      = 10 * 365 * 24 * time.Hour // of the authority

	early = time.Hour // before now: for clocks that are late
)

const (
	caFile, operatorFile = "ca", "operator"
	certExt, keyExt      = ".crt", ".key"
)

// Node is somebody to issue a certificate to.
type Node struct {
	ID protocol.NodeID
	// Hosts are IP addresses and DNS names to put into the certificate, for
	// tools that look at them. Peers do not.
	Hosts []string
}

// Options says what to make.
type Options struct {
	Cluster string
	Nodes   []Node
	// Valid is how long the certificates of nodes and operator are valid; 0 is
	// [DefaultValid]. None outlives its authority, which is made for [ValidCA], or
	// for Valid if that is longer.
	Valid time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Make writes into dir, which it makes if need be, an authority (ca.crt, ca.key),
// a certificate with its key for each node (ID.crt, ID.key) and one for people
// (operator.crt, operator.key). Keys are ECDSA on P-256 and can be read by their
// owner only.
//
// Nothing is overwritten. With the authority already there it adds what is
// missing; if nothing is, the error is fs.ErrExist. A node needs ca.crt and its
// own two files; ca.key belongs on no node.
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
		if _, err := protocol.ParseNodeID(string(node.ID)); err != nil {
			return err
		}
		if name := strings.ToLower(string(node.ID)); name == caFile || name == operatorFile {
			return fmt.Errorf("node id %q: %s%s is another file's name; want another id", node.ID, name, certExt)
		}
		if slices.IndexFunc(o.Nodes, func(other Node) bool { return strings.EqualFold(string(other.ID), string(node.ID)) }) != n {
			return fmt.Errorf("node id %q is listed twice (upper and lower case count as the same, as in some file systems)", node.ID)
		}
		for _, host := range node.Hosts {
			if net.ParseIP(host) == nil && (host == "" || strings.ContainsAny(host, ":/[] \t")) {
				return fmt.Errorf("host %q of %s: want an IP address or a DNS name, without a port", host, node.ID)
			}
		}
	}
	return nil
}

func (o *Options) make(dir string) error {
	now := time.Now()
	if o.Now != nil {
		now = o.Now()
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
	for _, node := range append(slices.Clone(o.Nodes), Node{ID: Operator}) {
		name := string(node.ID)
		if name == Operator {
			name = operatorFile
		}
		there, err := pairThere(dir, name)
		if err != nil {
			return err
		}
		if there {
			continue
		}
		made = true
		cert := &x509.Certificate{
			Subject:     pkix.Name{CommonName: string(node.ID), Organization: []string{o.Cluster}},
			URIs:        []*url.URL{uriOf(o.Cluster, string(node.ID))},
			NotBefore:   now.Add(-early),
			NotAfter:    earlier(now.Add(valid), ca.cert.NotAfter),
			KeyUsage:    x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		for _, host := range node.Hosts {
			if ip := net.ParseIP(host); ip != nil {
				cert.IPAddresses = append(cert.IPAddresses, ip)
			} else {
				cert.DNSNames = append(cert.DNSNames, host)
			}
		}
		if _, err := issue(dir, name, cert, ca); err != nil {
			return err
		}
	}
	if !made {
		return fmt.Errorf("%s: authority and all certificates are there: %w; remove both files of the one to issue anew", dir, fs.ErrExist)
	}
	return nil
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
		cert := &x509.Certificate{
			Subject:               pkix.Name{CommonName: "elect CA of " + o.Cluster, Organization: []string{o.Cluster}},
			URIs:                  []*url.URL{uriOf(o.Cluster, authority)},
			NotBefore:             now.Add(-early),
			NotAfter:              now.Add(max(ValidCA, o.Valid)),
			KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
			BasicConstraintsValid: true,
			IsCA:                  true,
			MaxPathLenZero:        true, // it signs no other authorities
		}
		ca, err = issue(dir, caFile, cert, nil)
		return ca, true, err
	}
	certName, keyName := filepath.Join(dir, caFile+certExt), filepath.Join(dir, caFile+keyExt)
	pair, err := tls.LoadX509KeyPair(certName, keyName)
	if err != nil {
		return nil, false, fmt.Errorf("%s with %s: %w", certName, keyName, err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	cert := pair.Leaf
	switch {
	case !ok || !cert.IsCA:
		return nil, false, fmt.Errorf("%s is the certificate of %s, which is no authority", certName, subject(cert))
	case now.After(cert.NotAfter):
		return nil, false, fmt.Errorf("%s expired on %s: make a new authority in another directory", certName, cert.NotAfter.UTC().Format(time.DateOnly))
	}
	// An authority that was made elsewhere need not name a cluster.
	if cluster, _, err := named(cert); err == nil && cluster != o.Cluster {
		return nil, false, fmt.Errorf("%s is the authority of cluster %s; want %s", certName, cluster, o.Cluster)
	}
	return &issuer{cert, key}, false, nil
}

// pairThere reports whether a certificate and its key are there; one without the
// other is an error.
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

// issue draws a key, has the certificate signed (by itself, without an
// authority), and writes both.
func issue(dir, name string, cert *x509.Certificate, by *issuer) (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if by == nil {
		by = &issuer{cert, key}
	}
	// Without a SerialNumber it is random, with the bits that RFC 5280 wants.
	der, err := x509.CreateCertificate(rand.Reader, cert, by.cert, key.Public(), by.key)
	if err != nil {
		return nil, fmt.Errorf("certificate for %s: %w", name, err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("certificate for %s: %w", name, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := put(filepath.Join(dir, name+keyExt), 0o600, &pem.Block{Type: "PRIVATE KEY", Bytes: secret}); err != nil {
		return nil, err
	}
	if err := put(filepath.Join(dir, name+certExt), 0o644, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
		return nil, err
	}
	return &issuer{cert, key}, nil
}

// put writes a file that is there whole or not at all, and replaces none.
func put(name string, mode fs.FileMode, block *pem.Block) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // made with 0600
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, os.Remove(f.Name()))
	}()
	_, err = f.Write(pem.EncodeToMemory(block))
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Link(f.Name(), name) // unlike a rename it fails if name is there
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
