// Package marks opens the places that keep the marks of guarded resources, by URL, for the verbs of elect fence: a
// database, Redis, a directory, one file, or a guard in front of an HTTP server.
//
// A [Place] is for one goroutine, and holds connections until it is closed. Its errors
// are those of the packages below fence, without the password of the URL.
package marks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
	"github.com/electd/elect/internal/redact"
)

// ErrURL is matched by an error about a wrong URL, or about settings that do not fit the URL.
var ErrURL = errors.New("wrong place")

// ErrUnsupported is matched by an error about an operation that such a place does not have.
var ErrUnsupported = fmt.Errorf("%w: %w", ErrURL, errors.ErrUnsupported)

// Place keeps marks.
type Place interface {
	// Install installs the resource, and triggers on the tables, and returns warnings about the place. It does not
	// change what exists.
	Install(ctx context.Context, resource fence.Resource, tables []string) (warnings []string, err error)

	// Uninstall undoes Install: for the tables, or without tables for the whole resource; without a resource, for the
	// whole place.
	Uninstall(ctx context.Context, resource fence.Resource, tables []string) error

	// Status returns the state of the resource, or of all without one.
	Status(ctx context.Context, resource fence.Resource) ([]State, error)

	// Claim raises the mark.
	Claim(ctx context.Context, resource fence.Resource, token fence.Token) error

	Close() error
}

// State is the state of a resource. Fields are added, and never renamed or removed.
type State struct {
	Resource fence.Resource `json:"resource"` // empty for a file
	Highest  fence.Token    `json:"highest"`  // "0": never claimed
	Claimed  time.Time      `json:"claimed,omitzero"`
	Tables   []string       `json:"tables,omitempty"`
	Warnings []string       `json:"warnings,omitempty"`
}

// Config configures a place, and its claims.
type Config struct {
	// For databases:
	Wait      time.Duration // for transactions of earlier leaders; 0: that of fencesql.Config
	Terminate bool          // ends their connections after half of that

	// SharedPlace lets root use files to which other users can write. It is an error for places that are not files.
	SharedPlace bool

	// For guards in front of HTTP servers:
	Secret fencehttp.Secret // shown with a claim; the zero Secret: none
	TLS    *tls.Config      // for https://; nil: the system's authorities, and no certificate
}

// Shown is the URL without its secrets.
func Shown(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Scheme == "" { // such as "host=db password=…", in which a password cannot be found
		return "(no URL)"
	}
	return redact.URL(u)
}

// Open opens the place that a URL names. It makes no request.
func Open(at string, cfg Config) (Place, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme == "" { // a part of it could be secret
		return nil, fmt.Errorf("%w: it is no URL; want %s", ErrURL, want)
	}
	password, _ := u.User.Password()
	if err := cfg.check(u); err != nil {
		return nil, err
	}
	var p Place
	switch u.Scheme {
	case "postgres", "postgresql", "mysql":
		p, err = openSQL(u, cfg)
	case "redis", "rediss":
		p, err = openRedis(u)
	case "file":
		p, err = openFile(u, cfg)
	case "http", "https":
		p, err = openHTTP(u, cfg)
	case "unix":
		p, err = openSocket(u, cfg)
	default:
		err = fmt.Errorf("%w: %q; want %s", ErrURL, redact.URL(u), want)
	}
	if err != nil {
		return nil, hide(err, password)
	}
	return &discreet{p, password}, nil
}

func (cfg Config) check(u *url.URL) error {
	if cfg.SharedPlace && u.Scheme != "file" {
		return fmt.Errorf("%w: a shared place is one of file:, and this is one of %s:; leave --shared-place out", ErrURL, u.Scheme)
	}
	return nil
}

const want = "postgres://, mysql://, redis://, file:, http:// or unix:"

// discreet removes a password from errors, wherever the drivers put it.
type discreet struct {
	Place
	password string
}

func (d *discreet) Install(ctx context.Context, resource fence.Resource, tables []string) ([]string, error) {
	warnings, err := d.Place.Install(ctx, resource, tables)
	return warnings, hide(err, d.password)
}

func (d *discreet) Uninstall(ctx context.Context, resource fence.Resource, tables []string) error {
	return hide(d.Place.Uninstall(ctx, resource, tables), d.password)
}

func (d *discreet) Status(ctx context.Context, resource fence.Resource) ([]State, error) {
	all, err := d.Place.Status(ctx, resource)
	return all, hide(err, d.password)
}

func (d *discreet) Claim(ctx context.Context, resource fence.Resource, token fence.Token) error {
	return hide(d.Place.Claim(ctx, resource, token), d.password)
}

// hidden is an error whose text contained a secret.
type hidden struct {
	error
	shown string
}

func (h hidden) Error() string { return h.shown }
func (h hidden) Unwrap() error { return h.error }

func hide(err error, secret string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	shown := redact.Text(text)
	if secret != "" {
		shown = strings.ReplaceAll(shown, secret, "xxxxx")
	}
	if shown == text {
		return err
	}
	return hidden{err, shown}
}
