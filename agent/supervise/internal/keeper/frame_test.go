package keeper

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
)

func fullSpec() Spec {
	return Spec{Path: "/bin/sh", Dir: "/", Args: []string{"sh", "-c", ""}, Env: []string{"A=b", strings.Repeat("x", 300)},
		Grace: 3 * time.Second, Terminal: true, Foreground: true, Guard: true, Group: 4711, Hold: 2, Places: []string{"", "/x/lock"}, Addresses: []string{"192.0.2.10/24@eth0"}, Deadline: 7,
		Run: 3, Testament: "told\x00", Parent: 4712}
}

func TestSpecRoundTrip(t *testing.T) {
	for _, want := range []Spec{{Args: []string{}, Env: []string{}, Places: []string{}, Addresses: []string{}}, fullSpec()} {
		data := want.Append(nil)
		var got Spec
		if err := got.load(data); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		for n := range data {
			if err := new(Spec).load(data[:n]); err == nil {
				t.Fatalf("the first %d of %d bytes were taken for a whole one", n, len(data))
			}
		}
		if err := new(Spec).load(append(data, 0)); err == nil {
			t.Error("a byte too many was taken")
		}
	}
}

func TestDecoderTakesAnyCut(t *testing.T) {
	var stream []byte
	stream = AppendNumber(stream, KindSignal, 15)
	stream = AppendFrame(stream, KindSpec, bytes.Repeat([]byte("x"), 200_000))
	stream = AppendFrame(stream, KindNote, nil)
	for _, cut := range []int{1, 3, 4096, len(stream)} {
		var d Decoder
		var kinds []Kind
		var sizes []int
		for rest := stream; len(rest) > 0; {
			n := copy(d.Room(), rest[:min(cut, len(rest))])
			d.Took(n)
			rest = rest[n:]
			for {
				k, payload, ok, err := d.Next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				kinds, sizes = append(kinds, k), append(sizes, len(payload))
			}
		}
		if !reflect.DeepEqual(kinds, []Kind{KindSignal, KindSpec, KindNote}) || !reflect.DeepEqual(sizes, []int{8, 200_000, 0}) {
			t.Errorf("cut at %d: %c of %d bytes", cut, kinds, sizes)
		}
	}
}

func TestDecoderRefusesSizes(t *testing.T) {
	for _, head := range [][]byte{{0, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff}, {1, 0, 0, 1}} {
		var d Decoder
		d.Took(copy(d.Room(), head))
		if _, _, _, err := d.Next(); err == nil {
			t.Errorf("length % x was taken", head)
		}
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add(AppendNumber(nil, KindKill, 0), 3)
	s := fullSpec()
	f.Add(AppendFrame(nil, KindSpec, s.Append(nil)), 7)
	f.Add([]byte{0, 0, 0, 1, 'k', 0, 0, 0, 0}, 1)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		cut = max(1, min(cut, 1<<16))
		var d Decoder
		var again []byte
		for rest := data; len(rest) > 0; {
			n := copy(d.Room(), rest[:min(cut, len(rest))])
			d.Took(n)
			rest = rest[n:]
			for {
				k, payload, ok, err := d.Next()
				if err != nil {
					return
				}
				if !ok {
					break
				}
				again = AppendFrame(again, k, payload)
			}
			if cap(d.buf) > 2*len(data)+1<<17 {
				t.Fatalf("%d bytes of buffer for %d of input", cap(d.buf), len(data))
			}
		}
		if !bytes.HasPrefix(data, again) {
			t.Fatalf("frames % x are not what was read: % x", again, data)
		}
	})
}

func FuzzSpec(f *testing.F) {
	s := fullSpec()
	f.Add(s.Append(nil))
	f.Add([]byte{specVersion, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Spec
		if s.load(data) != nil {
			return
		}
		var again Spec
		if err := again.load(s.Append(nil)); err != nil || !reflect.DeepEqual(s, again) {
			t.Fatalf("%+v became %+v, %v", s, again, err)
		}
	})
}

func FuzzLead(f *testing.F) {
	head := len(AppendFrame(nil, KindLead, nil))
	f.Add(AppendLead(nil, KindLead, Lead{Id: 7, At: 1 << 40, Files: 2, Testament: []byte("told")})[head:])
	f.Add(AppendLead(nil, KindDone, Lead{Id: 1})[head:])
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := LoadLead(data)
		if err != nil {
			return
		}
		if again := AppendLead(nil, KindLead, l)[head:]; !bytes.Equal(again, data) {
			t.Fatalf("% x became %+v became % x", data, l, again)
		}
		if l.Files > MaxKeep {
			t.Fatalf("%d files", l.Files)
		}
	})
}
