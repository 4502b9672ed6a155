package lease

import (
	"flag"
	"strings"
	"testing"

	"github.com/electd/elect/internal/golden"
)

var rewrite = flag.Bool("rewrite", false, "write what happens into testdata")

// TestStories runs the transcripts. In a block, each line up to ---- is a line of the script; see
// story.do for the commands.
func TestStories(t *testing.T) {
	golden.Run(t, "testdata/*.txt", *rewrite, func(t *testing.T) func(golden.Command) string {
		s := newStory()
		return func(c golden.Command) string {
			var out strings.Builder
			lines := c.Name + " " + strings.Join(c.Args, " ") + "\n" + c.Input
			for line := range strings.Lines(lines) {
				got, err := s.do(line)
				if err != nil {
					t.Fatalf("line %d: %q: %v", c.Line, strings.TrimSpace(line), err)
				}
				out.WriteString(got)
			}
			return out.String()
		}
	})
}
