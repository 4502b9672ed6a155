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
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots: m.roots, Intermediates: poolOf(shown[1:]), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage},
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

// ErrExpired is matched by errors about a certificate that has expired, the own one or that of the other side.
var ErrExpired = errors.New("the certificate has expired")

// expired is a text that matches [ErrExpired].
type expired struct{ text string }

func (e *expired) Error() string        { return e.text }
func (e *expired) Is(target error) bool { return target == ErrExpired }

const dateLayout = "2006-01-02 15:04 MST"

// explain says in words why a chain is not valid.
func (m *material) explain(leaf *x509.Certificate, err error, now time.Time) error {
	if bad, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		switch cert := bad.Cert; {
		case bad.Reason == x509.Expired && now.Before(cert.NotBefore):
			return fmt.Errorf("the certificate of %s is not valid before %s, and here it is %s; one of the two clocks is wrong",
				subject(cert), cert.NotBefore.UTC().Format(dateLayout), now.UTC().Format(dateLayout))
		case bad.Reason == x509.Expired && cert.IsCA:
			return &expired{fmt.Sprintf("the certificate of %s expired on %s, and here it is %s; want a new authority: elect certs rollover",
				subject(cert), cert.NotAfter.UTC().Format(dateLayout), now.UTC().Format(dateLayout))}
		case bad.Reason == x509.Expired:
			return &expired{fmt.Sprintf("the certificate of %s expired on %s, and here it is %s; want a new one: %s",
				subject(cert), cert.NotAfter.UTC().Format(dateLayout), now.UTC().Format(dateLayout), remedy(cert))}
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

// remedy says how to renew a certificate.
func remedy(cert *x509.Certificate) string {
	_, id, err := named(cert)
	if err != nil {
		id = "NAME"
	} else if role, name := RoleOf(id); role != "" {
		id = fileOf(role, name)
	}
	return fmt.Sprintf("elect certs renew %s in the directory with ca.key, and then copy %s.crt and %s.key to where the old ones are", id, id, id)
}

// Caller verifies the certificate of the calling side, and returns the id of the node or the operator, see [RoleOf].
// [Identity.Server] does it in VerifyConnection; a server that removes that, to answer with reasons, calls Caller.
func (i *Identity) Caller(state tls.ConnectionState) (id string, err error) {
	return i.current().verify(state.PeerCertificates, x509.ExtKeyUsageClientAuth, i.Cluster, "", time.Now())
}

// grace is how long a connection between nodes goes on after a certificate that was
// shown on it has expired: seven days, or a third of the certificate's life if that
// is less.
const grace = 7 * 24 * time.Hour

// Recheck verifies again the certificate that was shown on a connection. refused is why a new connection would not be
// accepted, or nil. over reports that this connection must end, too: the certificate is refused for another reason than
// its date, or expired more than seven days ago, or more than a third of its life ago if that is less.
func (i *Identity) Recheck(state tls.ConnectionState) (refused error, over bool) {
	m, now := i.current(), time.Now()
	check := func(at time.Time) error {
		_, err := m.verify(state.PeerCertificates, x509.ExtKeyUsageAny, i.Cluster, "", at)
		return err
	}
	if refused = check(now); !errors.Is(refused, ErrExpired) {
		return refused, refused != nil
	}
	leaf := state.PeerCertificates[0]
	return refused, check(now.Add(-min(grace, leaf.NotAfter.Sub(leaf.NotBefore)/3))) != nil
}
