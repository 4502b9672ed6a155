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

const fenceInstallHelp = `Guard a resource: make the place for its mark. install leaves what already exists
unchanged, so it may be repeated. From then on, all that checks the mark refuses writes
without a token.

With tables (PostgreSQL), the database itself checks every statement that writes to
them. This is for programs that cannot be changed. Such a program gives the token when
it connects: libpq reads it from PGOPTIONS, other drivers from the parameter options:

  elect run --name orders -- sh -c 'elect fence claim orders &&
    PGOPTIONS="-c elect.token=$ELECT_TOKEN" exec ./worker'

A program that outlives terms sets the token in each transaction instead:

  SELECT set_config('elect.token', '42', true)

A directory of marks also gets a secret, in its file claim.secret. elect fence proxy
accepts claims from clients that have it (elect fence claim --claim-secret FILE).

` + fencePlaceHelp + `

Exit codes: 0 done; 64 a name or URL is wrong; 69 the place cannot be reached, or has
refused; 73 a directory cannot be written.`

func newFenceInstall() *cobra.Command {
	var p fencePlace
	cmd := &cobra.Command{
		Use:     "install [flags] [RESOURCE [TABLE…]]",
		Short:   "guard a resource: a database, tables, Redis, a directory, a file",
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
