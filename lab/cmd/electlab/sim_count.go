package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/lab/sim/count"
)

const simCountHelp = `Count the messages of one election and compare them with the formulas of the papers. The
machines run in a perfect network: every message arrives, in the order of sending, in no
time. A leader is elected and dies. Then all messages count until the next leader is
elected and its first announcements have arrived. Later heartbeats do not count. For
quorum the answers to the first heartbeats also count, because they prove the lease:
5n−7 messages until then, 6n−9 with them.

For protocols over a store (lease, queue), the requests to the store count, except those
with which a waiting candidate looks at the record now and then. queue-zookeeper has 8
because its new leader holds off. queue runs on etcd servers that are known to be fixed,
and has no hold.

--nodes takes numbers and ranges up to 10000, such as 3,5,8-16. With 10000, bully needs
a hundred million messages and about a minute. Numbers that a protocol does not have are
left out: an election of quorum has at most 9 voters.

The cases:
  bully               the lowest node begins, which costs most
  ring                one node begins, or the leader is dead
  ring-chang-roberts  all nodes begin, and the order of ids around the ring decides: the
                      best order, the worst one, and the mean of 100 random ones, of fewer
                      with more than 512 nodes

= means that each type of message was sent exactly as often as the formula says.

Exit codes:
  0    all counts match their formulas
  1    a count does not
  64   the command line is wrong
  73   a file or stdout cannot be written
  130  interrupted

-o json writes one object: rows, an array of {protocol, case, n, requests (true: they
are requests to a store), sent, formula, says (the formula), exact, runs (the number of
elections of the mean), kinds: an array of {type, sent, formula}}.`

func newSimCount() *cobra.Command {
	var format cli.Output
	var names []string
	var nodes, svg string
	cmd := &cobra.Command{
		Use:     "count [flags]",
		Short:   "count the messages of one election against the formulas",
		Long:    simCountHelp,
		Example: "  electlab sim count --protocol bully,raft --nodes 2-64\n  electlab sim count --nodes 4,16,64,256,1024 --svg counts.svg",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			all, err := numbers(nodes)
			if err != nil {
				return err
			}
			for _, name := range names {
				if _, _, _, ok := count.Bounds(name); !ok {
					return exit.Usagef("--protocol %q; want some of: %s", name, strings.Join(count.Protocols(), ", "))
				}
			}
			return countElections(cmd, names, all, svg, format)
		},
	}
	set := cmd.Flags()
	set.StringSliceVar(&names, "protocol", nil, "only the protocols with these `NAMES` (default: all)")
	set.StringVar(&nodes, "nodes", "3,5,9,16,32,64", "`NUMBERS` of machines, such as 3,5,8-16")
	set.StringVar(&svg, "svg", "", "also write a plot with logarithmic axes to `FILE`")
	format.Flag(set)
	return cmd
}

// numbers reads a list of numbers and ranges, each number once, by rising order.
func numbers(text string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.Atoi(from)
		b := a
		if ranged && err == nil {
			b, err = strconv.Atoi(to)
		}
		if err != nil || a < 2 || b < a || b > count.MaxNodes {
			return nil, exit.Usagef("--nodes: %q; want numbers from 2 to %d and ranges, such as 3,5,8-16", part, count.MaxNodes)
		}
		for n := a; n <= b; n++ {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func countElections(cmd *cobra.Command, names []string, nodes []int, svg string, format cli.Output) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	rows, err := count.Table(ctx, names, nodes)
	switch {
	case errors.Is(err, context.Canceled):
		return byInterrupt()
	case err != nil:
		return exit.With(1, err)
	case len(rows) == 0:
		return exit.Usagef("none of these protocols has any of these numbers of machines: %s", limits(names))
	}
	out := &answer{out: cmd.OutOrStdout()}
	if format == "json" {
		_ = cli.WriteJSON(out, struct {
			Rows []count.Row `json:"rows"`
		}{rows}) // out keeps the error
	} else {
		_ = count.Write(out, rows)
	}
	var drawn error
	if svg != "" {
		file := &sideFile{path: svg}
		drawn = errors.Join(count.Plot(rows).SVG(file), file.Close())
	}
	code := exit.OK
	for _, r := range rows {
		if !r.Exact {
			code = 1
		}
	}
	return ending(cmd, code, out.err, drawn)
}

// limits says how many machines there may be.
func limits(names []string) string {
	if len(names) == 0 {
		names = count.Protocols()
	}
	var all []string
	for _, name := range names {
		least, most, _, _ := count.Bounds(name)
		all = append(all, fmt.Sprintf("%s has %d to %d", name, least, most))
	}
	return strings.Join(all, ", ")
}
