package runner

import (
	"testing"

	"github.com/electd/elect"
)

// TestPrevious: whom a new leader fences, by what it has seen of the others.
func TestPrevious(t *testing.T) {
	type seen struct {
		id     string
		token  elect.Token
		fenced string // the metadata
	}
	for name, c := range map[string]struct {
		single bool
		seen   []seen
		want   string
	}{
		"nobody":                     {},
		"the last one":               {seen: []seen{{"a", 1, ""}}, want: "a 1\n"},
		"again":                      {seen: []seen{{"a", 1, ""}, {"a", 1, ""}, {"a", 4, ""}}, want: "a 4\n"},
		"one that has fenced":        {seen: []seen{{"a", 1, ""}, {"b", 2, ""}, {"b", 2, "1"}}, want: "b 2\n"},
		"one that could not fence":   {seen: []seen{{"a", 1, ""}, {"b", 2, ""}, {"c", 3, ""}}, want: "a 1\nb 2\nc 3\n"},
		"one that fenced another":    {seen: []seen{{"a", 1, ""}, {"b", 3, "2"}}, want: "a 1\nb 3\n"},
		"what an earlier one fenced": {seen: []seen{{"a", 1, ""}, {"b", 2, ""}, {"c", 3, "1,2"}}, want: "c 3\n"},
		"in a file":                  {single: true, seen: []seen{{"a", 1, ""}, {"b", 2, ""}}, want: "b 2\n"},
		"of another program":         {seen: []seen{{"x 9 isolated", 1, "x,,-1,"}, {"y\nz 2", 3, ""}}, want: "\"x 9 isolated\" 1\n\"y\\nz 2\" 3\n"},
	} {
		var p, again previous
		for _, s := range c.seen {
			p.saw(&elect.Leader{ID: s.id, Token: s.token, Metadata: map[string]string{fencedKey: s.fenced}}, c.single)
		}
		if p.String() != c.want {
			t.Errorf("%s: %q; want %q", name, p.String(), c.want)
		}
		if again.parse(p.String()); again.String() != c.want || len(again.all) > 0 && again.all[0] != p.all[0] {
			t.Errorf("%s: %q after a restart; want %q", name, again.String(), c.want)
		}
	}

	var p previous
	p.parse("a 1\nb 2 isolated\nnonsense\n 3\nc x\n")
	all := p.leaders()
	if len(all) != 2 || all[0].off || !all[1].off {
		t.Fatalf("%+v", all)
	}
	p.isOff(all[0])
	if p.areFenced(all); p.String() != "b 2 isolated\n" || p.claim() != "1,2" {
		t.Errorf("%q, and tells %q", p.String(), p.claim())
	}
	if p.saw(&elect.Leader{ID: "c", Token: 5}, false); p.String() != "c 5\n" {
		t.Errorf("%q after c; want c alone", p.String())
	}
}
