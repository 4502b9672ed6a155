//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/group"
	"github.com/electd/elect/peer"
)

// The exit codes.
const (
	codeUsage    = 64
	codeElection = 69
	codeWorker   = 70
)

// fault is an error with an exit code.
type fault struct {
	code int
	err  error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func usagef(format string, args ...any) error { return &fault{codeUsage, fmt.Errorf(format, args...)} }

func main() {
	supervise.KeeperMain(witness) // before all else: the keeper is this program, too
	err := start(os.Args[1:])
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "worker:", err)
	if f, ok := errors.AsType[*fault](err); ok {
		os.Exit(f.code)
	}
	os.Exit(codeWorker)
}

// witness is that of a peer's or a member's testament.
func witness(ctx context.Context, testament []byte) (speak func(context.Context) error, err error) {
	var of struct {
		Scheme string `json:"scheme"`
	}
	if _ = json.Unmarshal(testament, &of); of.Scheme == "group" {
		return group.Witness(group.WitnessConfig{Election: peer.Witness, OpenStream: peer.OpenStream})(ctx, testament)
	}
	return peer.Witness(ctx, testament)
}

// start plays the role that the arguments name.
func start(args []string) error {
	if len(args) == 0 {
		return usagef("want a role: life, guarded, member, watch, burn, register or lives")
	}
	role, args := args[0], args[1:]
	if role == "burn" {
		return burn(args)
	}
	if len(args) > 0 && role != "guarded" && role != "member" && role != "child" && role != "watch" {
		return usagef("%s takes no arguments, and has %q", role, args)
	}
	s, err := readSurroundings()
	if err != nil {
		return err
	}
	switch role {
	case "life":
		return life(s)
	case "descendant": // of life, and of guarded
		return descendant(s)
	case "guarded":
		return guarded(s, args)
	case "member":
		return member(s, args)
	case "child": // of a guarded member
		return child(s, args)
	case "watch":
		return watch(s, args)
	case "register":
		return serve(s)
	case "lives":
		return printLives(s)
	}
	return usagef("there is no role %q; want life, guarded, member, watch, burn, register or lives", role)
}

// newLog logs to stderr, where the harness collects it.
func newLog(s surroundings) *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", s.node, "pid", os.Getpid())
}
