package long

import (
	"testing"

	"github.com/electd/elect/internal/race"
)

func TestLevels(t *testing.T) {
	for _, c := range []struct {
		value string
		asked bool
		size  int // of what has 3 in full, 2 in CI, and 1 in a quick run
	}{
		{"", false, 1}, {"ci", true, 2}, {"1", true, 3},
		{"ci:peer,internal/long", true, 2}, {"ci:internal/long", true, 2}, {"ci:long,internal", false, 1}, {"ci:", false, 1},
	} {
		t.Setenv("ELECT_LONG", c.value)
		size := 1
		if Asked() {
			size = FullOr(3, 2)
		}
		if Asked() != c.asked || size != c.size || Many() != (c.asked && !race.Enabled) {
			t.Errorf("ELECT_LONG=%s: asked %t, size %d, many %t", c.value, Asked(), size, Many())
		}
		ran := false
		t.Run("test", func(t *testing.T) { Test(t, "it is asked for"); ran = true })
		if ran != c.asked {
			t.Errorf("ELECT_LONG=%s: a long test ran: %t", c.value, ran)
		}
		ran = false
		t.Run("full", func(t *testing.T) { Full(t, "it is asked for"); ran = true })
		if ran != (c.value == "1") {
			t.Errorf("ELECT_LONG=%s: a test that CI leaves out ran: %t", c.value, ran)
		}
	}
	t.Setenv("ELECT_LONG", "yes")
	defer func() {
		if recover() == nil {
			t.Error("ELECT_LONG=yes is accepted")
		}
	}()
	Asked()
}
