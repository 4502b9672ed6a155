package bully

import (
	"flag"
	"testing"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/golden"
)

var rewrite = flag.Bool("rewrite", false, "write the actual output into the transcripts")

// TestGolden runs the scripts of testdata. Messages and saves take 1 ms, and work returns within 1
// ms; times are the defaults.
func TestGolden(t *testing.T) {
	classictest.Golden(t, *rewrite, func(t *testing.T, n int, _ golden.Command) *net { return newNet(t, n, nil) }, Alive)
}
