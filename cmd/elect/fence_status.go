package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/cmd/elect/internal/marks"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/cli"
)

const fenceStatusHelp = `Show the mark of a resource: the greatest token that it has seen. Without a resource,
show those of all resources in a database, or that of a file.

` + fencePlaceHelp + `

Exit codes: 0 shown; 64 a name or URL is wrong; 69 the place cannot be reached, or nothing
is installed there.

-o json writes one object on one line:
  at         the URL, without its password
  resources  an array of objects:
    resource  its name; empty for a file
    highest   the mark, as a string of decimal digits; "0" if it was never claimed
    claimed   when it was last raised, by the database's clock; omitted if not known
    tables    the tables that triggers guard; omitted if there are none
    warnings  settings by which the mark may be lost or go back; omitted if there are none
-o yaml writes the same on several lines.`

// fenceStatus is the output of the verb. Fields are added, and never renamed or removed.
type fenceStatus struct {
	At        string        `json:"at"`
	Resources []marks.State `json:"resources"`
}

func newFenceStatus() *cobra.Command {
	var p fencePlace
	var format form
	cmd := &cobra.Command{
		Use:     "status [flags] [RESOURCE]",
		Short:   "show the greatest token that a resource has seen",
		Long:    fenceStatusHelp,
		Example: "  elect fence status --at postgres://app@db/orders\n  elect fence status --at redis://cache:6379 orders -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			name, err := oneOrNone(cmd, args)
			if err != nil {
				return err
			}
			return p.do(cmd, name, func(ctx context.Context, place marks.Place, resource fence.Resource) error {
				all, err := place.Status(ctx, resource)
				if err != nil {
					return err
				}
				s := fenceStatus{At: marks.Shown(p.at), Resources: all}
				return failed.Backend(format.write(cmd.OutOrStdout(), s, s.table))
			})
		},
	}
	p.flags(cmd.Flags())
	format.flag(cmd.Flags())
	return cmd
}

func (s fenceStatus) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RESOURCE\tTOKEN\tCLAIMED\tTABLES")
	var warnings []string // a server's warnings apply to all its resources
	for _, r := range s.Resources {
		token := "-"
		if r.Highest != 0 {
			token = r.Highest.String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", cmp.Or(string(r.Resource), s.At), token, timestamp(r.Claimed), cmp.Or(strings.Join(r.Tables, ", "), "-"))
		for _, w := range r.Warnings {
			if !slices.Contains(warnings, w) {
				warnings = append(warnings, w)
			}
		}
	}
	warnOf(warnings)
	return t.Flush()
}
