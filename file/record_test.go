//go:build linux || darwin || freebsd

package file

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
)

func TestRecord(t *testing.T) {
	in := &record{ID: "me", Token: 42, PID: 7, Host: "here", Since: time.Unix(1, 2).UTC(), Metadata: map[string]string{"a": "b\n<é>"}}
	b, err := in.encode()
	if err != nil {
		t.Fatal(err)
	}
	out, err := decodeRecord(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(in, out) {
		t.Fatalf("%+v came back as %+v", in, out)
	}
}

func TestLargestMetadataFits(t *testing.T) {
	in := &record{ID: "me", Token: 42, Metadata: map[string]string{"k": strings.Repeat("\x01", driver.MaxMetadata-1)}}
	b, err := in.encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decodeRecord(b); err != nil {
		t.Fatal(err)
	}
}

func TestRecordRefuses(t *testing.T) {
	for _, text := range []string{
		"", "\x00\x00", "{", "[]", `"x"`, `{"version":1,"id":"me","token":"0"}`, `{"version":2,"id":"me","token":"1"}`,
		`{"version":1,"id":"","token":"1"}`, `{"version":1,"id":"me","token":1}`, strings.Repeat(" ", maxRecord+1),
		`{"version":1,"id":"me","token":"1","metadata":{"k":"` + strings.Repeat("x", driver.MaxMetadata) + `"}}`,
	} {
		if r, err := decodeRecord([]byte(text)); err == nil {
			t.Errorf("%.40q was read as %+v", text, r)
		}
	}
}

func FuzzRecord(f *testing.F) {
	b, err := (&record{ID: "me", Token: 42, PID: 7, Metadata: map[string]string{"a": "b"}}).encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRecord(b)
		if err != nil {
			return
		}
		again, err := r.encode()
		if err != nil {
			t.Skip() // a time that JSON can be read from and not written to
		}
		r2, err := decodeRecord(again)
		if err != nil {
			t.Fatalf("%q was read, and %q, as it is written, is not: %v", b, again, err)
		}
		if r2.ID != r.ID || r2.Token != r.Token || len(r2.Metadata) != len(r.Metadata) {
			t.Fatalf("%+v came back as %+v", r, r2)
		}
	})
}
