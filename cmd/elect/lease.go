package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/lease"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

const leaseHelp = `Read the lease page of a leader: until when its leadership is proven. COMMAND of
elect run finds the path of the page in ELECT_LEASE. Other languages read it themselves:
docs/lease-page.md.`

func newLease() *cobra.Command {
	return cli.Group("lease VERB", "read until when leadership is proven", leaseHelp, newLeaseCheck())
}

const leaseCheckHelp = `Succeed if the leadership to which a lease page belongs is proven now. FILE is the
page; by default it is that of ELECT_LEASE. It takes as long as to start a program, and
asks nobody. A script that is frozen after the check acts late all the same: only a guard
of the resource (elect fence) or of the network (elect run --guard) helps against that.

Exit codes: 0 leadership is proven; 64 there is no FILE and no ELECT_LEASE, or it is no
lease page; 75 leadership is not proven: it is over, or its lease has ended.

-o json writes one object on one line, for the codes 0 and 75:
  proven     whether leadership is proven
  token      its token, as a string of decimal digits; omitted if the page is gone
  remaining  for how many milliseconds it is proven without another renewal
-o yaml writes the same on several lines.`

// leaseState is the output of the verb. Fields are added, and never renamed or removed.
type leaseState struct {
	Proven    bool        `json:"proven"`
	Token     elect.Token `json:"token,omitzero"`
	Remaining int64       `json:"remaining"`
}

func newLeaseCheck() *cobra.Command {
	var format form
	cmd := &cobra.Command{
		Use:     "check [flags] [FILE]",
		Short:   "succeed if leadership is proven",
		Long:    leaseCheckHelp,
		Example: "  elect lease check && mail -s report team@example.org < report.txt",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := os.Getenv(lease.Env)
			if len(args) > 0 {
				path = args[0]
			}
			s, err := leaseAt(path)
			if code, _ := exit.Of(err); code != exit.OK && code != exit.Lost {
				return err
			}
			return cmp.Or(format.write(cmd.OutOrStdout(), s, func(io.Writer) error { return nil }), err)
		},
	}
	format.flag(cmd.Flags())
	return cmd
}

// leaseAt reads a page. The error has the exit code.
func leaseAt(path string) (s leaseState, err error) {
	if path == "" {
		return s, exit.Usagef("lease check: %s is not set; run it inside elect run on Linux, or name a FILE", lease.Env)
	}
	page, err := lease.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, exit.With(exit.Lost, fmt.Errorf("%w: %s is gone", lease.ErrOver, path))
	case err != nil:
		return s, exit.With(exit.Usage, err)
	}
	defer page.Close()
	s.Token = page.Token()
	if left := page.Remaining(); left > 0 {
		s.Proven, s.Remaining = true, left.Milliseconds()
		return s, nil
	}
	return s, exit.With(exit.Lost, page.Check())
}
