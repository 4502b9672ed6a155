package ring

import (
	"flag"
	"testing"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/golden"
)

var rewrite = flag.Bool("rewrite", false, "write the actual output into the transcripts")

// TestGolden tells the stories of testdata. Messages take 1 ms, saves too, and
// works return within 1 ms; times are the defaults. A cluster knows one argument
// more, chang-roberts.
func TestGolden(t *testing.T) {
	classictest.Golden(t, *rewrite, func(t *testing.T, n int, c golden.Command) *classictest.World[*Machine] {
		return newNet(t, n, func(cfg *Config) { cfg.ChangRoberts = c.Has("chang-roberts") }).World
	}, Alive, Ack)
}
