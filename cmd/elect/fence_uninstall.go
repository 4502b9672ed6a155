package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/cmd/elect/internal/marks"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/cli"
)

const fenceUninstallHelp = `Undo elect fence install. It removes
  with tables          their triggers; the resource stays
  with a resource      the resource with its mark and triggers
  without a resource   the table of marks of a database, unless a resource is still in it,
                       or what guards a file

The mark is forgotten. If the resource is installed again, it accepts any token, even
that of a leader that was replaced long ago. So first make sure that none still runs.

` + fencePlaceHelp + `

Exit codes: 0 done; 64 a name or URL is wrong; 69 the place cannot be reached, has
refused, or nothing was installed.`

func newFenceUninstall() *cobra.Command {
	var p fencePlace
	cmd := &cobra.Command{
		Use:     "uninstall [flags] [RESOURCE [TABLE…]]",
		Short:   "stop guarding a resource, and forget its mark",
		Long:    fenceUninstallHelp,
		Example: "  elect fence uninstall --at postgres://app@db/orders orders payments\n  elect fence uninstall --at postgres://app@db/orders orders",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			name, tables, err := withTables(cmd, args)
			if err != nil {
				return err
			}
			return p.do(cmd, name, func(ctx context.Context, place marks.Place, resource fence.Resource) error {
				if err := place.Uninstall(ctx, resource, tables); err != nil {
					return err
				}
				what := p.called(resource) + " is not guarded any more"
				switch {
				case len(tables) == 1:
					what = "table " + tables[0] + " is not guarded any more"
				case len(tables) > 1:
					what = "tables " + strings.Join(tables, ", ") + " are not guarded any more"
				}
				_, err := fmt.Fprintln(cmd.OutOrStdout(), what)
				return failed.Backend(err)
			})
		},
	}
	p.flags(cmd.Flags())
	return cmd
}
