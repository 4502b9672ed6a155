//go:build linux

package zombie

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/race"
	"github.com/electd/elect/peer"
)

// Resource is a register with a number in it, as its leaders see it. A refusal matches
// fence.ErrStale, and means that nothing was applied; after any other error the outcome is unknown.
type Resource interface {
	Claim(ctx context.Context, token fence.Token) error
	Read(ctx context.Context) (int64, error)
	Write(ctx context.Context, token fence.Token, value int64) error
	Close() error
}

// Opener opens a resource in the process of a leader. Each effect of the resource that others can
// see must be a step.
type Opener func(ctx context.Context, where string, steps *Steps) (Resource, error)

// The environment of a leader's process.
const (
	envOpener   = "ZOMBIE_OPENER"
	envWhere    = "ZOMBIE_WHERE"
	envElection = "ZOMBIE_ELECTION"
	envID       = "ZOMBIE_ID"
)

// Main is what TestMain has to call. In a leader's process it leads; elsewhere it runs
// the tests.
func Main(m *testing.M, openers map[string]Opener) {
	name := os.Getenv(envOpener)
	if name == "" {
		os.Exit(race.Main(m))
	}
	open, ok := openers[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "zombie: there is no opener %q\n", name)
		os.Exit(64)
	}
	if err := lead(open); err != nil {
		fmt.Fprintln(os.Stderr, "zombie:", err)
		os.Exit(1)
	}
}

// command is what a leader is told to do.
type command struct {
	Do     string      `json:"do"` // claim, which reads, too; write; or read
	Token  fence.Token `json:"token"`
	Value  int64       `json:"value"`
	Freeze int64       `json:"freeze"` // before which step, from 0; negative: never
}

// answer is the output of a leader: that it leads, with Token alone, or what it has done.
type answer struct {
	Token      fence.Token `json:"token"`
	Operations []Operation `json:"operations"`
	Steps      int64       `json:"steps"`
}

// lead takes part in the election, and does as it is told, leading or not.
func lead(open Opener) error {
	ctx := context.Background()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("id", os.Getenv(envID))
	steps := new(Steps)
	steps.arm(-1)
	resource, err := open(ctx, os.Getenv(envWhere), steps)
	if err != nil {
		return err
	}
	defer resource.Close()
	election, err := elect.Openers{"peer": peer.Open}.Open(ctx, os.Getenv(envElection), "zombie", elect.Config{ID: os.Getenv(envID), Logger: log})
	if err != nil {
		return err
	}
	defer election.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	say := func(a answer) {
		mu.Lock()
		defer mu.Unlock()
		if err := out.Encode(a); err != nil {
			cancel(err)
		}
	}
	go func() {
		in := json.NewDecoder(bufio.NewReader(os.Stdin))
		for {
			var c command
			if err := in.Decode(&c); err != nil {
				cancel(err) // the test has ended, or says nonsense
				return
			}
			steps.arm(c.Freeze)
			all := operate(resource, c)
			say(answer{Operations: all, Steps: steps.disarm()})
		}
	}()
	err = election.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
		say(answer{Token: term.Token()})
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// patience is how long a leader tries to do what it was told.
const patience = 20 * time.Second

// operate does what the command says, whichever process leads by now.
func operate(resource Resource, c command) []Operation {
	ctx, cancel := context.WithTimeout(fence.NewContext(context.Background(), c.Token), patience)
	defer cancel()
	var all []Operation
	do := func(kind Kind, token fence.Token, value int64, f func() (int64, error)) error {
		o := Operation{Kind: kind, Token: token, Value: value, Call: now()}
		read, err := f()
		o.Return = now()
		if kind == Read {
			o.Value = read
		}
		switch {
		case err == nil:
			o.Outcome = Applied
		case errors.Is(err, fence.ErrStale):
			o.Outcome = Stale
		default:
			o.Outcome = Unknown
		}
		if err != nil {
			o.Error = err.Error()
		}
		all = append(all, o)
		return err
	}
	switch c.Do {
	case "claim":
		if err := do(Claim, c.Token, 0, func() (int64, error) { return 0, resource.Claim(ctx, c.Token) }); err != nil {
			break
		}
		fallthrough
	case "read":
		_ = do(Read, 0, 0, func() (int64, error) { return resource.Read(ctx) })
	case "write":
		_ = do(Write, c.Token, c.Value, func() (int64, error) { return 0, resource.Write(ctx, c.Token, c.Value) })
	}
	return all
}

// now reads a clock that all processes of a machine have in common, in nanoseconds.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}
