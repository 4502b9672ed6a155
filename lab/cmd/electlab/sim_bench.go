package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/machine"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

const simBenchHelp = `Measure how fast the simulator is on one core, with all invariants checked after every
event: events a second, and virtual time for each second of real time. Each round runs
the same seeds of the profile swarm. The result is the median of the rounds.

Without --protocol it measures all protocols.

-o json writes one object: go, system, cpus, load_before, load_after (over 1, 5 and 15
minutes, if the system reports it), and protocols, a list of {protocol, nodes, rounds,
runs, events (of a round), virtual_seconds (of a round), events_per_second,
events_per_second_min, events_per_second_max, virtual_per_real}.`

func newSimBench() *cobra.Command {
	var format cli.Output
	var name string
	rounds, nodes, at := 5, 5, time.Second
	cmd := &cobra.Command{
		Use:     "bench [flags]",
		Short:   "measure how fast the simulator is on this machine",
		Long:    simBenchHelp,
		Example: "  electlab sim bench\n  electlab sim bench --protocol quorum --nodes 3 --rounds 11",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			switch {
			case rounds < 1 || rounds > 1000:
				return exit.Usagef("--rounds is %d; want 1 to 1000", rounds)
			case at == 0:
				return exit.Usagef("--time is 0; want a time such as 1s")
			}
			which := protocols.All()
			if name != "" {
				p, err := protocolNamed(name)
				if err != nil {
					return err
				}
				which = []*sim.Protocol{p}
			}
			return benchSim(cmd, which, sim.Options{Nodes: nodes}, rounds, at, format)
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "protocol", "", "the `PROTOCOL`; electlab sim list names them (default: all)")
	f.IntVar(&nodes, "nodes", nodes, "`N` voters or candidates")
	f.IntVar(&rounds, "rounds", rounds, "`N` rounds")
	f.Var(cli.Duration(&at), "time", "approximate `TIME` of a round")
	format.Flag(f)
	return cmd
}

// simSpeed is what was measured, as -o json shows it.
type simSpeed struct {
	machine.Conditions
	Protocols []protocolSpeed `json:"protocols"`
}

type protocolSpeed struct {
	Protocol string  `json:"protocol"`
	Nodes    int     `json:"nodes"`
	Rounds   int     `json:"rounds"`
	Runs     int     `json:"runs"`
	Events   uint64  `json:"events"`
	Virtual  float64 `json:"virtual_seconds"`
	Rate     float64 `json:"events_per_second"`
	Min      float64 `json:"events_per_second_min"`
	Max      float64 `json:"events_per_second_max"`
	Faster   float64 `json:"virtual_per_real"`
}

func benchSim(cmd *cobra.Command, which []*sim.Protocol, o sim.Options, rounds int, at time.Duration, format cli.Output) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	s := simSpeed{Conditions: machine.Now(), Protocols: []protocolSpeed{}}
	s.System = runtime.GOOS + "/" + runtime.GOARCH
	for _, p := range which {
		speed, err := measureSim(ctx, p, o, rounds, at)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		s.Protocols = append(s.Protocols, *speed)
	}
	s.LoadAfter = machine.Load()
	out := &answer{out: cmd.OutOrStdout()}
	if format == "json" {
		_ = cli.WriteJSON(out, s) // out keeps the error
	} else {
		s.write(out)
	}
	var ended error
	if ctx.Err() != nil {
		ended = byInterrupt()
	}
	return ending(cmd, exit.OK, ended, out.err)
}

// measureSim finds the number of seeds in a round, and then repeats rounds.
func measureSim(ctx context.Context, p *sim.Protocol, o sim.Options, rounds int, at time.Duration) (*protocolSpeed, error) {
	speed := &protocolSpeed{Protocol: p.Name, Nodes: o.Nodes, Rounds: rounds}
	if _, err := sim.Generate(p, 1, o); err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	for begin := time.Now(); time.Since(begin) < at && ctx.Err() == nil; {
		speed.Runs++
		r, err := oneRun(ctx, p, uint64(speed.Runs), o)
		if err != nil {
			return nil, err
		}
		speed.Events += r.Events
		speed.Virtual += r.Virtual.Seconds()
	}
	var took []float64
	for range rounds {
		var spent time.Duration
		for seed := range speed.Runs {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			begin := time.Now()
			if _, err := oneRun(ctx, p, uint64(seed+1), o); err != nil {
				return nil, err
			}
			spent += time.Since(begin)
		}
		took = append(took, spent.Seconds())
	}
	slices.Sort(took)
	median := took[len(took)/2]
	if len(took)%2 == 0 {
		median = (median + took[len(took)/2-1]) / 2
	}
	events := float64(speed.Events)
	speed.Rate, speed.Min, speed.Max, speed.Faster = events/median, events/took[len(took)-1], events/took[0], speed.Virtual/median
	return speed, nil
}

func oneRun(ctx context.Context, p *sim.Protocol, seed uint64, o sim.Options) (*ran, error) {
	s, err := sim.Generate(p, seed, o)
	if err != nil {
		return nil, err
	}
	w, err := sim.New(p, s)
	if err != nil {
		return nil, fmt.Errorf("seed %d: %w", seed, err)
	}
	return play(ctx, w, 0), nil
}

func (s *simSpeed) write(out io.Writer) {
	fmt.Fprintf(out, "%s, %s, %d CPUs, one of them used; load %s before, %s after\n\n", s.Go, s.System, s.CPUs, loads(s.LoadBefore), loads(s.LoadAfter))
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "protocol\tnodes\truns\trounds\tevents/s median\tmin\tmax\tvirtual : real\t")
	for _, p := range s.Protocols {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t%s\t%s\t%.0f\t\n", p.Protocol, p.Nodes, p.Runs, p.Rounds,
			thousands(uint64(p.Rate)), thousands(uint64(p.Min)), thousands(uint64(p.Max)), p.Faster)
	}
	_ = t.Flush() // out keeps the error
}

func loads(l *[3]float64) string {
	if l == nil {
		return "unknown"
	}
	return strings.Trim(fmt.Sprintf("%.2f", l[0]), " ")
}
