// Command hunt hunts the mutants of the protocols, and writes what killed them. Build it with the tag mutants:
//
//	go run -tags mutants ./lab/sim/teeth/hunt -only no-verify
//
// It exits with 1 if a mutant survives, if -check finds another record than the hunt has made, or on
// an error.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/teeth"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hunt:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("hunt", flag.ContinueOnError)
	write := flags.String("write", "", "write the page to this `file`")
	record := flags.String("record", "", "write what killed each mutant to this `file`")
	check := flags.String("check", "", "compare the record with this `file`")
	only := flags.String("only", "", "hunt this `mutant` only, or all of this protocol")
	seeds := flags.Int("seeds", teeth.Seeds, "give up after so many seeds")
	keep := flags.String("keep", "", "shrink what killed each mutant, and keep it in this `directory`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q; want flags only", flags.Arg(0))
	}
	mutants := teeth.Mutants()
	if *only != "" {
		if mutants = slices.DeleteFunc(mutants, func(m teeth.Mutant) bool { return m.Name != *only && m.Protocol != *only }); len(mutants) == 0 {
			return fmt.Errorf("no mutant and no protocol %q", *only)
		}
	}
	start := time.Now()
	kills, err := teeth.Hunt(ctx, mutants, *seeds, func(k teeth.Kill) {
		if k.Seed == 0 {
			fmt.Fprintf(out, "%6.1fs  %-16s %-28s SURVIVES %d runs\n", time.Since(start).Seconds(), k.Protocol, k.Name, k.Runs)
		}
		if k.Checked != nil {
			fmt.Fprintf(out, "%6.1fs  %-16s %-28s checker: %s in %d states, %d steps\n", time.Since(start).Seconds(), k.Protocol, k.Name, k.Checked.Invariant, k.Checked.States, k.Checked.Steps)
		}
		if k.Seed == 0 {
			return
		}
		fmt.Fprintf(out, "%6.1fs  %-16s %-28s %5d runs, %s, seed %d: %s\n", time.Since(start).Seconds(), k.Protocol, k.Name, k.Runs, k.Ground.Name, k.Seed, k.Violation)
	})
	if errors.Is(err, teeth.ErrNoMutants) {
		return fmt.Errorf("%w: go run -tags mutants ./lab/sim/teeth/hunt", err)
	}
	if err != nil {
		return err
	}
	for _, k := range kills {
		if !k.Dead() {
			err = errors.Join(err, fmt.Errorf("%s %s survived %d runs", k.Protocol, k.Name, k.Runs))
		}
	}
	if *keep != "" {
		if err := keepAll(ctx, kills, *keep, out); err != nil {
			return err
		}
	}
	var page, kept bytes.Buffer
	teeth.Table(&page, kills)
	teeth.Record(&kept, kills)
	if *write != "" {
		if err := os.WriteFile(*write, page.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if *record != "" {
		if err := os.WriteFile(*record, kept.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if *check != "" {
		was, readErr := os.ReadFile(*check)
		if readErr != nil {
			return readErr
		}
		if !bytes.Equal(was, kept.Bytes()) {
			err = errors.Join(err, fmt.Errorf("%s is not what the hunt has made; run: make generate", *check))
		}
	}
	return err
}

// keepAll shrinks the schedules that killed.
func keepAll(ctx context.Context, kills []teeth.Kill, dir string, out io.Writer) error {
	for _, k := range kills {
		if k.Seed == 0 {
			continue
		}
		p, err := teeth.Protocol(k.Mutant)
		if err != nil {
			return err
		}
		s, err := k.Ground.Schedule(p, k.Seed)
		if err != nil {
			return err
		}
		small, r, err := sim.Shrink(ctx, p, s, nil)
		if err != nil { // it was judged by more than the invariants
			fmt.Fprintf(out, "%s %s: %v\n", k.Protocol, k.Name, err)
			continue
		}
		text, err := small.Encode()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, k.Protocol+"-"+k.Name+".json"), text, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s %s: %d operations, %d participants, %s\n", k.Protocol, k.Name, len(small.Ops), small.Nodes+small.Observers, r.Violation)
	}
	return nil
}
