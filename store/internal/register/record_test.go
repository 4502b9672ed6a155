package register

import (
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

func full() *protocol.Record {
	return &protocol.Record{
		Holder: "web-3:4711", Nonce: protocol.Nonce{1, 1<<64 - 1}, Count: 7, Attempt: 12, Duration: 1500 * time.Millisecond, Store: "731/00000002",
		Free: protocol.FreeMark{Holder: "web-1:12", Nonce: protocol.Nonce{3, 4}, Count: 6},
	}
}

// TestRecord: what is written is what is read.
func TestRecord(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	metadata := map[string]string{"addr": "10.0.0.3:80", "<": "&"}
	for name, r := range map[string]*protocol.Record{
		"full": full(), "free": {Nonce: protocol.Nonce{1, 2}, Count: 6, Attempt: 3, Duration: time.Second}, "empty": {},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := encode(r, since, metadata, "")
			if err != nil {
				t.Fatal(err)
			}
			got, in, err := decode(text)
			if err != nil || *got != *r {
				t.Fatalf("%s\nis read as %+v, %v; want %+v", text, got, err, r)
			}
			if l := in.leader(); r.Holder != "" && (!l.Since.Equal(since) || l.Metadata["addr"] != "10.0.0.3:80" || l.Metadata["<"] != "&") {
				t.Errorf("leader %+v", l)
			}
		})
	}
}

func TestForeignRecords(t *testing.T) {
	good, err := encode(full(), time.Time{}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", "EOF"},
		"another form":   {strings.Replace(good, `"format":1`, `"format":2`, 1), "format 2; want 1"},
		"a field more":   {strings.Replace(good, `{`, `{"priority":3,`, 1), "unknown field"},
		"two of them":    {good + good, "more follows"},
		"a short nonce":  {strings.Replace(good, strings.Repeat("f", 16), "", 1), "want 32 hexadecimal digits"},
		"no time":        {strings.Replace(good, "1.5s", "soon", 1), "lease"},
		"a bad holder":   {strings.Replace(good, "web-3:4711", "a b", 1), `contains ' '`},
		"much too long":  {strings.Repeat("x", MaxRecord+1), "want at most 32768"},
		"not any object": {"17", "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			if r, _, err := decode(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, %v; want an error with %q", r, err, c.want)
			}
		})
	}
}

func FuzzRecord(f *testing.F) {
	text, err := encode(full(), time.Unix(1, 0), map[string]string{"a": "b"}, "")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text string) {
		r, in, err := decode(text)
		if err != nil {
			return
		}
		again, err := encode(r, in.Since, in.Metadata, "")
		if err != nil {
			return // longer than what was read, with all of its fields
		}
		if got, _, err := decode(again); err != nil || *got != *r {
			t.Errorf("%s is %+v, and written again %+v, %v", text, r, got, err)
		}
	})
}

// TestVersions: a version is known by its number while it is one of the latest.
func TestVersions(t *testing.T) {
	var v versions
	first := v.number("a")
	if first == 0 || first != v.number("a") || first == v.number("b") {
		t.Fatal("want one number for each version, and not 0")
	}
	if s, ok := v.text(first); s != "a" || !ok {
		t.Fatalf("%q, %t; want a", s, ok)
	}
	for s := range strings.FieldsSeq("c d e f g h i j") {
		v.number(s)
	}
	if s, ok := v.text(first); ok {
		t.Errorf("%q is known after eight others", s)
	}
	if s, ok := v.text(0); s != "" || !ok {
		t.Errorf("%q, %t; want no version for 0", s, ok)
	}
}
