//go:build linux

package chaos

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// performed counts what [perform] has run, in all tests.
var performed tally

// tally counts the parts that were run, and names those that were skipped because the computer was
// short of processors each time. Any number of goroutines may use it.
type tally struct {
	mu      sync.Mutex
	played  int
	skipped []string
}

func (k *tally) begins() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.played++
}

func (k *tally) skips(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.skipped = append(k.skipped, name)
}

// String names the skipped parts; "" if none.
func (k *tally) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.skipped) == 0 {
		return ""
	}
	return fmt.Sprintf("of %d plays %d were skipped, because this machine was short of processors in each try: %s",
		k.played, len(k.skipped), strings.Join(slices.Sorted(slices.Values(k.skipped)), ", "))
}

// mostSkipped is how many plays may be skipped. A run of all scenarios has 46 and CI's has 21, so
// that at least six in seven are judged. Each play has had three tries. That the computer was short
// of processors in all three tries of four plays is no accident: other work runs there, and the run
// shows nothing about times.
const mostSkipped = 3

// enough returns an error if too much was skipped for a success: more than mostSkipped plays
// anywhere; and in CI, where skips go unnoticed, more than a quarter of a partial run.
func (k *tally) enough(ci bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch n := len(k.skipped); {
	case n > mostSkipped:
		return fmt.Errorf("%d plays were skipped; want %d at most: run this again where less else goes on", n, mostSkipped)
	case ci && 4*n > k.played:
		return fmt.Errorf("%d of %d plays were skipped; want a quarter at most: run this again where less else goes on", n, k.played)
	}
	return nil
}

// TestMain reports what was skipped, and fails when that is too much.
func TestMain(m *testing.M) {
	code := m.Run()
	if said := performed.String(); said != "" {
		fmt.Println(said)
		if err := performed.enough(os.Getenv("CI") == "true"); err != nil {
			fmt.Println(err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// TestTally: each skipped play is named; three may be skipped, and in CI a quarter of a small run.
func TestTally(t *testing.T) {
	for _, c := range []struct {
		played, skipped int
		fails, failsCI  bool
	}{
		{8, 0, false, false}, {8, 2, false, false}, {8, 3, false, true}, {60, 3, false, false}, {60, 4, true, true}, {1, 1, false, true},
	} {
		var k tally
		for range c.played {
			k.begins()
		}
		for i := range c.skipped {
			k.skips(string(rune('z' - i)))
		}
		if err, ci := k.enough(false), k.enough(true); (err != nil) != c.fails || (ci != nil) != c.failsCI {
			t.Errorf("%d of %d skipped: %v; in CI %v", c.skipped, c.played, err, ci)
		}
		if said := k.String(); c.skipped == 2 && (!strings.Contains(said, "of 8 plays 2 were skipped") || !strings.HasSuffix(said, ": y, z")) || c.skipped == 0 && said != "" {
			t.Errorf("%d of %d skipped: it says %q", c.skipped, c.played, said)
		}
	}
}
