package disk

import (
	"bytes"
	"encoding/hex"
	"maps"
	"strings"
	"testing"

	"github.com/electd/elect/internal/protocol"
)

// TestLayout: the files as they are on the disk. A change here is another
// format: directories of older programs must still be read.
func TestLayout(t *testing.T) {
	id := Identity{Cluster: "elect", Election: "jobs", ID: "n1", Dir: dirOf(1)}
	text, err := encodeIdentity(id, true)
	if want := `{"format":1,"cluster":"elect","election":"jobs","id":"n1","dir":"01000000000000000000000000000000","voted":true}
crc32c 51f0a603
`; err != nil || string(text) != want {
		t.Errorf("identity:\n%s\nwant:\n%s", text, want)
	}
	text, err = encodePins(map[protocol.NodeID]protocol.DirID{"n3": dirOf(3), "n2": dirOf(2)})
	if want := `{"format":1,"pins":{"n2":"02000000000000000000000000000000","n3":"03000000000000000000000000000000"}}
crc32c 2737ba77
`; err != nil || string(text) != want {
		t.Errorf("pins:\n%s\nwant:\n%s", text, want)
	}
	written := appendSlot(nil, slot{number: 7, data: []byte("a vote")})
	head := hex.EncodeToString(written[:slotHead])
	want := hex.EncodeToString([]byte("elecball")) + "00000001" + "00000006" + "0000000000000007" + "7edf5c48" + "00000000"
	if head != want || string(written[slotHead:slotHead+6]) != "a vote" || len(written) != sector {
		t.Errorf("slot:\n%s of %d bytes\nwant:\n%s", head, len(written), want)
	}
	if SlotSize%4096 != 0 {
		t.Errorf("slots of %d bytes share pages", SlotSize)
	}
}

// FuzzSlots: whatever is read encodes to the same again, and one changed bit in
// what counts is found.
func FuzzSlots(f *testing.F) {
	good := appendSlot(nil, slot{number: 7, data: []byte("a vote")})
	f.Add(good, 0)
	f.Add(good[:40], 300)
	f.Add([]byte{}, 1)
	f.Add(make([]byte, SlotSize), 2)
	other := bytes.Clone(good)
	other[11] = 2
	f.Add(other, 90)
	f.Fuzz(func(t *testing.T, src []byte, bit int) {
		before := bytes.Clone(src)
		s, err := decodeSlot(src)
		if !bytes.Equal(src, before) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			return
		}
		again := appendSlot(nil, s)
		n := slotHead + len(s.data)
		if !bytes.Equal(again[:n], src[:n]) {
			t.Fatalf("%x became %x", src[:n], again[:n])
		}
		if bit < 0 {
			bit = ^bit
		}
		bit %= 8 * n
		again[bit/8] ^= 1 << (bit % 8)
		if _, err := decodeSlot(again); err == nil {
			t.Fatalf("a slot with bit %d changed is read", bit)
		}
	})
}

// FuzzIdentity: whatever is read encodes to what reads the same.
func FuzzIdentity(f *testing.F) {
	good, err := encodeIdentity(Identity{Cluster: "elect", Election: "jobs", ID: "n1", Dir: dirOf(1)}, true)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(good), "")
	f.Add("", `{"format":1,"cluster":"c","election":"e","id":"n1","dir":"01000000000000000000000000000000","voted":false}`)
	f.Add("", `{"format":2}`)
	f.Add("", `{"format":1} {}`)
	f.Fuzz(func(t *testing.T, text, line string) {
		if line != "" && !strings.Contains(line, "\n") {
			text = sealLine(line) // with a checksum that is right
		}
		id, voted, err := decodeIdentity([]byte(text))
		if err != nil {
			return
		}
		again, err := encodeIdentity(id, voted)
		if err != nil {
			t.Fatal(err)
		}
		if id2, voted2, err := decodeIdentity(again); err != nil || id2 != id || voted2 != voted {
			t.Fatalf("%+v became %+v: %v", id, id2, err)
		}
	})
}

// FuzzPins: likewise.
func FuzzPins(f *testing.F) {
	good, err := encodePins(map[protocol.NodeID]protocol.DirID{"n2": dirOf(2)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(good), "")
	f.Add("", `{"format":1,"pins":{"n 2":"01000000000000000000000000000000"}}`)
	f.Add("", `{"format":1,"pins":null}`)
	f.Fuzz(func(t *testing.T, text, line string) {
		if line != "" && !strings.Contains(line, "\n") {
			text = sealLine(line)
		}
		pins, err := decodePins([]byte(text))
		if err != nil {
			return
		}
		again, err := encodePins(pins)
		if err != nil {
			t.Fatal(err)
		}
		if pins2, err := decodePins(again); err != nil || !maps.Equal(pins, pins2) {
			t.Fatalf("%v became %v: %v", pins, pins2, err)
		}
	})
}
