package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// RenewOptions says what to renew.
type RenewOptions struct {
	// Names are the names of files, without .crt: ids of nodes and names of operators. nil is all that are in the
	// directory.
	Names []string
	// Valid is how long the new certificates are valid; 0 is [DefaultValid]. None outlives its authority.
	Valid time.Duration
}

// Renewed is a certificate that was renewed.
type Renewed struct {
	Name    string // of the files, without .crt and .key
	ID      string // of a node or of an operator, see [RoleOf]
	Expires time.Time
}

// Renew issues new certificates for those in a directory that [Make] wrote, with new keys and a new end, and the same
// ids, roles and hosts. It needs ca.key, and accepts certificates that have expired. Each pair is replaced by two
// renames, the key first; an [Identity] that reads between the two keeps what it has. After an error the certificates
// in done are renewed and the others are not, but one key may not match its certificate, as after a crash, until Renew
// is called again.
func Renew(dir string, o RenewOptions) (done []Renewed, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("certs: %w", err)
		}
	}()
	valid := o.Valid
	switch {
	case valid < 0:
		return nil, fmt.Errorf("valid for %v; want more than 0", valid)
	case valid == 0:
		valid = DefaultValid
	}
	now := time.Now()
	ca, _, err := signer(dir)
	if err == nil {
		err = ca.signs(dir, now)
	}
	if err != nil {
		return nil, err
	}
	names, err := pairs(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range o.Names {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%s has no certificate %s%s; want some of: %s", dir, name, certExt, strings.Join(names, ", "))
		}
	}
	if o.Names != nil {
		names = o.Names
	}
	for _, name := range names { // before anything is written
		if _, _, err := readNamed(dir, name); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		cluster, old, err := readNamed(dir, name)
		if err != nil {
			return done, err
		}
		cert := template(cluster, old.id, now, valid, ca)
		cert.IPAddresses, cert.DNSNames = old.cert.IPAddresses, old.cert.DNSNames
		made, err := issue(dir, name, cert, ca, replace)
		if err != nil {
			return done, err
		}
		done = append(done, Renewed{Name: name, ID: old.id, Expires: made.cert.NotAfter})
	}
	return done, nil
}

// BeginRollover makes a new authority in a directory that [Make] wrote: ca.crt then has both, and [Renew] and [Make]
// sign with the new one, whose key replaces the old one. Copy ca.crt to all nodes and operators before any certificate
// of the new authority.
func BeginRollover(dir string) error {
	if err := beginRollover(dir); err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	return nil
}

func beginRollover(dir string) error {
	ca, all, err := signer(dir)
	if err != nil {
		return err
	}
	// If the key is not that of the first authority, an earlier call was interrupted
	// before it wrote the key. Then that authority has never signed anything.
	if len(all) > 1 && ca.cert.Equal(all[0]) {
		return fmt.Errorf("%s has %d authorities already; want the rollover that is under way finished first", filepath.Join(dir, caFile+certExt), len(all))
	}
	cluster, _, err := named(ca.cert)
	if err != nil {
		return fmt.Errorf("%s: %w: it was made by other means, and is replaced by those", filepath.Join(dir, caFile+certExt), err)
	}
	made, secret, err := sign(caFile, authorityFor(cluster, time.Now(), validCA), nil)
	if err != nil {
		return err
	}
	if err := replace(filepath.Join(dir, caFile+certExt), 0o644, block(made.cert), block(ca.cert)); err != nil {
		return err
	}
	return replace(filepath.Join(dir, caFile+keyExt), 0o600, secret)
}

// FinishRollover removes the old authorities from ca.crt. It fails if a certificate in the directory is of an old one.
// Copy ca.crt to all nodes and operators afterwards: a node that reads it accepts no certificate of the old authority.
func FinishRollover(dir string) error {
	if err := finishRollover(dir); err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	return nil
}

func finishRollover(dir string) error {
	ca, all, err := signer(dir)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, caFile+certExt)
	if len(all) == 1 {
		return fmt.Errorf("%s has one authority, and no rollover is under way", name)
	}
	names, err := pairs(dir)
	if err != nil {
		return err
	}
	for _, one := range names {
		if _, s, err := readNamed(dir, one); err != nil {
			return err
		} else if err := s.cert.CheckSignatureFrom(ca.cert); err != nil {
			return fmt.Errorf("%s is of an old authority; want all certificates renewed before", filepath.Join(dir, one+certExt))
		}
	}
	return replace(name, 0o644, block(ca.cert))
}

// signer is readAuthority, with a hint in the error for a wrong directory.
func signer(dir string) (*issuer, []*x509.Certificate, error) {
	ca, all, err := readAuthority(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; want the directory with %s%s and %s%s", err, caFile, certExt, caFile, keyExt)
	}
	return ca, all, err
}

// pairs returns the names of the certificates in dir that have their key beside them,
// without the authority's.
func pairs(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), certExt)
		if !ok || name == caFile {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, name+keyExt)); err == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// holder is a certificate and the id in it.
type holder struct {
	id   string
	cert *x509.Certificate
}

func readNamed(dir, name string) (cluster string, h holder, err error) {
	file := filepath.Join(dir, name+certExt)
	chain, err := readCerts(file)
	if err == nil {
		h.cert = chain[0]
		cluster, h.id, err = named(h.cert)
	}
	if err != nil && len(chain) > 0 {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return cluster, h, err
}
