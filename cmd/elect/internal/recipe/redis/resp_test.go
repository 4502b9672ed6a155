package redis

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestRequests(t *testing.T) {
	for text, want := range map[string][]string{
		"*2\r\n$4\r\nPING\r\n$1\r\nx\r\n": {"PING", "x"},
		"PING  x\r\n":                     {"PING", "x"},
		"\r\n":                            nil,
		"*0\r\n":                          nil,
		"*-1\r\n":                         nil,
		"*1\r\n$0\r\n\r\n":                {""},
	} {
		got, err := readRequest(bufio.NewReader(strings.NewReader(text)), strangers())
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "*1\r\n", "*17\r\n", "*1\r\n$-1\r\n", "*1\r\n$2000\r\n", "*1\r\n:1\r\n", "*x\r\n", "*2\r\n$900\r\n" + strings.Repeat("x", 900) + "\r\n$900\r\n",
		"*1\r\n$1\r\nxy\r\n", strings.Repeat("x", maxInline+1), "*999999999999999999999\r\n",
	} {
		if got, err := readRequest(bufio.NewReader(strings.NewReader(text)), strangers()); err == nil {
			t.Errorf("%.40q: %q; want an error", text, got)
		}
	}
}

// FuzzRequest: whatever clients send, a request is within its bounds, and reads as it was written.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("*2\r\n$4\r\nPING\r\n$1\r\nx\r\n"))
	f.Add([]byte("SENTINEL get-master-addr-by-name mymaster\r\n"))
	f.Add([]byte("*1\r\n$-1\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := bufio.NewReader(bytes.NewReader(text))
		for range 100 {
			args, err := readRequest(r, strangers())
			if err != nil {
				return
			}
			if n := len(strings.Join(args, "")); len(args) > strangers().args || n > strangers().bytes {
				t.Fatalf("a request of %d arguments and %d bytes", len(args), n)
			}
			if len(args) == 0 {
				continue
			}
			again, err := readRequest(bufio.NewReader(bytes.NewReader(appendRequest(nil, args...))), friends())
			if err != nil || !slices.Equal(again, args) {
				t.Fatalf("%q reads as %q, %v", args, again, err)
			}
		}
	})
}

// FuzzReply: whatever a server answers, reading ends.
func FuzzReply(f *testing.F) {
	f.Add([]byte("*2\r\n$1\r\nx\r\n:1\r\n"))
	f.Add([]byte("-ERR x\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = readReply(bufio.NewReader(bytes.NewReader(text)), 0)
	})
}

func TestReplies(t *testing.T) {
	for _, c := range []struct {
		v          any
		two, three string
	}{
		{nil, "$-1\r\n", "_\r\n"},
		{noArray{}, "*-1\r\n", "_\r\n"},
		{simple("OK"), "+OK\r\n", "+OK\r\n"},
		{replyError("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"},
		{pairs{{"a", "b"}}, "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "%1\r\n$1\r\na\r\n$1\r\nb\r\n"},
		{push{"x", 1}, "*2\r\n$1\r\nx\r\n:1\r\n", ">2\r\n$1\r\nx\r\n:1\r\n"},
	} {
		if two, three := string(appendReply(nil, 2, c.v)), string(appendReply(nil, 3, c.v)); two != c.two || three != c.three {
			t.Errorf("%v: %q and %q; want %q and %q", c.v, two, three, c.two, c.three)
		}
	}
}
