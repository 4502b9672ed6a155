//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/electd/elect/test/chaos/register"
)

// serve serves the register until it is told to end, and prints what was offered.
func serve(s surroundings) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	r, err := register.Serve(filepath.Join(s.dir, register.Socket))
	if err != nil {
		return err
	}
	<-ctx.Done()
	if err := r.Close(); err != nil {
		return err
	}
	n := r.Stats()
	_, err = fmt.Printf("%d writes offered, %d of them stale and refused; %d sequences, %d out of turn; %d reads\n",
		n.Writes, n.Refused, n.Streams, n.OutOfTurn, n.Reads)
	return err
}

// printLives prints the ledger.
func printLives(s surroundings) error {
	if _, err := os.Stat(s.ledgerPath()); err != nil {
		return err // reading creates none
	}
	l, err := s.ledger()
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for _, life := range l.Lives() {
		if err := out.Encode(life); err != nil {
			return err
		}
	}
	return nil
}
