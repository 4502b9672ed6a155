//go:build linux

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/spawn"
)

// TestMain lets this program be a keeper, and elect itself, besides the tests.
func TestMain(m *testing.M) {
	supervise.KeeperMain(witness)
	testscript.Main(tests{m}, map[string]func(){"elect": main, "upstream": upstream, "tell": tell, "manager": manager})
}

type tests struct{ *testing.M }

func (m tests) Run() int {
	spawn.DefaultSignals()
	return m.M.Run()
}
