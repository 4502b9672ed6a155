//go:build linux

package file_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/disk"
)

func newDisk(t *testing.T) disk.Disk {
	t.Helper()
	d, err := disk.NewFUSE(t.TempDir())
	if errors.Is(err, disk.ErrUnable) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func powerLoss(t *testing.T, d disk.Disk, f disk.Fault) {
	t.Helper()
	if err := errors.Join(d.Fault(f), d.PowerLoss(), d.Fault(disk.Fault{})); err != nil {
		t.Fatal(err)
	}
}

var (
	older = strings.Repeat("older\n", 3)
	newer = strings.Repeat(strings.Repeat("newer ", 300)+"\n", 3)
)

// settled is a disk with a mark of 5 and the older content, durable, which is wiped and made again
// for each case.
func settled(t *testing.T, d disk.Disk) string {
	t.Helper()
	if err := d.Wipe(); err != nil {
		t.Fatal(err)
	}
	dir := d.Path()
	must(t, job{Do: "install", Dir: dir})
	must(t, job{Do: "replace", Dir: dir, Token: 5, Content: older})
	must(t, job{Do: "add", Dir: dir})
	must(t, job{Do: "raise", Dir: dir, Token: 5})
	if err := d.Snapshot("settled"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// wantWhole checks that the state is that before a job or after it, and after it if the job was
// confirmed.
func wantWhole(t *testing.T, j job, where string, confirmed bool) {
	t.Helper()
	s := must(t, job{Do: "state", Dir: j.Dir})
	marks := fmt.Sprintf("%v %v", s.Mark, s.Raised)
	before, after := "5 5", map[string]string{"replace": "6 5", "claim": "6 5", "raise": "5 6"}[j.Do]
	found := map[string]string{older: "older", newer: "newer"}[s.Content]
	switch {
	case found == "", marks != before && marks != after:
	case j.Do != "replace" && found != "older":
	case found == "newer" && marks != after:
	case confirmed && (marks != after || j.Do == "replace" && found != "newer"):
	default:
		return
	}
	t.Errorf("%s, %s, confirmed %v: the marks are %s, and the content %.50q", j.Do, where, confirmed, marks, s.Content)
}

// TestPowerLoss: the power fails before every operation of a claim, a replacement and a raised
// mark, and removes what was not synced, all of it or a random part.
func TestPowerLoss(t *testing.T) {
	long.Test(t, "it freezes real processes before each step of a write")
	d := newDisk(t)
	dir := settled(t, d)
	for _, j := range []job{
		{Do: "claim", Dir: dir, Token: 6},
		{Do: "replace", Dir: dir, Token: 6, Content: newer},
		{Do: "raise", Dir: dir, Token: 6},
	} {
		cases := 0
		for luck := range uint64(long.Or(4, 2)) {
			for j.Stop = 0; ; j.Stop++ {
				if err := d.Restore("settled"); err != nil {
					t.Fatal(err)
				}
				h := start(t, j)
				r := h.next()
				h.end(true)
				if r.Err != "" {
					t.Fatal(r.Err)
				}
				powerLoss(t, d, disk.Fault{Luck: luck, Torn: luck%2 == 1})
				wantWhole(t, j, "before "+r.At, r.At == "")
				if cases++; r.At == "" {
					break
				}
				// Nothing blocks the next process.
				must(t, job{Do: j.Do, Dir: dir, Token: 7, Content: newer})
			}
		}
		if cases < 20 {
			t.Errorf("%s: %d cases: nothing was tested", j.Do, cases)
		}
		t.Logf("%s: %d outages", j.Do, cases)
	}
}

// TestFailingDisk: the disk is full, or fails, from every operation on. An unconfirmed operation
// has not happened, unless the error says that its outcome is unknown. Repeated on a sound disk it
// is confirmed, and survives a loss of power.
func TestFailingDisk(t *testing.T) {
	long.Test(t, "it freezes real processes before each step of a write")
	d := newDisk(t)
	dir := settled(t, d)
	for name, fault := range map[string]disk.Fault{
		"full": {Full: true}, "failing syncs": {SyncError: true}, "failing writes": {WriteError: true}, "read-only": {ReadOnly: true},
	} {
		failed := 0
		for _, j := range []job{
			{Do: "claim", Dir: dir, Token: 6},
			{Do: "replace", Dir: dir, Token: 6, Content: newer},
			{Do: "raise", Dir: dir, Token: 6},
		} {
			for j.Stop = 0; ; j.Stop++ {
				if err := d.Restore("settled"); err != nil {
					t.Fatal(err)
				}
				h := start(t, j)
				r := h.next()
				at := r.At
				if at != "" {
					if err := d.Fault(fault); err != nil {
						t.Fatal(err)
					}
					r = h.goOn()
				}
				h.end(false)
				if err := d.Fault(disk.Fault{}); err != nil {
					t.Fatal(err)
				}
				where := name + " before " + at
				if r.Stale {
					t.Errorf("%s, %s: %s", j.Do, where, r.Err)
				}
				if r.Err != "" {
					failed++
				}
				if says := map[string]string{"full": "no space left on device; want room for", "read-only": "read-only file system"}[name]; r.Err != "" && !strings.Contains(r.Err, says) {
					t.Errorf("%s, %s: %s; want %q in it", j.Do, where, r.Err, says)
				}
				wantWhole(t, j, where, r.Err == "")
				if s := must(t, job{Do: "state", Dir: dir}); r.Err != "" && !r.Unknown && (s.Content != older || j.Do != "replace" && (s.Mark != 5 || s.Raised != 5)) {
					t.Errorf("%s, %s: %s; and it has happened: %+v", j.Do, where, r.Err, s)
				}
				must(t, job{Do: j.Do, Dir: dir, Token: j.Token, Content: j.Content})
				powerLoss(t, d, disk.Fault{})
				wantWhole(t, j, where+", done again, and an outage", true)
				if at == "" {
					break
				}
			}
		}
		if failed < 10 {
			t.Errorf("%s: %d have failed: nothing was tested", name, failed)
		}
		t.Logf("%s: %d have failed", name, failed)
	}
}

// TestClaimKeepsWhatItFinds: a leader is killed between its rename and its sync. The next one
// claims and reads the new content, and no loss of power reverts it.
func TestClaimKeepsWhatItFinds(t *testing.T) {
	d := newDisk(t)
	dir := settled(t, d)
	j := job{Do: "replace", Dir: dir, Token: 5, Content: "newer"}
	killed := func() string {
		if err := d.Restore("settled"); err != nil {
			t.Fatal(err)
		}
		h := start(t, j)
		defer h.end(true)
		return h.next().At
	}
	for at := killed(); at != "sync ."; at = killed() {
		if at == "" {
			t.Fatal("it came to its end")
		}
		j.Stop++
	}
	for _, token := range []fence.Token{5, 6} { // a mark that stands, and one that is raised
		killed()
		must(t, job{Do: "claim", Dir: dir, Token: token})
		if s := must(t, job{Do: "state", Dir: dir}); s.Content != j.Content {
			t.Fatalf("%.50q; want the newer content", s.Content)
		}
		powerLoss(t, d, disk.Fault{})
		if s := must(t, job{Do: "state", Dir: dir}); s.Content != j.Content || s.Mark != token {
			t.Errorf("claimed with %v, and an outage: %.50q, %v; want the newer content", token, s.Content, s.Mark)
		}
	}
}

// TestCareless: without a sync of the directory a mark that was confirmed goes back, and
// without one of the content it is lost; the guard notices that and refuses all.
func TestCareless(t *testing.T) {
	d := newDisk(t)
	dir := settled(t, d)
	must(t, job{Do: "unnamed", Dir: dir, Token: 6})
	powerLoss(t, d, disk.Fault{})
	if s := must(t, job{Do: "state", Dir: dir}); s.Raised != 5 {
		t.Errorf("the mark is %v; if it is 6 still, a sync of the directory is not needed", s.Raised)
	}
	must(t, job{Do: "unsynced", Dir: dir, Token: 6})
	powerLoss(t, d, disk.Fault{})
	for _, do := range []string{"state", "raise"} {
		if r := run(t, job{Do: do, Dir: dir, Token: 7}); !strings.Contains(r.Err, "damaged") || r.Stale {
			t.Errorf("%s: %+v; want an error that says that it is damaged", do, r)
		}
	}
}
