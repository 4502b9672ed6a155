//go:build linux || darwin || freebsd

package file_test

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"testing"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/file"
	"github.com/electd/elect/internal/long"
)

// noFault says why faults do not exist for a lock of the kernel.
var noFault = map[electtest.Fault]string{
	electtest.Cut:     "a process cannot be cut off from its own kernel",
	electtest.Lose:    "a system call's answer does not get lost",
	electtest.Delay:   "nothing runs out while an answer is under way",
	electtest.Restart: "the store is the kernel; its restart ends every participant too",
}

// TestConformance has all participants in this process.
func TestConformance(t *testing.T) {
	cannot := map[electtest.Fault]string{
		electtest.Freeze: "this process cannot freeze itself: see TestConformanceProcesses",
		electtest.Crash:  "this process cannot kill itself: see TestConformanceProcesses",
	}
	maps.Copy(cannot, noFault)
	places := places{}
	electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant {
		u, err := url.Parse(places.of(t).url())
		if err != nil {
			t.Fatal(err)
		}
		e, err := file.Open(t.Context(), driver.Target{URL: u, Name: name, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		return electtest.Participant{Elector: e}
	}, electtest.Config{
		Cannot:   cannot,
		Recreate: places.recreate,
	})
}

// TestConformanceProcesses has each participant in a process of its own, to be
// stopped and killed for real.
func TestConformanceProcesses(t *testing.T) {
	long.Test(t, "it starts a process a candidate")
	places := places{}
	electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant {
		return electtest.Spawn(t, places.of(t).url(), name, id)
	}, electtest.Config{
		Cannot:   noFault,
		Recreate: places.recreate,
	})
}

// place is the directory of a case, and the era that an operator has given it.
type place struct {
	dir string
	era int
}

func (p *place) url() string { return fmt.Sprintf("file://%s?era=%d", p.dir, p.era) }

// places gives each case its own.
type places map[testing.TB]*place

func (p places) of(t testing.TB) *place {
	if p[t] == nil {
		p[t] = &place{dir: t.TempDir()}
	}
	return p[t]
}

// recreate loses the directory, and raises the era as an operator must.
func (p places) recreate(t testing.TB) {
	if err := os.RemoveAll(p.of(t).dir); err != nil {
		t.Fatal(err)
	}
	p.of(t).era++
}
