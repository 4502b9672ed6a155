package marks

import (
	"errors"
	"strings"
	"testing"

	"github.com/electd/elect/fence"
)

func TestOpenRefuses(t *testing.T) {
	for _, at := range []string{
		"", "orders", "floppy:a", "file:", "file://host/x", "file:x?y=1", "mysql:///x", "mysql://u:geheim@h/x?timeout=soon", "redis://:geheim@h/x/y/z",
		"postgres://u:geheim@h:port/x", "postgres://u:geheim@h/x?sslmode=sometimes", "postgres://u:geheim@h/x?fence_table=Robert;", "postgres://u:gehe im%zz@h",
	} {
		p, err := Open(at, Config{})
		if !errors.Is(err, ErrURL) || p != nil {
			t.Errorf("%q: %v, %v; want ErrURL", at, p, err)
			continue
		}
		if strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q: %v", at, err)
		}
	}
}

// A driver may put what it likes into an error.
func TestPasswordIsHidden(t *testing.T) {
	err := hide(errors.Join(&fence.StaleError{Shown: 1, Highest: 2}, errors.New("user=u password=geheim")), "geheim")
	if strings.Contains(err.Error(), "geheim") || !errors.Is(err, fence.ErrStale) {
		t.Errorf("%v", err)
	}
	if stale, ok := errors.AsType[*fence.StaleError](err); !ok || stale.Highest != 2 {
		t.Errorf("%v does not say what has happened", err)
	}
	if hide(nil, "x") != nil {
		t.Error("an error out of nothing")
	}
}
