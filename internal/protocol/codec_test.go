package protocol_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// thing has a field of each type that the codec knows.
type thing struct {
	u          uint64
	i          protocol.Instant
	d          time.Duration
	yes, no    bool
	s          string
	b          []byte
	voter      protocol.Voter
	reading    protocol.Reading
	membership *protocol.Membership
	none       *protocol.Membership
}

// state describes the encoding once more, for the Coder.
func (x *thing) state(c *protocol.Coder) {
	c.Uints(&x.u)
	c.Instants(&x.i)
	c.Durations(&x.d)
	c.Bools(&x.yes, &x.no)
	protocol.Strings(c, &x.s)
	b := string(x.b)
	protocol.Strings(c, &b)
	x.b = []byte(b)
	c.Voter(&x.voter)
	c.Reading(&x.reading)
	c.Membership(&x.membership)
	c.Membership(&x.none)
}

func (x thing) append(dst []byte) []byte {
	dst = protocol.AppendUint(dst, x.u)
	dst = protocol.AppendInstant(dst, x.i)
	dst = protocol.AppendDuration(dst, x.d)
	dst = protocol.AppendBool(dst, x.yes)
	dst = protocol.AppendBool(dst, x.no)
	dst = protocol.AppendString(dst, x.s)
	dst = protocol.AppendString(dst, x.b)
	dst = protocol.AppendVoter(dst, x.voter)
	dst = protocol.AppendInstant(protocol.AppendInstant(dst, x.reading.Boot), x.reading.Mono)
	dst = protocol.AppendMembership(dst, x.membership)
	return protocol.AppendMembership(dst, x.none)
}

func read(src []byte) (x thing, err error) {
	d := protocol.NewDecoder(src)
	x.u, x.i, x.d = d.Uint(), d.Instant(), d.Duration()
	x.yes, x.no = d.Bool(), d.Bool()
	x.s, x.b = d.String(), d.Bytes()
	x.voter = d.Voter()
	x.reading.Boot, x.reading.Mono = d.Instant(), d.Instant()
	x.membership, x.none = d.Membership(), d.Membership()
	return x, d.Done()
}

var everything = thing{
	u: 1<<64 - 1, i: protocol.Never, d: -time.Second, yes: true, s: "ä", b: []byte{0},
	voter:   protocol.Voter{ID: "n1", Dir: protocol.DirID{7}},
	reading: protocol.Reading{Boot: 1, Mono: protocol.Always},
	membership: &protocol.Membership{
		ConfigTerm: 3, Version: 4, Voters: []protocol.Voter{{ID: "n1"}, {ID: "n2"}}, Observers: []protocol.NodeID{"o1"},
	},
}

func TestCodec(t *testing.T) {
	whole := everything.append(nil)
	got, err := read(whole)
	if err != nil || !reflect.DeepEqual(got, everything) {
		t.Errorf("read back %+v, %v", got, err)
	}
	c := protocol.Appending([]byte("x"))
	if everything.state(&c); string(c.Appended()) != "x"+string(whole) {
		t.Errorf("a Coder appends %x; want %x", c.Appended(), whole)
	}
	for n := range whole {
		if _, err := read(whole[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are accepted", n, len(whole))
		}
	}
	if _, err := read(append(whole, 0)); err == nil {
		t.Error("an extra byte is accepted")
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add(everything.append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, src []byte) {
		x, err := read(src)
		var y thing
		c := protocol.Loading(src)
		y.state(&c)
		if (c.Done("thing") == nil) != (err == nil) {
			t.Fatalf("%x: a Coder says %v, and a Decoder %v", src, c.Done("thing"), err)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(y.append(nil), src) {
			t.Errorf("%x is loaded as %+v", src, y)
		}
		if again := x.append(nil); !bytes.Equal(again, src) {
			t.Errorf("not canonical: %x is written as %x", src, again)
		}
	})
}
