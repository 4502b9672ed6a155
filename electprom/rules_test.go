package electprom_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/electd/elect/electprom"
	"github.com/electd/elect/internal/harness"
)

const rules = "../deploy/prometheus/"

// metric finds names of metrics, without what names the series of a histogram.
const metric = `\b(elect_\w+?)(?:_bucket|_count|_sum)?\b`

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// find returns what the first group of a pattern finds, each once, in order.
func find(pattern, text string) []string {
	var all []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// described returns the names of all metrics of an election, or of a group.
func described(of prometheus.Collector) []string {
	ch := make(chan *prometheus.Desc, 100)
	of.Describe(ch)
	close(ch)
	var all strings.Builder
	for d := range ch {
		all.WriteString(d.String())
	}
	return find(`fqName: "(\w+)"`, all.String())
}

// existing returns the names of all metrics of elections and of groups, in order.
func existing() []string {
	all := append(described(electprom.New("job")), described(electprom.NewGroup("group", nil))...)
	slices.Sort(all)
	return all
}

// fences returns the names of the metrics of elect fence proxy.
func fences(t *testing.T) []string {
	return find(`"(elect_fence_\w+)"`, read(t, "../cmd/elect/internal/proxy/metrics.go"))
}

// TestRulesNameWhatExists: the rules, their tests and the page name metrics of the collector and of elect fence proxy
// only, and the page all of the former, and all alerts. Each alert is tested to fire and not to fire.
func TestRulesNameWhatExists(t *testing.T) {
	all := existing()
	text, tests := read(t, rules+"elect.rules.yml")+read(t, rules+"group.rules.yml"), read(t, rules+"elect.rules_test.yml")+read(t, rules+"group.rules_test.yml")
	page := read(t, "../docs/metrics.md")
	if named := find(`(?m)^\| .(elect_\w+)`, page); !slices.Equal(named, all) {
		t.Errorf("docs/metrics.md lists %q;\nthere are %q", named, all)
	}
	for _, name := range find(metric, text+tests+page) {
		if !slices.Contains(all, name) && !slices.Contains(fences(t), name) {
			t.Errorf("there is no metric %s; there are %q, and of fences %q", name, all, fences(t))
		}
	}
	alerts := find(`alert: (\w+)`, text)
	if len(alerts) < 7 {
		t.Errorf("found only the alerts %q; the rules or this test have lost their form", alerts)
	}
	if named := find("(?m)^### (Elect\\w+)", page); !slices.Equal(named, alerts) {
		t.Errorf("docs/metrics.md explains %q;\nthe alerts are %q", named, alerts)
	}
	for _, alert := range alerts {
		fires := strings.Count(tests, "alertname: "+alert+"\n        exp_alerts:")
		if calm := strings.Count(tests, "alertname: "+alert+"\n") - fires; fires == 0 || calm == 0 {
			t.Errorf("%s is tested to fire %d times, and %d times not to; want both", alert, fires, calm)
		}
	}
}

// TestRules runs promtool's tests of the rules.
func TestRules(t *testing.T) {
	harness.Need(t, "promtool", "prometheus")
	for _, args := range [][]string{{"check", "rules", "elect.rules.yml", "group.rules.yml"}, {"test", "rules", "elect.rules_test.yml", "group.rules_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Dir = rules
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// shown returns the expressions of the dashboard's panels, without Grafana's variables of time, and all of its text.
func shown(t *testing.T) (expressions []string, text string) {
	t.Helper()
	text = read(t, "../deploy/grafana/elect.json")
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(text), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			expressions = append(expressions, strings.NewReplacer("$__range", "6h", "$__rate_interval", "1m").Replace(target.Expr))
		}
	}
	if len(expressions) < 15 {
		t.Fatalf("found only the expressions %q; the dashboard or this test has lost its form", expressions)
	}
	return expressions, text
}

// TestDashboardShowsWhatExists: the dashboard names metrics of elections, of groups and of elect fence proxy only, and
// all of the former two.
func TestDashboardShowsWhatExists(t *testing.T) {
	_, text := shown(t)
	fences := fences(t)
	var named []string
	for _, name := range find(metric, text) {
		if !slices.Contains(fences, name) {
			named = append(named, name)
		}
	}
	if all := existing(); !slices.Equal(named, all) {
		t.Errorf("the dashboard shows %q;\nthere are %q, and of fences %q", named, all, fences)
	}
}

// TestDashboardParses: promtool reads each expression of the dashboard, as that of a recording rule.
func TestDashboardParses(t *testing.T) {
	harness.Need(t, "promtool", "prometheus")
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	expressions, _ := shown(t)
	for _, e := range expressions {
		rules = append(rules, rule{fmt.Sprint("panel:", len(rules)), e})
	}
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": rules}}}) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "panels.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool check rules: %v\n%s", err, out)
	}
}
