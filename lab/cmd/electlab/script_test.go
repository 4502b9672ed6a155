//go:build linux

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/electd/elect/internal/cli/clitest"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"electlab": main}) }

// TestScript runs the scripts of testdata/script.
func TestScript(t *testing.T) { clitest.Run(t, nil) }
