package fencehttp

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
)

// ClaimHeader carries the [Secret] of a request that may raise a mark. A [Handler] removes it from requests.
const ClaimHeader = "Fencing-Claim"

const (
	minSecret = 16
	maxSecret = 1024
)

// Secret is shared by the leaders and a guard, so that no other client raises its marks. The zero Secret is none.
// Package fmt never prints its text.
type Secret struct{ text string }

// ParseSecret reads a secret: 16 to 1024 printable characters of ASCII. It ignores space around it.
func ParseSecret(text string) (Secret, error) {
	text = strings.TrimSpace(text)
	if len(text) < minSecret || len(text) > maxSecret {
		return Secret{}, fmt.Errorf("fencehttp: a claim secret of %d characters; want %d to %d", len(text), minSecret, maxSecret)
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return Secret{}, errors.New("fencehttp: a claim secret on several lines, or with space in it; want printable characters of ASCII, such as base64")
		}
	}
	return Secret{text}, nil
}

// ReadSecret reads a secret from a file. It refuses a file that every user can read or write; the file's group may.
func ReadSecret(path string) (Secret, error) {
	f, err := os.Open(path)
	if err != nil {
		return Secret{}, fmt.Errorf("fencehttp: claim secret: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Secret{}, fmt.Errorf("fencehttp: claim secret: %w", err)
	}
	if perm := info.Mode().Perm(); perm&0o007 != 0 && runtime.GOOS != "windows" { // where modes mean nothing
		return Secret{}, fmt.Errorf("fencehttp: claim secret: every user can use %s, its mode is %#o; want %#o, and a new secret if others may have read it", path, perm, perm&^0o007)
	}
	text, err := io.ReadAll(io.LimitReader(f, 4*maxSecret))
	if err != nil {
		return Secret{}, fmt.Errorf("fencehttp: claim secret: %w", err)
	}
	s, err := ParseSecret(string(text))
	if err != nil {
		return Secret{}, fmt.Errorf("%w; in %s", err, path)
	}
	return s, nil
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.text == "" }

// Format implements fmt.Formatter, and prints no secret.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(secret)") }

// IsShown reports whether a request has the secret in [ClaimHeader]. It is a [Config.MayClaim].
func (s Secret) IsShown(r *http.Request) bool {
	values := r.Header.Values(ClaimHeader)
	if s.IsZero() || len(values) != 1 {
		return false
	}
	want, got := sha256.Sum256([]byte(s.text)), sha256.Sum256([]byte(values[0])) // of equal length, for the comparison
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// HasCertificate reports whether the client has a certificate that the server has verified: its tls.Config has
// ClientCAs, and a ClientAuth that verifies. It is a [Config].MayClaim.
func HasCertificate(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }

// IsFromSocket reports whether a request came over a Unix socket, whose mode decides which users can connect. It is a
// [Config].MayClaim.
func IsFromSocket(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && at.Network() == "unix"
}

// Anyone lets every client claim that can connect: then one request with a great token excludes all leaders. It is a
// [Config].MayClaim.
func Anyone(*http.Request) bool { return true }

// withoutSecret is the request without [ClaimHeader].
func withoutSecret(r *http.Request) *http.Request {
	if len(r.Header.Values(ClaimHeader)) == 0 {
		return r
	}
	r = r.WithContext(r.Context()) // a copy
	r.Header = r.Header.Clone()
	r.Header.Del(ClaimHeader)
	return r
}
