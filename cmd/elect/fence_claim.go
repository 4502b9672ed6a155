package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/cmd/elect/internal/marks"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

const fenceClaimHelp = `Raise the mark of a resource to the token of a new leader. A new leader does this before
it reads anything. After claim has ended with 0, the resource refuses every write of an
earlier leader.

The token is that of --token or ELECT_TOKEN. A command that elect run started has
ELECT_TOKEN in its environment:

  elect run --name orders -- sh -c 'elect fence claim --at postgres://app@db/orders orders && exec ./worker'

In a database, claim waits for open transactions of earlier leaders (--wait). With
--terminate it ends them, except those that hold a mark that proxies share.

A guard in front of an HTTP server accepts claims with a credential: the secret that
elect fence install has made (--claim-secret), a certificate of the client (--cert,
--key), or its Unix socket (--at unix:PATH). Over http:// others can read the secret.

` + fencePlaceHelp + `

Exit codes:
  0   claimed
  64  the token is missing or not valid, or a name, URL or credential is wrong
  69  the place cannot be reached, nothing is installed there, earlier leaders are still
      at work, or the outcome is not known. Claim again
  75  a greater token was claimed: another candidate leads`

func newFenceClaim() *cobra.Command {
	p := fencePlace{cfg: marks.Config{Wait: 10 * time.Second}}
	shown, secret, cert, key, ca := "", "", "", "", ""
	cmd := &cobra.Command{
		Use:     "claim [flags] [RESOURCE]",
		Short:   "raise the mark, before a new leader reads",
		Long:    fenceClaimHelp,
		Example: "  elect fence claim --at postgres://app@db/orders orders\n  elect fence claim --at http://proxy:8080 --claim-secret /etc/elect/claim.secret --token 42 orders",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.FromEnvironment(cmd, "wait"); err != nil { // ELECT_WAIT is for elect run
				return err
			}
			name, err := oneOrNone(cmd, args)
			if err != nil {
				return err
			}
			if shown == "" {
				return exit.Usagef("no token is given; want --token N, or ELECT_TOKEN, which a command that elect run started has")
			}
			token, err := fence.ParseToken(shown)
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			if p.cfg.Wait < time.Millisecond {
				return exit.Usagef("--wait %v; want 1ms or more", p.cfg.Wait)
			}
			if secret != "" {
				if p.cfg.Secret, err = fencehttp.ReadSecret(secret); err != nil {
					return exit.Usagef("--claim-secret: %w", err)
				}
			}
			if p.cfg.TLS, err = clientTLS(cert, key, ca); err != nil {
				return err
			}
			return p.do(cmd, name, func(ctx context.Context, place marks.Place, resource fence.Resource) error {
				if err := place.Claim(ctx, resource, token); err != nil {
					return err
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is claimed with token %v\n", p.called(resource), token)
				return failed.Backend(err)
			})
		},
	}
	p.flags(cmd.Flags())
	cmd.Flags().StringVar(&shown, "token", "", "token `N` of the term")
	cmd.Flags().Var(cli.Duration(&p.cfg.Wait), "wait", "`TIME` to wait for transactions of earlier leaders")
	cmd.Flags().StringVar(&secret, "claim-secret", "", "`FILE` with the secret of the guard (http://, https://)")
	cmd.Flags().StringVar(&cert, "cert", "", "`FILE` with the certificate of this client (https://, PEM)")
	cmd.Flags().StringVar(&key, "key", "", "`FILE` with the key of --cert (PEM)")
	cmd.Flags().StringVar(&ca, "ca", "", "`FILE` with the authorities to trust (https://; default: the system's)")
	cmd.Flags().BoolVar(&p.cfg.Terminate, "terminate", false, "end the connections of these transactions after half of --wait")
	return cmd
}

// clientTLS is the TLS configuration of the flags, nil without flags.
func clientTLS(cert, key, ca string) (*tls.Config, error) {
	cfg := new(tls.Config)
	if (cert == "") != (key == "") {
		return nil, exit.Usagef("--cert and --key belong together; want both, or none")
	}
	if cert != "" {
		pair, err := keyPair("--cert", cert, "--key", key)
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	if ca != "" {
		var err error
		if cfg.RootCAs, err = authorities("--ca", ca); err != nil {
			return nil, err
		}
	}
	if cert == "" && ca == "" {
		return nil, nil
	}
	return cfg, nil
}
