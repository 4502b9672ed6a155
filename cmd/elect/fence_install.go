package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/cmd/elect/internal/marks"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/cli"
)

const fenceInstallHelp = `Have a resource guarded: make the place for its mark. What is there already stays as it
is, so it may be done again. Writes are refused from then on unless they show a token,
by all that check.

With tables (PostgreSQL), the database itself checks every statement that writes to
them, for programs that cannot be changed. Such a program connects with the token, which
libpq takes from PGOPTIONS, and other drivers from the parameter options:

  elect run --name orders -- sh -c 'elect fence claim orders &&
    PGOPTIONS="-c elect.token=$ELECT_TOKEN" exec ./worker'

A program that outlives terms sets the token in each transaction instead:

  SELECT set_config('elect.token', '42', true)

A directory of marks gets a secret, too, in its file claim.secret: elect fence proxy takes
claims from clients that have it (elect fence claim --claim-secret FILE).

` + fencePlaceHelp + `

Exit codes: 0 done; 64 a wrong name or URL; 69 the place cannot be reached, or has
refused; 73 a directory cannot be written.`

func newFenceInstall() *cobra.Command {
	var p fencePlace
	cmd := &cobra.Command{
		Use:     "install [flags] [RESOURCE [TABLE…]]",
		Short:   "have a resource guarded: a database, tables, Redis, a directory, a file",
		Long:    fenceInstallHelp,
		Example: "  elect fence install --at postgres://app@db/orders orders\n  elect fence install --at postgres://app@db/orders orders invoices payments\n  elect fence install --at file:/etc/app/routes",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			name, tables, err := withTables(cmd, args)
			if err != nil {
				return err
			}
			return p.do(cmd, name, func(ctx context.Context, place marks.Place, resource fence.Resource) error {
				warnings, err := place.Install(ctx, resource, tables)
				if err != nil {
					return err
				}
				warnOf(warnings)
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is guarded\n", p.called(resource))
				if path := marks.SecretOf(p.at); err == nil && path != "" && resource != "" {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "claims at its guard need the secret in %s\n", path)
				}
				return failed.Backend(err)
			})
		},
	}
	p.flags(cmd.Flags())
	return cmd
}
