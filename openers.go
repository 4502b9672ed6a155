package elect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/redact"
)

// Openers maps the scheme of a URL to the back end that opens it. A program makes one of the back ends that it wants.
// Its methods do not change it, so it may be shared.
type Openers map[string]driver.Opener

// Open opens the election called name at the place that rawURL names. ctx bounds the opening only. The error says what
// is wrong: an unknown scheme, a name that is not valid in every back end ([driver.CheckName]), an unknown parameter,
// or a Config that the back end cannot satisfy.
func (o Openers) Open(ctx context.Context, rawURL, name string, cfg Config) (*Election, error) {
	u, err := ParseURL(rawURL)
	if err != nil {
		return nil, o.unparsed(rawURL, err)
	}
	shown := redact.URL(u)
	if u.Scheme == "" {
		return nil, fmt.Errorf("election URL %q has no scheme; want one such as %s", shown, o.example())
	}
	open := o[u.Scheme]
	if open == nil {
		return nil, fmt.Errorf("election URL %q: unknown scheme %q; want one of: %s", shown, u.Scheme, strings.Join(o.schemes(), ", "))
	}
	if err := driver.CheckName(name); err != nil {
		return nil, err
	}
	if cfg.ID == "" {
		cfg.ID = DefaultID()
	}
	if err := driver.CheckID(cfg.ID); err != nil {
		return nil, err
	}
	if cfg.Logger != nil { // a program may stand in several elections
		cfg.Logger = cfg.Logger.With("election", name, "id", cfg.ID)
	}
	elector, err := open(ctx, driver.Target{URL: u, Name: name, ID: cfg.ID, Logger: cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("election %q at %s: %w", name, shown, err)
	}
	cfg.ID = "" // the elector has it
	e, err := New(elector, cfg)
	if err != nil {
		_ = elector.Close() // nothing was started on it
		return nil, fmt.Errorf("election %q at %s: %w", name, shown, err)
	}
	return e, nil
}

func (o Openers) schemes() []string { return slices.Sorted(maps.Keys(o)) }

func (o Openers) example() string {
	if _, ok := o["file"]; ok || len(o) == 0 {
		return "file:/var/lib/elect"
	}
	return o.schemes()[0] + ":…"
}

// DefaultID returns host and process id, such as "web-3:4711": the id of a participant without a configured one.
func DefaultID() string {
	host, err := os.Hostname()
	if err != nil || driver.CheckID(host) != nil || len(host) > 100 {
		host = "localhost"
	}
	return host + ":" + strconv.Itoa(os.Getpid())
}

// unparsed is the error for a URL that does not parse. It does not repeat a URL that may hold a password, nor the
// parser's text, which quotes the URL.
func (o Openers) unparsed(raw string, err error) error {
	if strings.ContainsAny(raw, "@?") {
		return fmt.Errorf("the election URL does not parse; want one such as %s, with special characters in user and password written as %%XX", o.example())
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	return fmt.Errorf("election URL %q: %w; want one such as %s", raw, err, o.example())
}
