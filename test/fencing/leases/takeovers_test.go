//go:build linux && cgo

package leases_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// measured is what BenchmarkFailover has measured of a back end, by the names of the deaths with "/elect" and "/native".
type measured struct {
	Native  string             `json:"native"`
	Lease   string             `json:"lease"`
	Bound   string             `json:"bound"` // computed
	Rounds  int                `json:"rounds"`
	Before  float64            `json:"load_before"`
	After   float64            `json:"load_after"`
	Medians map[string]float64 `json:"medians_ms"`
	Rest    map[string]rest    `json:"rest"` // by "leader/elect" and the like
}

// rest is what a process takes while nothing happens.
type rest struct {
	Requests float64 `json:"requests_in_a_lease"`
	CPU      float64 `json:"cpu_percent"`
}

const recorded = "testdata/takeovers.json"

func recordings(t testing.TB) map[string]measured {
	t.Helper()
	all := map[string]measured{}
	text, err := os.ReadFile(recorded)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// record replaces the recording of one back end.
func record(t testing.TB, page string, m measured) {
	t.Helper()
	all := recordings(t)
	all[page] = m
	text, err := json.MarshalIndent(all, "", "\t")
	if err == nil {
		err = os.WriteFile(recorded, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestTakeovers compares the tables of the pages with what BenchmarkFailover has recorded, and the README's with
// docs/back-ends.md.
func TestTakeovers(t *testing.T) {
	all := recordings(t)
	var both, ours, extract bytes.Buffer
	fmt.Fprintln(&both, "| back end, lease | elector | command killed | process killed | told to end | stopped | all killed | requests in a lease: leader, candidate | CPU: leader, candidate | rounds, load |")
	fmt.Fprintln(&both, "|---|---|---|---|---|---|---|---|---|---|")
	fmt.Fprintln(&ours, "| back end | the command dies | `elect run` dies | it is told to end | it hangs | the machine dies | at most | with a lease of | requests in a lease: leader, candidate | CPU: leader, candidate |")
	fmt.Fprintln(&ours, "|---|---|---|---|---|---|---|---|---|---|")
	fmt.Fprintln(&extract, "| back end | lease from | the command dies | the machine dies, at most | natives in the same election |\n|---|---|---|---|---|")
	docs := filepath.Join("..", "..", "..", "docs")
	page, err := os.ReadFile(filepath.Join(docs, "back-ends.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range backends {
		name := fmt.Sprintf("[%s](%s)", b.name, b.page)
		var cells [][]string // of its rows in the page
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, "| "+name+" |") {
				cells = append(cells, strings.Split(strings.Trim(line, "| \n"), " | "))
			}
		}
		if len(cells) < 2 {
			t.Fatalf("docs/back-ends.md has %d rows of %s; want 2 or 3", len(cells), b.name)
		}
		m, ok := all[b.name]
		command := "–"
		if ok {
			command = m.cell("command/elect", "") + " ms"
			fmt.Fprintf(&ours, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", name, m.cell("command/elect", ""), m.cell("process/elect", ""), m.cell("graceful/elect", ""),
				m.cell("hang/elect", ""), m.cell("machine/elect", ""), m.Bound, m.lease(), m.requests("elect"), m.cpu("elect"))
			fmt.Fprintf(&both, "| %s, %s | `elect run` | %s | %s | %s | %s | %s | %s | %s | %d, %.0f to %.0f |\n", b.name, m.lease(), m.cell("command/elect", ""), m.cell("process/elect", "machine/native"),
				m.cell("graceful/elect", "graceful/native"), m.cell("hang/elect", "hang/native"), m.cell("machine/elect", "machine/native"), m.requests("elect"), m.cpu("elect"), m.Rounds, m.Before, m.After)
			if m.Native != "" {
				fmt.Fprintf(&both, "| | %s | – | as all | %s | %s | %s | %s | %s | |\n", m.Native, m.cell("graceful/native", ""), m.cell("hang/native", ""), m.cell("machine/native", ""), m.requests("native"), m.cpu("native"))
			}
		}
		fmt.Fprintf(&extract, "| [%s](docs/%s) | %s | %s | %s | %s |\n", b.name, b.page, cells[0][2], command, cells[0][4], cells[1][3])
	}
	pageHas(t, filepath.Join(docs, "back-ends.md"), map[string]string{"takeovers": ours.String()})
	pageHas(t, filepath.Join(docs, "figures.md"), map[string]string{"takeovers": both.String()})
	pageHas(t, filepath.Join("..", "..", "..", "README.md"), map[string]string{"back ends": extract.String()})
}

// cell is a median, and how many times that of another one it is; "–" if there is none.
func (m *measured) cell(what, than string) string {
	ms, ok := m.Medians[what]
	if !ok {
		return "–"
	}
	text := short(ms)
	if of := m.Medians[than]; of > 0 {
		text += fmt.Sprintf(" (%s×)", short(ms/of))
	}
	return text
}

// lease is that of both electors.
func (m *measured) lease() string {
	if m.Lease == "" {
		return "–"
	}
	return m.Lease
}

func (m *measured) requests(of string) string {
	if m.Lease == "" || m.Native == "" && m.Rest["leader/"+of].Requests == 0 { // they were not counted
		return "–"
	}
	return short(m.Rest["leader/"+of].Requests) + ", " + short(m.Rest["candidate/"+of].Requests)
}

func (m *measured) cpu(of string) string {
	return short(m.Rest["leader/"+of].CPU) + ", " + short(m.Rest["candidate/"+of].CPU) + " %"
}

// short has two digits of a very small number, two after the point of a small one, and none after that of a great one.
func short(n float64) string {
	if n > 0 && n < 0.1 {
		return strconv.FormatFloat(n, 'g', 2, 64)
	}
	digits := 0
	if n < 10 {
		digits = 2
	}
	return strconv.FormatFloat(n, 'f', digits, 64)
}
