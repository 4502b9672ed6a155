package sdnotify

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Message{
		"":                                   {},
		"READY=1":                            {Ready: true},
		"READY=1\nSTATUS=up and\trunning\n":  {Ready: true, Status: new("up and running")},
		"READY=0\nSTOPPING=0\nWATCHDOG=0":    {},
		"STOPPING=1\x00":                     {Stopping: true},
		"WATCHDOG=1":                         {Alive: true},
		"WATCHDOG=trigger":                   {Ill: true},
		"WATCHDOG=1\nWATCHDOG=trigger":       {Alive: true, Ill: true},
		"WATCHDOG_USEC=1500000":              {Limit: new(1500 * time.Millisecond)},
		"WATCHDOG_USEC=0":                    {Limit: new(time.Duration(0))},
		"WATCHDOG_USEC=18446744073709551615": {Limit: new(time.Duration(0))}, // infinity
		"EXTEND_TIMEOUT_USEC=1":              {Extend: time.Microsecond},
		"STATUS=a\x1b[2Jb":                   {Status: new("a [2Jb")},
		"STATUS=":                            {Status: new("")},
		"STATUS=a=b":                         {Status: new("a=b")},
		"MAINPID=1\nFDSTORE=1\nBARRIER=1\nERRNO=2\nRELOADING=1\n=\nX": {},
	} {
		if got, err := Parse([]byte(text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"WATCHDOG_USEC=-1\nREADY=1":         "WATCHDOG_USEC=-1: want a number of microseconds",
		"EXTEND_TIMEOUT_USEC=1s\nREADY=1":   "EXTEND_TIMEOUT_USEC=1s: want a number of microseconds",
		"STATUS=\xff\nREADY=1\nSTATUS=\xfe": "STATUS=?: want UTF-8",
	} {
		if got, err := Parse([]byte(text)); err == nil || err.Error() != says || !got.Ready {
			t.Errorf("%q: %+v, %v; want %q, and the other field", text, got, err, says)
		}
	}
	if _, err := Parse(make([]byte, maxDatagram+1)); err == nil {
		t.Error("a datagram that is too long was taken")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("READY=1\nWATCHDOG_USEC=5\nEXTEND_TIMEOUT_USEC=18446744073709551615\nSTATUS=x"))
	f.Add([]byte("STATUS=\xff\x1b\nWATCHDOG=trigger\nSTOPPING=1\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if m.Extend < 0 || m.Limit != nil && (*m.Limit < 0 || *m.Limit > never) {
			t.Errorf("%+v: a time is out of bounds", m)
		}
		for _, text := range []*string{m.Status, errText(err)} {
			if text == nil {
				continue
			}
			if !utf8.ValidString(*text) || strings.ContainsAny(*text, "\x00\n\r\x1b\u0085\u2028") || len(*text) > 2*maxStatus {
				t.Errorf("%q is not fit for a line", *text)
			}
		}
		again, _ := Parse(append(b, 0))
		if len(b) < maxDatagram && !reflect.DeepEqual(m, again) {
			t.Errorf("%+v, and %+v with a zero byte at the end", m, again)
		}
	})
}

func errText(err error) *string {
	if err == nil {
		return nil
	}
	return new(err.Error())
}

func TestParseTime(t *testing.T) {
	for _, text := range []string{"", " 1", "1 ", "+1", "1.5", "0x1", "18446744073709551616"} {
		if d, err := ParseTime(text); err == nil {
			t.Errorf("%q: %v; want an error", text, d)
		}
	}
	if d, err := ParseTime("9223372036854775807"); d != 0 || err != nil || math.MaxInt64 != 9223372036854775807 {
		t.Errorf("%v, %v; want none", d, err)
	}
}
