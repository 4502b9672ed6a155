//go:build linux || darwin || freebsd

package file_test

import (
	"maps"
	"net/url"
	"testing"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/file"
)

// noFault says why faults do not exist for a lock of the kernel.
var noFault = map[electtest.Fault]string{
	electtest.Cut:      "a process cannot be cut off from its own kernel",
	electtest.Lose:     "a system call's answer does not get lost",
	electtest.Delay:    "nothing runs out while an answer is under way",
	electtest.Restart:  "the store is the kernel; its restart ends every participant too",
	electtest.Recreate: "removing the directory is a case of this package's own tests: tokens start again, by design, until the era is raised",
}

// TestConformance has all participants in this process.
func TestConformance(t *testing.T) {
	cannot := map[electtest.Fault]string{
		electtest.Freeze: "this process cannot freeze itself: see TestConformanceProcesses",
		electtest.Crash:  "this process cannot kill itself: see TestConformanceProcesses",
	}
	maps.Copy(cannot, noFault)
	dirs := directories{}
	electtest.Run(t, electtest.Config{
		Cannot: cannot,
		Open: func(t testing.TB, name, id string) electtest.Participant {
			e, err := file.Open(t.Context(), driver.Target{URL: &url.URL{Scheme: "file", Path: dirs.of(t)}, Name: name, ID: id})
			if err != nil {
				t.Fatal(err)
			}
			return electtest.Participant{Elector: e}
		},
	})
}

// TestConformanceProcesses has each participant in a process of its own, to be
// stopped and killed for real.
func TestConformanceProcesses(t *testing.T) {
	dirs := directories{}
	electtest.Run(t, electtest.Config{
		Cannot: noFault,
		Open: func(t testing.TB, name, id string) electtest.Participant {
			return electtest.Spawn(t, "file://"+dirs.of(t), name, id)
		},
	})
}

// directories gives each case its own.
type directories map[testing.TB]string

func (d directories) of(t testing.TB) string {
	if d[t] == "" {
		d[t] = t.TempDir()
	}
	return d[t]
}
