package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/electd/elect/internal/protocol"
)

const (
	unnamed   = "~operator" // of an operator without a name and with the role Operate; builds without roles know no other
	scheme    = "elect"
	authority = "~ca" // in the authority's own certificate
)

// ParseCluster returns text as the name of a cluster, or says what is wrong with it: 1 to 63 letters, digits, '.', '_'
// or '-', with something on both sides of each dot.
func ParseCluster(text string) (string, error) {
	if _, err := protocol.ParseNodeID(text); err != nil || len(text) > 63 || slices.Contains(strings.Split(text, "."), "") {
		return "", fmt.Errorf("cluster %.80q: want 1 to 63 letters, digits, '.', '_' and '-', and no dot at an end or beside another", text)
	}
	return text, nil
}

func uriOf(cluster, id string) *url.URL {
	return &url.URL{Scheme: scheme, Host: cluster, Path: "/" + id}
}

// PeerOf returns the holder of the other side's certificate: the cluster, and the id of a node or of an operator, see
// [RoleOf]. It verifies nothing.
func PeerOf(state tls.ConnectionState) (cluster, id string, err error) {
	if len(state.PeerCertificates) == 0 {
		return "", "", errNoCertificate
	}
	return named(state.PeerCertificates[0])
}

var errNoCertificate = errors.New("no certificate was shown")

// named reads the one URI of ours from a certificate.
func named(cert *x509.Certificate) (cluster, id string, err error) {
	var ours []*url.URL
	for _, u := range cert.URIs {
		if u.Scheme == scheme {
			ours = append(ours, u)
		}
	}
	if len(ours) != 1 {
		return "", "", fmt.Errorf("the certificate of %s has %d URIs that begin with %s://; want one, such as %s",
			subject(cert), len(ours), scheme, uriOf("CLUSTER", "ID"))
	}
	if cluster, id, err = parse(ours[0]); err != nil {
		return "", "", fmt.Errorf("the certificate's URI %.200q: %w; want one such as %s", ours[0], err, uriOf("CLUSTER", "ID"))
	}
	return cluster, id, nil
}

// parse reads a URI of ours.
func parse(u *url.URL) (cluster, id string, err error) {
	cluster, err = ParseCluster(u.Host)
	id = strings.TrimPrefix(u.Path, "/")
	switch role, _ := RoleOf(id); {
	case err != nil, id == authority, role != "":
	case strings.HasPrefix(id, "~"):
		err = fmt.Errorf("%.80q is no role; want ~%s, %s or ~%s, with /NAME or without", id, Observe, unnamed, Administer)
	default:
		_, err = protocol.ParseNodeID(id)
	}
	if err == nil && uriOf(cluster, id).String() != u.String() {
		err = errors.New("it has more than a cluster and an id")
	}
	return cluster, id, err
}

// who describes a cluster and an id in words.
func who(cluster, id string) string {
	switch role, name := RoleOf(id); {
	case name != "":
		return fmt.Sprintf("the operator %s (role %s) of cluster %s", name, role, cluster)
	case role != "":
		return fmt.Sprintf("an operator (role %s) of cluster %s", role, cluster)
	case id == authority:
		return "the authority of cluster " + cluster
	}
	return id + " of cluster " + cluster
}

// subject describes the holder of a certificate in words. The certificate may come from
// a stranger and contain any text: what is not a name is quoted and cut.
func subject(cert *x509.Certificate) string {
	for _, u := range cert.URIs {
		if u.Scheme == scheme {
			if cluster, id, err := parse(u); err == nil {
				return who(cluster, id)
			}
			return fmt.Sprintf("%.100q", u)
		}
	}
	return fmt.Sprintf("%.100q", cert.Subject)
}

// fingerprint is the beginning of a key's identifier. It differs for two authorities
// that have the same name.
func fingerprint(keyID []byte) string {
	if len(keyID) == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%x", keyID[:min(len(keyID), 4)])
}
