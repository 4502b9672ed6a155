//go:build !mutants

package queue

import machine "github.com/electd/elect/internal/protocol/queue"

// This build has no mutants, and this function does nothing.

func mutate(*machine.Config) {}
