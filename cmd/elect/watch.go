package main

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/failed"
)

const watchHelp = `Show the leader of an election, and then each change, one line each, until it is
interrupted. A slow reader may miss a change that another one has overtaken. It never
misses the last one. Among peers with certificates it needs one, of any role.

-o json writes one object a line (NDJSON): that of "elect status -o json", and
  time  when the change was seen, RFC 3339
-o yaml writes each of them as a document, after a line of ---.`

func newWatch(openers elect.Openers) *cobra.Command {
	var p place
	var format form
	cmd := &cobra.Command{
		Use:     "watch [flags] [NAME]",
		Short:   "show the leader, and each change",
		Long:    watchHelp,
		Example: "  elect watch nightly\n  elect watch nightly -o json | jq -r .leader.id",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.nameArgument(cmd, args); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			e, err := p.open(cmd, openers)
			if err != nil {
				return err
			}
			defer e.Close()
			return watch(ctx, cmd.OutOrStdout(), e, &p, format)
		},
	}
	p.flags(cmd.Flags())
	format.flag(cmd.Flags())
	return cmd
}

func watch(ctx context.Context, w io.Writer, e *elect.Election, p *place, format form) error {
	for s, err := range e.Watch(ctx) {
		if ctx.Err() != nil {
			return nil // the user has ended it
		}
		if err != nil {
			return failed.Backend(err)
		}
		v := p.view(s)
		v.Time = time.Now()
		if format == "yaml" {
			_, err = fmt.Fprintln(w, "---")
		}
		if err == nil {
			err = format.write(w, v, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, v.line())
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
	}
	return nil
}

// line is a state for people, on one line.
func (v view) line() string {
	text := timestamp(v.Time) + "  " + v.Name + "  " + v.nobody()
	if l := v.Leader; l != nil {
		text = fmt.Sprintf("%s  %s  %s  token %v", timestamp(v.Time), v.Name, leaderText(l), l.Token)
	}
	if v.Stale {
		text += "  stale"
	}
	if v.Cause != "" {
		text += "  " + v.Cause
	}
	return text
}
