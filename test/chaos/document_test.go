//go:build linux

package chaos

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/electd/elect/test/chaos/cluster"
)

var rewrite = flag.Bool("rewrite", false, "write the table of docs/scenarios.md anew")

const (
	documentPath  = "../../docs/scenarios.md"
	documentBegin = "<!-- This table is generated: go test ./test/chaos -run TestDocument -rewrite -->\n"
	documentEnd   = "<!-- Here it ends. -->\n"
)

// TestDocument: the table of docs/scenarios.md is that of the catalogue.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(documentPath)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), documentBegin)
	got, tail, ok2 := strings.Cut(rest, documentEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no table between %q and %q", documentPath, documentBegin, documentEnd)
	}
	want := "\n" + table(tail) + "\n"
	if *rewrite {
		if err := os.WriteFile(documentPath, []byte(head+documentBegin+want+documentEnd+tail), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("the table of %s is not that of the catalogue; want go test ./test/chaos -run TestDocument -rewrite", documentPath)
	}
}

// table is the catalogue as a table. What the page says of the simulator's scenario of that name is
// left out.
func table(page string) string {
	var b strings.Builder
	fmt.Fprint(&b, "| scenario | with | what happens, and is expected |\n|---|---|---|\n")
	for _, sc := range catalogue() {
		_, simulated, _ := strings.Cut(page, "\n### "+sc.name+"\n")
		simulated, _, _ = strings.Cut(simulated, "\n### ")
		name, story := "`"+sc.name+"`", sc.story
		if sc.short {
			name += " *"
		}
		simulated = strings.Join(strings.Fields(simulated), " ") + " - `"
		if strings.HasPrefix(simulated, story) {
			story = ""
		}
		type row struct{ on, with, expected string }
		var rows []row
		for _, p := range sc.parts {
			r := row{"`" + p.on + "`", conditions(&sc, &p), p.expected}
			for item := range strings.SplitSeq(simulated, " - `") {
				on, expected, _ := strings.Cut("`"+item, ": ")
				protocol := cmp.Or(p.protocol, quorum)
				family, _, _ := strings.Cut(protocol, "-")
				if expected == r.expected && (strings.Contains(on, "`"+protocol+"`") || strings.Contains(on, "`"+family+"*`")) {
					r.expected = ""
				}
			}
			if n := len(rows) - 1; n >= 0 && rows[n].with == r.with && rows[n].expected == r.expected {
				rows[n].on += " " + r.on
				continue
			}
			rows = append(rows, r)
		}
		for _, r := range rows {
			says := r.expected
			if story != "" {
				says = strings.TrimSuffix(story+" *"+r.expected+"*", " **")
			}
			fmt.Fprintf(&b, "| %s | %s%s | %s |\n", name, r.on, r.with, says)
			name, story = "", ""
		}
	}
	return b.String()
}

// conditions describes the conditions of a part.
func conditions(sc *scenario, p *part) string {
	text := ""
	if p.kind == cluster.Library {
		text += ", library"
	}
	switch {
	case sc.on == proxies || p.net == proxies:
		text += ", proxies"
	case p.net == namespaces:
		text += ", namespaces"
	}
	if sc.disks != nil {
		text += ", FUSE"
	}
	if sc.clocks {
		text += ", bent clocks"
	}
	return text
}
