package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/cmd/elect/internal/marks"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

const installHelp = `Make the table in which a database holds elections, unless it exists. This needs a role
that may create tables. elect run needs one that may SELECT, INSERT and UPDATE there.

--show prints the statement and does not connect. The table is elect_leases, or that of
the URL's parameter table.

Exit codes: 0 the table exists; 64 the URL is wrong; 69 the database refuses or does
not answer.`

func newInstall() *cobra.Command {
	at, show := "", false
	cmd := &cobra.Command{
		Use:     "install [flags] --election URL",
		Short:   "make the table in which a database holds elections",
		Long:    installHelp,
		Example: "  elect install --election postgres://admin@db/app\n  elect install --show --election mysql://db:3306/app",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			u, err := elect.ParseURL(at)
			switch {
			case at == "":
				return exit.Usagef("install: there is no election URL; want --election postgres://… or mysql://…, or ELECT_ELECTION")
			case err != nil:
				return exit.Usagef("the election URL does not parse; want one such as postgres://USER@HOST:PORT/DATABASE")
			case u.Scheme != "postgres" && u.Scheme != "postgresql" && u.Scheme != "mysql":
				return exit.Usagef("install: nothing is to be installed for %q; want --election postgres://… or mysql://…", u.Scheme)
			}
			statement, err := marks.InstallElections(cmd.Context(), u, show)
			switch {
			case errors.Is(err, marks.ErrURL):
				return exit.With(exit.Usage, err)
			case err != nil:
				return failed.Backend(err)
			}
			if show {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s;\n", statement)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&at, "election", "", "`URL` of the database, the same as for elect run")
	cmd.Flags().BoolVar(&show, "show", false, "print the statement and do nothing")
	return cmd
}
