package ring

import (
	"flag"
	"testing"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/golden"
)

var rewrite = flag.Bool("rewrite", false, "write the actual output into the transcripts")

// TestGolden runs the scripts of testdata. Messages and saves take 1 ms, and work returns within 1
// ms; times are the defaults. The command cluster has one more argument, chang-roberts.
func TestGolden(t *testing.T) {
	classictest.Golden(t, *rewrite, func(t *testing.T, n int, c golden.Command) *classictest.World[*Machine] {
		return newNet(t, n, func(cfg *Config) { cfg.ChangRoberts = c.Has("chang-roberts") }).World
	}, Alive, Ack)
}
