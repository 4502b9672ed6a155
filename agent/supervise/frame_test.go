package supervise

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
)

func fullSpec() spec {
	return spec{path: "/bin/sh", dir: "/", args: []string{"sh", "-c", ""}, env: []string{"A=b", strings.Repeat("x", 300)},
		grace: 3 * time.Second, terminal: true, foreground: true, guard: true, group: 4711, hold: 2, places: []string{"", "/x/lock"}, deadline: 7,
		keep: 3, testament: "told\x00", parent: 4712}
}

func TestSpecRoundTrip(t *testing.T) {
	for _, want := range []spec{{args: []string{}, env: []string{}, places: []string{}}, fullSpec()} {
		data := want.append(nil)
		var got spec
		if err := got.load(data); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		for n := range data {
			if err := new(spec).load(data[:n]); err == nil {
				t.Fatalf("the first %d of %d bytes were taken for a whole one", n, len(data))
			}
		}
		if err := new(spec).load(append(data, 0)); err == nil {
			t.Error("a byte too many was taken")
		}
	}
}

func TestDecoderTakesAnyCut(t *testing.T) {
	var stream []byte
	stream = appendNumber(stream, kindSignal, 15)
	stream = appendFrame(stream, kindSpec, bytes.Repeat([]byte("x"), 200_000))
	stream = appendFrame(stream, kindNote, nil)
	for _, cut := range []int{1, 3, 4096, len(stream)} {
		var d decoder
		var kinds []kind
		var sizes []int
		for rest := stream; len(rest) > 0; {
			n := copy(d.room(), rest[:min(cut, len(rest))])
			d.took(n)
			rest = rest[n:]
			for {
				k, payload, ok, err := d.next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				kinds, sizes = append(kinds, k), append(sizes, len(payload))
			}
		}
		if !reflect.DeepEqual(kinds, []kind{kindSignal, kindSpec, kindNote}) || !reflect.DeepEqual(sizes, []int{8, 200_000, 0}) {
			t.Errorf("cut at %d: %c of %d bytes", cut, kinds, sizes)
		}
	}
}

func TestDecoderRefusesSizes(t *testing.T) {
	for _, head := range [][]byte{{0, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff}, {1, 0, 0, 1}} {
		var d decoder
		d.took(copy(d.room(), head))
		if _, _, _, err := d.next(); err == nil {
			t.Errorf("length % x was taken", head)
		}
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add(appendNumber(nil, kindKill, 0), 3)
	s := fullSpec()
	f.Add(appendFrame(nil, kindSpec, s.append(nil)), 7)
	f.Add([]byte{0, 0, 0, 1, 'k', 0, 0, 0, 0}, 1)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		cut = max(1, min(cut, 1<<16))
		var d decoder
		var again []byte
		for rest := data; len(rest) > 0; {
			n := copy(d.room(), rest[:min(cut, len(rest))])
			d.took(n)
			rest = rest[n:]
			for {
				k, payload, ok, err := d.next()
				if err != nil {
					return
				}
				if !ok {
					break
				}
				again = appendFrame(again, k, payload)
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
	f.Add(s.append(nil))
	f.Add([]byte{specVersion, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var s spec
		if s.load(data) != nil {
			return
		}
		var again spec
		if err := again.load(s.append(nil)); err != nil || !reflect.DeepEqual(s, again) {
			t.Fatalf("%+v became %+v, %v", s, again, err)
		}
	})
}

func FuzzLead(f *testing.F) {
	head := len(appendFrame(nil, kindLead, nil))
	f.Add(appendLead(nil, kindLead, lead{id: 7, at: 1 << 40, files: 2, testament: []byte("told")})[head:])
	f.Add(appendLead(nil, kindDone, lead{id: 1})[head:])
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := loadLead(data)
		if err != nil {
			return
		}
		if again := appendLead(nil, kindLead, l)[head:]; !bytes.Equal(again, data) {
			t.Fatalf("% x became %+v became % x", data, l, again)
		}
		if l.files > maxKeep {
			t.Fatalf("%d files", l.files)
		}
	})
}
