package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// verify checks the certificate of the other side: the chain, the dates, the
// purpose, the cluster, and the id if want is not "".
func (m *material) verify(shown []*x509.Certificate, usage x509.ExtKeyUsage, cluster, want string, now time.Time) (id string, err error) {
	if len(shown) == 0 {
		return "", fmt.Errorf("%w; want one of cluster %s", errNoCertificate, cluster)
	}
	leaf := shown[0]
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots: m.roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage},
	}); err != nil {
		return "", m.explain(leaf, err, now)
	}
	theirs, id, err := named(leaf)
	switch {
	case err != nil:
		return "", err
	case id == authority:
		return "", fmt.Errorf("the certificate is for %s; want a node's", who(theirs, id))
	case theirs != cluster, want != "" && id != want:
		if want == "" {
			return "", fmt.Errorf("the certificate is for %s; want one of cluster %s", who(theirs, id), cluster)
		}
		return "", fmt.Errorf("the certificate is for %s; want %s", who(theirs, id), who(cluster, want))
	}
	return id, nil
}

const dateLayout = "2006-01-02 15:04 MST"

// explain says in words why a chain does not hold.
func (m *material) explain(leaf *x509.Certificate, err error, now time.Time) error {
	if bad, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		switch cert := bad.Cert; {
		case bad.Reason == x509.Expired && now.Before(cert.NotBefore):
			return fmt.Errorf("the certificate of %s is not valid before %s, and here it is %s; one of the two clocks is wrong",
				subject(cert), cert.NotBefore.UTC().Format(dateLayout), now.UTC().Format(dateLayout))
		case bad.Reason == x509.Expired:
			return fmt.Errorf("the certificate of %s expired on %s, and here it is %s; issue a new one",
				subject(cert), cert.NotAfter.UTC().Format(dateLayout), now.UTC().Format(dateLayout))
		case bad.Reason == x509.IncompatibleUsage:
			return fmt.Errorf("the certificate of %s is not for this purpose; want one for clients and servers both", subject(leaf))
		}
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		var ours []string
		for _, ca := range m.cas {
			ours = append(ours, fingerprint(ca.SubjectKeyId))
		}
		return fmt.Errorf("the certificate of %s is signed by another CA (%.100q, key %s); want the CA of %s (key %s)%s",
			subject(leaf), leaf.Issuer.CommonName, fingerprint(leaf.AuthorityKeyId), m.from, strings.Join(ours, " or "), m.otherwise)
	}
	return fmt.Errorf("the certificate of %s: %w", subject(leaf), err)
}

// Caller verifies the certificate of somebody who called, and says whose it is:
// the id of a node, or [Operator]. Server's configuration has done so already,
// unless its VerifyConnection was taken out in order to answer with reasons.
func (i *Identity) Caller(state tls.ConnectionState) (id string, err error) {
	return i.current().verify(state.PeerCertificates, x509.ExtKeyUsageClientAuth, i.Cluster, "", time.Now())
}
