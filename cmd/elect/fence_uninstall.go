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

const fenceUninstallHelp = `Undo elect fence install. With tables, their triggers go and the resource stays; with a
resource alone, all of it goes; without one, the table of marks of a database, which
is refused while a resource is in it, or what guards a file.

The mark is forgotten. Installed again, the resource takes any token, that of a leader
that was replaced long ago, too. So see first that none is left.

` + fencePlaceHelp + `

Exit codes: 0 done; 64 a wrong name or URL; 69 the place cannot be reached, has
refused, or nothing was installed.`

func newFenceUninstall() *cobra.Command {
	var p fencePlace
	cmd := &cobra.Command{
		Use:     "uninstall [flags] [RESOURCE [TABLE…]]",
		Short:   "guard a resource no more, and forget its mark",
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
