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

// tooFew reports whether more than a quarter was skipped, so that a success would
// say too little.
func (k *tally) tooFew() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return 4*len(k.skipped) > k.played
}

// TestMain says what was skipped, and fails in CI when that is too much: nobody sees
// skips there.
func TestMain(m *testing.M) {
	code := m.Run()
	if said := performed.String(); said != "" {
		fmt.Println(said)
		if code == 0 && os.Getenv("CI") == "true" && performed.tooFew() {
			fmt.Println("want three quarters of them at least to be judged: run this again where less else goes on")
			code = 1
		}
	}
	os.Exit(code)
}

// TestTally: a quarter may be skipped, and each that was is named.
func TestTally(t *testing.T) {
	var k tally
	for range 8 {
		k.begins()
	}
	if k.tooFew() || k.String() != "" {
		t.Errorf("of eight plays: too few: %t, %q", k.tooFew(), k.String())
	}
	k.skips("b")
	k.skips("a")
	if k.tooFew() || !strings.Contains(k.String(), "of 8 plays 2 were skipped") || !strings.HasSuffix(k.String(), ": a, b") {
		t.Errorf("two of eight skipped: too few: %t, %q", k.tooFew(), k.String())
	}
	k.skips("c")
	if !k.tooFew() {
		t.Error("three of eight skipped are not too many")
	}
}
