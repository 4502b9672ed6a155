package main

import (
	"errors"
	"io/fs"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"github.com/electd/elect/cmd/elect/internal/marks"
	"github.com/electd/elect/cmd/elect/internal/proxy"
	"github.com/electd/elect/fence/fencehttp"
	"github.com/electd/elect/internal/cli/exit"
)

// claimFlags decide which clients may raise the mark of a proxy.
type claimFlags struct {
	secret, socket, ca string
	anyone             bool
}

func (c *claimFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&c.secret, "claim-secret", "", "`FILE` with a secret; clients that show it may raise the mark (default: DIR/claim.secret of --mark file:DIR)")
	f.StringVar(&c.socket, "claim-socket", "", "`PATH` of a Unix socket that only this user can open; its clients may raise the mark")
	f.StringVar(&c.ca, "claim-ca", "", "`FILE` with authorities; clients with a certificate of them may raise the mark; needs --cert")
	f.BoolVar(&c.anyone, "anyone-may-claim", false, "let all clients raise the mark; one of them can keep all leaders out")
}

// config sets which clients may claim, and returns that for people. mark is that of --mark.
func (c *claimFlags) config(cfg *proxy.Config, mark string) (string, error) {
	given := c.secret != "" || c.socket != "" || c.ca != ""
	if c.anyone {
		if given {
			return "", exit.Usagef("--anyone-may-claim needs no other credential; want it alone, or some of --claim-secret, --claim-ca, --claim-socket")
		}
		cfg.MayClaim = fencehttp.Anyone
		return "warning: all clients may raise the mark: one request with a great token keeps all leaders out", nil
	}
	path := c.secret
	if !given {
		if path = marks.SecretOf(mark); path == "" {
			return "", exit.Usagef("no credential for claims is given; want --claim-secret FILE, --claim-ca FILE or --claim-socket PATH; --anyone-may-claim lets one client keep all leaders out")
		}
	}
	var may []func(*http.Request) bool
	var who []string
	if path != "" {
		secret, err := fencehttp.ReadSecret(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !given:
			return "", exit.Usagef("no credential for claims is given, and there is no %s; want elect fence install, which makes it, also when it is repeated, or --claim-secret FILE, --claim-ca FILE or --claim-socket PATH; --anyone-may-claim lets one client keep all leaders out", path)
		case err != nil:
			return "", exit.Usagef("--claim-secret: %w", err)
		}
		may, who = append(may, secret.IsShown), append(who, "the secret in "+path)
	}
	if c.ca != "" {
		if cfg.Certificate == nil {
			return "", exit.Usagef("--claim-ca is for clients that come by TLS; want --cert and --key, too")
		}
		var err error
		if cfg.ClientCAs, err = authorities("--claim-ca", c.ca); err != nil {
			return "", err
		}
		may, who = append(may, fencehttp.HasCertificate), append(who, "a certificate of "+c.ca)
	}
	if c.socket != "" {
		may, who = append(may, fencehttp.IsFromSocket), append(who, "a connection to "+c.socket)
	}
	cfg.MayClaim = func(r *http.Request) bool {
		for _, good := range may {
			if good(r) {
				return true
			}
		}
		return false
	}
	return "to raise the mark a client needs " + strings.Join(who, ", or "), nil
}
