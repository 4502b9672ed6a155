//go:build linux

package chaos

import (
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
	want := "\n" + table() + "\n"
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

// table is the catalogue as a table.
func table() string {
	var b strings.Builder
	fmt.Fprint(&b, "| scenario | what happens to real processes | with | expected |\n|---|---|---|---|\n")
	for _, sc := range catalogue() {
		for i, p := range sc.parts {
			name, story := "", ""
			if i == 0 {
				name, story = "`"+sc.name+"`", sc.story
				if sc.short {
					name += " *"
				}
			}
			fmt.Fprintf(&b, "| %s | %s | `%s`%s | %s |\n", name, story, p.on, conditions(&sc, &p), p.expected)
		}
	}
	return b.String()
}

// conditions describes the conditions of a part.
func conditions(sc *scenario, p *part) string {
	text := fmt.Sprintf(", %d nodes", sc.nodes)
	if sc.spare > 0 {
		text += fmt.Sprintf(" and %d to add", sc.spare)
	}
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
