package sim

import (
	"testing"
	"time"
)

// TestImpostor: as long as it lasts, the others receive its messages under the name of another
// participant, or not at all where senders are authenticated.
func TestImpostor(t *testing.T) {
	s := still(3, Op{At: at(20.5), Kind: OpImpostor, Node: "n1", Peer: "n3", For: 20 * time.Millisecond})
	s.Beyond = true
	count := func(d *diary) (lies, truths, toItself int) {
		from, to := at(21), at(40)
		return len(d.heard("n3", "n2", from, to)), len(d.heard("n1", "n2", from, to)), len(d.heard("n1", "n3", from, to))
	}
	d := live(t, s)
	if lies, truths, own := count(d); lies != 38 || truths != 0 || own != 19 {
		t.Errorf("n2 hears %d messages of n3 and %d of n1 in 19 ms, and n3 %d of n1; want 38, 0 and 19", lies, truths, own)
	}
	if n := len(d.heard("n1", "n2", at(41), at(60))); n != 19 {
		t.Errorf("%d messages of n1 in 19 ms after that; want 19", n)
	}

	p := pulses()
	p.Authenticated = true
	w, err := New(p, s)
	if err != nil {
		t.Fatal(err)
	}
	d = &diary{t: t, w: w}
	w.Trace(d)
	w.Run()
	if lies, truths, own := count(d); lies != 19 || truths != 0 || own != 19 {
		t.Errorf("where senders are known n2 hears %d messages of n3 and %d of n1 in 19 ms, and n3 %d of n1; want 19, 0 and 19", lies, truths, own)
	}
	refused := 0
	for _, l := range d.lines {
		if l.kind == RecordLost && l.says == "refused: it says that it is of n3" {
			refused++
		}
	}
	if refused != 20 {
		t.Errorf("%d messages were refused; want 20", refused)
	}
}
