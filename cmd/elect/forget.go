package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/file"
	"github.com/electd/elect/internal/cli/exit"
)

const forgetHelp = `Remove the files of a file: election that is over, so that elect status does not list
it any more. forget takes the lock first. If a leader, or another process, has the
lock, nothing is removed.

The counter of tokens stays, a file of a few bytes. If the election is held again, its
tokens go on rising, and a resource that has seen the last one accepts the next. With
--tokens the counter and the directory are removed, too. Then tokens begin at 1 again:
  - a resource with a mark refuses the new leaders until its mark is uninstalled and
    installed again
  - a resource whose mark was lost cannot tell a leader of the old election from a new
    one, and accepts it

forget follows no links, and refuses a directory with a file that candidates do not
make. Files that COMMAND and elect fence have made stay. The data directory of a peer
is not removed, because other nodes may rely on its promises.

-o json writes one object on one line: election, name, tokens (whether the counter
was removed) and last_token, a string, omitted if it is not known.

Exit codes:
  0   it is forgotten
  69  there is no such election, it has a leader, the directory contains something
      else, or it is not held in a directory
  73  the files cannot be removed`

func newForget(openers elect.Openers) *cobra.Command {
	var p place
	var format form
	tokens := false
	cmd := &cobra.Command{
		Use:     "forget [flags] NAME",
		Short:   "remove the files of an election that is over",
		Long:    forgetHelp,
		Example: "  elect forget nightly\n  elect forget --election file:/var/lib/elect nightly --tokens",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.nameArgument(cmd, args); err != nil {
				return err
			}
			if err := p.resolve(openers); err != nil {
				return err
			}
			u, err := elect.ParseURL(p.election)
			if err != nil || openers[u.Scheme] == nil {
				_, err := p.open(cmd, openers) // its error says what is wrong with the URL
				return err
			}
			if u.Scheme != "file" {
				return exit.With(exit.Unavailable, fmt.Errorf("forget: %w: %s: elections are not held in a directory that may be removed; want --election file:DIR", elect.ErrUnsupported, u.Scheme))
			}
			e, err := p.open(cmd, openers)
			if err != nil {
				return err // the same error as of every verb
			}
			_ = e.Close()
			last, err := file.Forget(u, p.name, tokens)
			if errors.Is(err, fs.ErrNotExist) {
				return exit.With(exit.Unavailable, err)
			}
			if err != nil {
				return failed.Backend(err)
			}
			f := forgotten{Election: p.shown(), Name: p.name, Tokens: tokens, LastToken: last}
			return format.write(cmd.OutOrStdout(), f, f.write)
		},
	}
	p.flags(cmd.Flags())
	cmd.Flags().BoolVar(&tokens, "tokens", false, "remove the counter, too: a later election of this name begins with token 1")
	format.flag(cmd.Flags())
	return cmd
}

// forgotten is the output of forget.
type forgotten struct {
	Election  string      `json:"election"`
	Name      string      `json:"name"`
	Tokens    bool        `json:"tokens"`
	LastToken elect.Token `json:"last_token,omitzero"`
}

func (f forgotten) write(w io.Writer) error {
	then := "its counter stays, and tokens go on rising"
	if f.Tokens {
		then = "its counter, too: tokens begin at 1 if it is held again"
	}
	if f.LastToken != 0 {
		then += fmt.Sprintf("; the last one was %v", f.LastToken)
	}
	_, err := fmt.Fprintf(w, "%s is forgotten at %s; %s\n", f.Name, f.Election, then)
	return err
}
