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

// performed counts what [perform] has played, of all tests.
var performed tally

// tally is how many parts were played, and which of them were skipped because the
// machine was short of processors each time. It may be used by any number of
// goroutines.
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

// String names what was skipped; "" is nothing.
func (k *tally) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.skipped) == 0 {
		return ""
	}
	return fmt.Sprintf("of %d plays %d were skipped, because this machine was short of processors in each try: %s",
		k.played, len(k.skipped), strings.Join(slices.Sorted(slices.Values(k.skipped)), ", "))
}

// mostSkipped is how many plays may be skipped. A run of all scenarios has 46 and CI's
// has 21, so that six in seven are judged at least. Each play has had three tries, and
// that the machine was short of processors in each of four plays' three is no chance:
// other work goes on there, and nothing of time is shown.
const mostSkipped = 3

// enough returns an error if so much was skipped that a success would say too little:
// more than mostSkipped plays anywhere; and in CI, where nobody sees skips, more than
// a quarter of a run that is not whole.
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

// TestMain says what was skipped, and fails when that is too much.
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

// TestTally: each play that was skipped is named, three may be, and in CI a quarter of
// a small run.
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
