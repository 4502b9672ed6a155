// Package marks opens the places where the marks of guarded resources are kept, by URL,
// for the verbs of elect fence: a database, Redis, a directory, one file, or a guard in
// front of an HTTP server.
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

// ErrURL is what an error matches that says that the URL, or what goes with it, is wrong.
var ErrURL = errors.New("wrong place")

// ErrUnsupported is what an error matches that says that such a place cannot do this.
var ErrUnsupported = fmt.Errorf("%w: %w", ErrURL, errors.ErrUnsupported)

// Place is where marks are kept.
type Place interface {
	// Install has the resource guarded, and the tables by triggers, and returns what is
	// to be known of the place. What is there already stays as it is.
	Install(ctx context.Context, resource fence.Resource, tables []string) (warnings []string, err error)

	// Uninstall undoes Install: for the tables, or for all of the resource if there are
	// none; without a resource, for the whole place.
	Uninstall(ctx context.Context, resource fence.Resource, tables []string) error

	// Status tells of the resource, or of all without one.
	Status(ctx context.Context, resource fence.Resource) ([]State, error)

	// Claim raises the mark.
	Claim(ctx context.Context, resource fence.Resource, token fence.Token) error

	Close() error
}

// State is what is known of a resource. Fields are added, and never renamed or removed.
type State struct {
	Resource fence.Resource `json:"resource"` // of a file: empty
	Highest  fence.Token    `json:"highest"`  // "0": never claimed
	Claimed  time.Time      `json:"claimed,omitzero"`
	Tables   []string       `json:"tables,omitempty"`
	Warnings []string       `json:"warnings,omitempty"`
}

// Config is how a place is opened, and claims.
type Config struct {
	// Of databases.
	Wait      time.Duration // for transactions of earlier leaders; 0: that of fencesql.Config
	Terminate bool          // ends their connections after half of that

	// SharedPlace lets root use files where other users can write. It is an error for
	// places that are no files.
	SharedPlace bool

	// Of guards in front of HTTP servers.
	Secret fencehttp.Secret // shown with a claim; the zero one: none
	TLS    *tls.Config      // for https://; nil: the system's authorities, and no certificate
}

// Shown is the URL without what is secret.
func Shown(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Scheme == "" { // such as "host=db password=…", which has no place to look for a password in
		return "(no URL)"
	}
	return redact.URL(u)
}

// Open opens the place that a URL names. A server is not asked yet.
func Open(at string, cfg Config) (Place, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme == "" { // to show it would tell all of it
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

// discreet keeps a password out of errors, whatever the drivers put there.
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

// hidden is an error whose text had a secret.
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
