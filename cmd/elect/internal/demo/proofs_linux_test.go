package demo

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/leasepage"
)

// TestProofs reads the lease page of a job, from its first line to the end of its leadership.
func TestProofs(t *testing.T) {
	log := filepath.Join(t.TempDir(), "job.log")
	p := &proofs{log: log}
	defer p.close()
	p.follow([]line{{ID: "n1", PID: 1, Number: 1}})
	if all := p.read(); all[0] != nil {
		t.Errorf("without a page there is the proof %+v; want none", *all[0])
	}
	w, err := leasepage.Create(leasepage.State{Token: 7, Until: int64(clock.Now()) + int64(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Remove()
	if err := os.WriteFile(leaseFile(log, "n2"), []byte(w.Path()), 0o600); err != nil {
		t.Fatal(err)
	}
	p.follow([]line{{ID: "n2", PID: 2, Number: 1}})
	if all := p.read(); all[1] == nil || all[1].token != 7 || all[1].left < time.Minute || all[1].left > time.Hour {
		t.Fatalf("the proof of n2 is %+v; want token 7 for an hour", all[1])
	}
	w.Prove(0)
	if all := p.read(); all[1] == nil || all[1].left != 0 {
		t.Errorf("at the end the proof of n2 is %+v; want one that proves nothing", all[1])
	}
}
