package epoch

import (
	"bytes"
	"strings"
	"testing"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

func TestDecode(t *testing.T) {
	good := Ballot{Epoch: 7, Incarnation: 2}.Append(nil)
	for _, c := range []struct {
		data []byte
		says string // empty: it is good
	}{
		{good, ""},
		{Ballot{Epoch: protocol.MaxCount, Incarnation: 1}.Append(nil), ""},
		{nil, "ring: ballot: the first of 0 bytes is not 1; want a ballot of this version"},
		{append([]byte{2}, good[1:]...), "ring: ballot: the first of 17 bytes is not 1; want a ballot of this version"},
		{good[:len(good)-1], "ring: ballot: at byte 9 of 16: unexpected end"},
		{append(bytes.Clone(good), 0), "ring: ballot: at byte 17 of 18: 1 bytes after the end"},
		{Ballot{Epoch: protocol.MaxCount + 1, Incarnation: 1}.Append(nil), "epoch 281474976710656; want at most 281474976710655"},
		{Ballot{Epoch: 7}.Append(nil), "incarnation 0; the first is 1"},
	} {
		b, err := Decode("ring", c.data)
		switch {
		case c.says == "" && (err != nil || !bytes.Equal(b.Append(nil), c.data)):
			t.Errorf("%x is read as %+v, %v", c.data, b, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || b != Ballot{}):
			t.Errorf("%x is read as %+v, %v; want %q", c.data, b, err, c.says)
		}
	}
}

func FuzzDecode(f *testing.F) {
	classictest.FuzzDecode(f, func(data []byte) (Ballot, error) { return Decode("ring", data) },
		Ballot{Epoch: 7, Incarnation: 2}, Ballot{Epoch: protocol.MaxCount + 1, Incarnation: 1}, Ballot{})
}
