//go:build linux

package network

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

// seen draws the links: a line for each node, with the nodes that it hears.
func seen(n int, l Links) string {
	var lines []string
	for to := range n {
		var line strings.Builder
		for from := range n {
			switch {
			case from == to:
				line.WriteByte('\\')
			case l.Connected(from, to):
				fmt.Fprint(&line, from)
			default:
				line.WriteByte('.')
			}
		}
		lines = append(lines, line.String())
	}
	return strings.Join(lines, " ")
}

func TestShapes(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int
		links Links
		want  string
	}{
		{"perfect", 3, nil, `\12 0\2 01\`},
		{"isolate", 4, Isolate(4, 1), `\.23 .\.. 0.\3 0.2\`},
		{"apart", 3, Apart(3), `\.. .\. ..\`},
		{"one way", 3, OneWay(3, 0, 2), `\12 0\2 .1\`},
		{"mute", 3, Mute(3, 1), `\.2 0\2 0.\`},
		{"deaf", 3, Deaf(3, 1), `\12 .\. 01\`},
		{"partial", 4, Partial(4, 0, 3), `\12. 0\23 01\3 .12\`},
		{"halves", 5, Halves(5, 0, 3), `\..3. .\2.4 .1\.4 0..\. .12.\`},
		{"no halves", 3, Halves(3), `\12 0\2 01\`},
		{"bridge", 5, Bridge(5, 2), `\12.. 0\2.. 01\34 ..2\4 ..23\`},
		{"bridge of 4", 4, Bridge(4, 0), `\123 0\2. 01\. 0..\`},
		{"ring of majorities", 5, RingOfMajorities(5), `\1..4 0\2.. .1\3. ..2\4 0..3\`},
		{"ring of majorities of 4", 4, RingOfMajorities(4), `\1.3 0\2. .1\3 0.2\`},
		{"ring of majorities of 3", 3, RingOfMajorities(3), `\12 0\2 01\`},
		{"ring of majorities of 7", 7, RingOfMajorities(7), `\12..56 0\23..6 01\34.. .12\45. ..23\56 0..34\6 01..45\`},
		{"chain", 4, Chain(4), `\1.. 0\2. .1\3 ..2\`},
		{"hub", 4, Hub(4, 2), `\.2. .\2. 01\3 ..2\`},
		{"cloudflare", 5, Cloudflare2020(), `\12.. 0\23. 01\.4 .1.\. ..2.\`},
		{"lossy", 2, Lossy(2, 99), `\1 0\`},
		{"lost", 2, Lossy(2, 100), `\. .\`},
		{"slow", 2, Slow(2, time.Hour, time.Hour), `\1 0\`},
		{"merged", 3, Merge(OneWay(3, 0, 1), Lossy(3, 20), Mute(3, 2)), `\1. .\. 01\`},
	} {
		if got := seen(c.n, c.links); got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
	}
}

// TestMajorities: in a ring of majorities each has one, and no two the same.
func TestMajorities(t *testing.T) {
	for n := 4; n <= 9; n++ {
		links, sets := RingOfMajorities(n), map[string]bool{}
		for to := range n {
			set, size := "", 0
			for from := range n {
				if links.Connected(from, to) {
					set, size = set+fmt.Sprint(from), size+1
				}
			}
			if size < n/2+1 || sets[set] {
				t.Errorf("of %d nodes %d hears %s", n, to, set)
			}
			sets[set] = true
		}
	}
}

func TestMerge(t *testing.T) {
	got := Merge(Links{{0, 1}: {Loss: 10, Delay: 2}}, nil, Links{{0, 1}: {Loss: 5, Delay: 1, Jitter: 3}, {1, 0}: {Cut: true}})
	want := Links{{0, 1}: {Loss: 10, Delay: 2, Jitter: 3}, {1, 0}: {Cut: true}}
	if !maps.Equal(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
}

// TestNoSuchNode: a shape with a node that does not exist would be no fault.
func TestNoSuchNode(t *testing.T) {
	for name, f := range map[string]func(){
		"isolate": func() { Isolate(3, 3) }, "one way": func() { OneWay(3, 0, 3) }, "mute": func() { Mute(3, -1) },
		"deaf": func() { Deaf(3, 3) }, "partial": func() { Partial(3, 3, 0) }, "halves": func() { Halves(3, 0, 4) },
		"bridge": func() { Bridge(3, 3) }, "hub": func() { Hub(3, -1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestJSON(t *testing.T) {
	links := Merge(OneWay(3, 0, 2), Slow(2, time.Millisecond, 2), Links{{2, 1}: {Loss: 7}})
	text, err := json.Marshal(links)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"0-1":{"delay":1000000,"jitter":2},"0-2":{"cut":true},"1-0":{"delay":1000000,"jitter":2},"2-1":{"loss":7}}`; string(text) != want {
		t.Errorf("%s; want %s", text, want)
	}
	var back Links
	if err := json.Unmarshal(text, &back); err != nil || !maps.Equal(back, links) {
		t.Errorf("%v, %v; want %v", back, err, links)
	}
	for _, bad := range []string{"", "1", "1-", "-1", "a-b", "1-2-3", "01-2", "-1-2", " 1-2", "1--2", "+1-2"} {
		if err := new(Way).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is a way", bad)
		}
	}
	for k, want := range map[Link]string{
		{}: "perfect", {Cut: true}: "cut", {Loss: 3}: "3% lost", {Cut: true, Delay: time.Second, Jitter: time.Second}: "cut, 1s to 2s slow",
	} {
		if k.String() != want {
			t.Errorf("%q; want %q", k, want)
		}
	}
}
