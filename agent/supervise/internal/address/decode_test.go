package address

import (
	"encoding/binary"
	"reflect"
	"testing"
)

// TestEncode: an address arrives as it was sent, and a part of it does not.
func TestEncode(t *testing.T) {
	want := Address{[]byte{192, 0, 2, 10}, 24, "eth0", "192.0.2.10/24@eth0"}
	text := want.Encode()
	if got, err := Decode(text); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for n := range len(text) - len(want.Text) {
		if got, err := Decode(text[:n]); err == nil {
			t.Errorf("%d bytes are %+v", n, got)
		}
	}
}

// netlink builds a message.
func netlink(kind uint16, seq uint32, body ...byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(headerSize+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, 0)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = append(append(b, 0, 0, 0, 0), body...)
	return append(b, make([]byte, align(len(b))-len(b))...)
}

func TestMessages(t *testing.T) {
	two := append(netlink(1, 7, 'a', 'b', 'c'), netlink(2, 8)...)
	var got []message
	for m, err := range messages(two) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m)
	}
	if len(got) != 2 || got[0].kind != 1 || got[0].seq != 7 || string(got[0].body) != "abc" || got[1].kind != 2 {
		t.Errorf("%+v", got)
	}
	for _, cut := range []int{1, headerSize - 1, headerSize, len(two) - 1} {
		last := error(nil)
		for _, err := range messages(two[:cut]) {
			last = err
		}
		if last == nil {
			t.Errorf("%d of %d bytes are no error", cut, len(two))
		}
	}
}

// FuzzMessages: what a socket may return neither crashes nor hangs the decoder, and each message and attribute lies
// within it.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{})
	f.Add(netlink(20, 1, 2, 24, 0, 0, 1, 0, 0, 0, 8, 0, 2, 0, 192, 0, 2, 10))
	f.Add(append(netlink(2, 1, 0, 0, 0, 0), netlink(3, 1)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		read := 0
		for m, err := range messages(b) {
			if err != nil {
				break
			}
			read += headerSize + len(m.body)
			inner := 0
			for _, value := range attributes(m.body) {
				inner += attributeSize + len(value)
			}
			if inner > len(m.body) {
				t.Errorf("%d bytes of attributes in %d", inner, len(m.body))
			}
		}
		if read > len(b) {
			t.Errorf("%d bytes of messages in %d", read, len(b))
		}
	})
}
