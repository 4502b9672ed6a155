package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// all is more sectors than there are.
const all = 1 << 20

var owner = Identity{Cluster: "elect", Election: "jobs", ID: "n1"}

// ballotOf is a ballot that shows its number and covers several sectors.
func ballotOf(n int) []byte {
	b := bytes.Repeat([]byte{byte(n)}, 1500)
	binary.BigEndian.PutUint64(b, uint64(n))
	return b
}

// sealLine is a line with the checksum that belongs below it.
func sealLine(line string) string {
	return fmt.Sprintf("%s\ncrc32c %08x\n", line, castagnoli([]byte(line+"\n")))
}

func numberOf(ballot []byte) int {
	if ballot == nil {
		return 0
	}
	n := int(binary.BigEndian.Uint64(ballot))
	if !bytes.Equal(ballot, ballotOf(n)) {
		return -1
	}
	return n
}

func dirOf(n int) (d protocol.DirID) {
	d[0] = byte(n)
	return d
}

// claims is what a node has told others, and must stay true.
type claims struct {
	made   bool
	dir    protocol.DirID
	saved  int // the ballot whose Save returned nil last
	tried  int // the last that was tried
	pinned map[protocol.NodeID]bool
}

// act is one thing that a node does with its directory.
type act func(d *Dir, c *claims) error

func save(d *Dir, c *claims) error {
	c.tried++
	if err := d.Save(ballotOf(c.tried)); err != nil {
		return err
	}
	c.saved = c.tried
	return nil
}

func mirror(d *Dir, _ *claims) error { return d.Mirror() }

func pin(n int) act {
	return func(d *Dir, c *claims) error {
		id := protocol.NodeID(fmt.Sprintf("n%d", n))
		if err := d.Pin(id, dirOf(n)); err != nil {
			return err
		}
		c.pinned[id] = true
		return nil
	}
}

// script is a life: founding, the first save, saves with and without a mirror.
var script = []act{pin(2), pin(3), save, save, mirror, save, save, mirror, mirror, save}

// live opens the directory and plays acts until one fails because the process
// has died. One that fails otherwise is tried once more.
func live(at *fakeDisk, c *claims, acts []act) (*Dir, error) {
	d, err := open(at, "/data", owner)
	if err != nil && !at.dead {
		d, err = open(at, "/data", owner)
	}
	if err != nil {
		return nil, err
	}
	c.made, c.dir = true, d.identity.Dir
	for _, a := range acts {
		if err = a(d, c); err != nil && !at.dead {
			err = a(d, c)
		}
		if err != nil {
			return d, err
		}
	}
	return d, nil
}

// holds opens the directory again and says which claim is broken.
func holds(at *fakeDisk, c *claims) (*Dir, error) {
	d, err := open(at, "/data", owner)
	if err != nil {
		return nil, fmt.Errorf("it cannot be opened: %w", err)
	}
	switch n := numberOf(d.Ballot()); {
	case c.made && d.identity.Dir != c.dir:
		return nil, fmt.Errorf("its id is %v; want %v", d.identity.Dir, c.dir)
	case n < c.saved || n > c.tried:
		return nil, fmt.Errorf("ballot %d; want %d to %d", n, c.saved, c.tried)
	}
	pins := d.Pins()
	for id := range c.pinned {
		if _, ok := pins[id]; !ok {
			return nil, fmt.Errorf("the pin of %s is lost", id)
		}
	}
	for id, dir := range pins {
		if want := dirOf(int(id[1] - '0')); dir != want {
			return nil, fmt.Errorf("the pin of %s is %v; want %v", id, dir, want)
		}
	}
	return d, nil
}

func newClaims() *claims { return &claims{pinned: map[protocol.NodeID]bool{}} }

// afterOutages checks the claims after every way in which the power may fail.
// most bounds how many sectors are told apart.
func afterOutages(t *testing.T, at *fakeDisk, c *claims, most int, when string) (checked int) {
	t.Helper()
	sectors, changes := at.unsynced()
	for k := 0; k <= changes; k++ {
		for i, survive := range outages(min(sectors, most)) {
			if _, err := holds(at.outage(k, survive), c); err != nil {
				t.Fatalf("%s, then outage %d with %d of %d changes of names: %v", when, i, k, changes, err)
			}
			checked++
		}
	}
	return checked
}

// points is how many operations a life has.
func points(t *testing.T) int {
	t.Helper()
	at, c := newFakeDisk(), newClaims()
	if _, err := live(at, c, script); err != nil {
		t.Fatal(err)
	}
	if c.saved != 5 || len(c.pinned) != 2 || at.point < 30 {
		t.Fatalf("%+v after %d operations; want 5 saves and 2 pins", c, at.point)
	}
	return at.point
}

// TestPowerFails: whenever the power fails, and whatever of the unsynced writes
// reaches the disk, what was reported durable is there, or something newer.
func TestPowerFails(t *testing.T) {
	checked := 0
	for k := 1; k <= points(t)+1; k++ {
		for _, f := range []fault{die, dieHalf} {
			at, c := newFakeDisk(), newClaims()
			at.fault[k] = f
			if _, err := live(at, c, script); err == nil && at.dead {
				t.Fatalf("the process died at %d and did not notice", k)
			}
			checked += afterOutages(t, at, c, all, fmt.Sprintf("died (%d) at %d", f, k))
		}
	}
	t.Logf("%d outages", checked)
}

// TestKilledThenPowerFails: a process is killed anywhere, another one begins with
// what the system has in memory, and then the power fails anywhere.
func TestKilledThenPowerFails(t *testing.T) {
	t.Parallel()
	checked := 0
	for k := 1; k <= points(t); k++ {
		for _, f := range []fault{die, dieHalf} {
			for l := 1; ; l += long.Or(1, 13) {
				at, c := newFakeDisk(), newClaims()
				at.fault[k] = f
				_, _ = live(at, c, script)
				at.kill()
				at.fault[l] = dieHalf
				d, err := holds(at, c)
				if err != nil && !at.dead {
					t.Fatalf("killed at %d: %v", k, err)
				}
				if d != nil {
					c.made, c.dir = true, d.identity.Dir
					c.saved = numberOf(d.Ballot()) // it may tell others of it from now on
					for id := range d.Pins() {
						c.pinned[id] = true
					}
					for _, a := range []act{pin(2), save, mirror, save} {
						if a(d, c) != nil {
							break
						}
					}
				}
				checked += afterOutages(t, at, c, 2, fmt.Sprintf("killed (%d) at %d, died at %d", f, k, l))
				if !at.dead {
					break
				}
			}
		}
	}
	t.Logf("%d outages", checked)
}

// TestDiskFails: any operation fails, the same thing is tried again, then
// the process is killed or not, and then the power fails anywhere.
func TestDiskFails(t *testing.T) {
	t.Parallel()
	checked := 0
	for k := 1; k <= points(t); k++ {
		for _, f := range []fault{eio, enospc} {
			for l := k + 1; ; l += long.Or(1, 13) {
				at, c := newFakeDisk(), newClaims()
				at.fault[k], at.fault[l] = f, dieHalf
				if d, err := live(at, c, script); err == nil && c.saved < 5 || err != nil && !at.dead {
					t.Fatalf("failed (%d) at %d: %v, %+v", f, k, err, d)
				}
				died := at.dead
				when := fmt.Sprintf("failed (%d) at %d, died at %d", f, k, l)
				checked += afterOutages(t, at, c, 1, when)
				if at.kill(); died && f == eio {
					checked += afterKill(t, at, c, when)
				}
				if !died {
					break
				}
			}
		}
	}
	t.Logf("%d outages", checked)
}

// afterKill opens the directory from what is in memory, saves, and loses power
// in the midst of each operation of that.
func afterKill(t *testing.T, at *fakeDisk, c *claims, when string) (checked int) {
	t.Helper()
	for l := 1; ; l++ {
		again := at.copy()
		own := *c
		again.fault[l] = dieHalf
		d, err := holds(again, &own)
		if err != nil && !again.dead {
			t.Fatalf("%s, opened again: %v", when, err)
		}
		if d != nil {
			own.saved = numberOf(d.Ballot())
			_ = save(d, &own)
		}
		sectors, changes := again.unsynced()
		for _, survive := range outages(min(sectors, 1))[1:] {
			if _, err := holds(again.outage(changes, survive), &own); err != nil {
				t.Fatalf("%s, opened again, died at %d: %v", when, l, err)
			}
			checked++
		}
		if !again.dead {
			return checked
		}
	}
}

// TestFailingDiskIsTold: what stands in the way of a new directory, or of one that is
// there, is in the error, so that a command can tell a bad disk from another trouble.
func TestFailingDiskIsTold(t *testing.T) {
	for _, made := range []bool{false, true} {
		failed := 0
		for point := 1; point < 1000; point++ {
			at := newFakeDisk()
			if made {
				d, err := open(at, "/data", owner)
				if err != nil {
					t.Fatal(err)
				}
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
			}
			begun := at.point
			at.fault[begun+point] = eio
			d, err := open(at, "/data", owner)
			if err == nil {
				_ = d.Close()
				if at.point < begun+point {
					break
				}
				continue // it can do without
			}
			failed++
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("made %v, operation %d: %v; want that it says EIO", made, point, err)
			}
		}
		if failed == 0 {
			t.Errorf("made %v: no operation has failed", made)
		}
	}
}

// TestFullDisk: a save that fails says why, and loses nothing.
func TestFullDisk(t *testing.T) {
	at, c := newFakeDisk(), newClaims()
	d, err := live(at, c, []act{save, mirror})
	if err != nil {
		t.Fatal(err)
	}
	at.fault[at.point+1] = enospc
	err = d.Save(ballotOf(2))
	if want := "/data: ballot 2 is not saved, and the one before it is safe: no space left on device"; err == nil || err.Error() != want {
		t.Errorf("%v\nwant: %s", err, want)
	}
	c.tried = 2
	afterOutages(t, at, c, all, "full")
}

// TestMarkFails: a first save that could not mark the directory has failed; the
// one that succeeds then has marked it, so that both slots are missed.
func TestMarkFails(t *testing.T) {
	marks := 0
	for k := 1; k <= points(t); k++ {
		at, c := newFakeDisk(), newClaims()
		at.fault[k] = eio
		if _, err := live(at, c, []act{save}); err != nil {
			t.Fatal(err)
		}
		if c.tried == 2 {
			marks++
		}
		damage(at, 0)
		damage(at, 1)
		if d, err := open(at, "/data", owner); err == nil {
			t.Errorf("failed at %d: it opens with ballot %d", k, numberOf(d.Ballot()))
		}
	}
	if marks < 8 { // two slots to write and to sync, and the identity
		t.Errorf("%d first saves failed; want one at each operation", marks)
	}
}

// damage flips a bit of a slot, on the disk and in memory.
func damage(at *fakeDisk, which int) {
	i := at.names[ballotName]
	i.disk[which*SlotSize+slotHead+700] ^= 4
	i.cache[which*SlotSize+slotHead+700] ^= 4
}

// TestDecay: which damage is harmless, and which is not.
func TestDecay(t *testing.T) {
	for name, c := range map[string]struct {
		acts   []act
		slots  []int
		want   int
		warned bool
		says   string
	}{
		"none":                      {[]act{save, save}, nil, 2, false, ""},
		"the first after a mirror":  {[]act{save, save, mirror}, []int{0}, 2, true, ""},
		"the second after a mirror": {[]act{save, save, mirror}, []int{1}, 2, true, ""},
		"the first after the first": {[]act{save}, []int{0}, 1, true, ""},
		"the older":                 {[]act{save, save}, []int{0}, 2, true, ""},
		"the newest, unmirrored":    {[]act{save, save}, []int{1}, 1, true, ""}, // the one case that loses a vote
		"both":                      {[]act{save, save, mirror}, []int{0, 1}, 0, false, "/data: its votes are lost: both copies of the ballot are damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			at := newFakeDisk()
			if _, err := live(at, newClaims(), c.acts); err != nil {
				t.Fatal(err)
			}
			for _, s := range c.slots {
				damage(at, s)
			}
			d, err := open(at, "/data", owner)
			if c.says != "" {
				if r, ok := errors.AsType[*Refused](err); !ok || !strings.HasPrefix(r.Error(), c.says) {
					t.Errorf("%v\nwant: %s", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := numberOf(d.Ballot()); n != c.want || (len(d.Warnings()) > 0) != c.warned {
				t.Errorf("ballot %d, warnings %q; want %d", n, d.Warnings(), c.want)
			}
			// And what is saved next repairs it.
			if err := errors.Join(d.Save(ballotOf(7)), d.Mirror()); err != nil {
				t.Fatal(err)
			}
			if d, err = open(at, "/data", owner); err != nil || numberOf(d.Ballot()) != 7 || len(d.Warnings()) > 0 {
				t.Errorf("after a save: %d, %v, %v", numberOf(d.Ballot()), d.Warnings(), err)
			}
		})
	}
}
