//go:build linux

package alerts

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
)

// prometheus is a server that scrapes jobs and evaluates the rules.
type prometheus struct{ base string }

// scrape starts Prometheus until the end of the test.
func scrape(t *testing.T, program string, jobs map[string][]string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, content any) {
		text, ok := content.(string)
		if !ok {
			all, err := json.Marshal(content) // JSON is YAML
			if err != nil {
				t.Fatal(err)
			}
			text = string(all)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	type object = map[string]any
	var configs []object
	for job, targets := range jobs {
		configs = append(configs, object{"job_name": job, "static_configs": []object{{"targets": targets}}})
	}
	every := interval.String()
	write("config.yml", object{
		"global":         object{"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
		"rule_files":     []string{"rules.yml"},
		"scrape_configs": configs,
	})
	rules, err := hastened(shipped(t))
	if err != nil {
		t.Fatal(err)
	}
	write("rules.yml", rules)
	addr := harness.FreeAddr(t)
	cmd := exec.Command(program, "--config.file=config.yml", "--storage.tsdb.path=data", "--web.listen-address="+addr, "--log.level=warn")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said := &harness.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		harness.End(cmd)
		if t.Failed() {
			t.Logf("Prometheus said:\n%s", said)
		}
	})
	p := &prometheus{base: "http://" + addr}
	wait(t, "Prometheus is ready", func() bool {
		_, err := fetch(p.base + "/-/ready")
		return err == nil
	})
	return p
}

// wait asks until ok returns true, as often as is scraped.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(interval / 2)
	defer look.Stop()
	for late := time.After(harness.Patience); !ok(); {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("not after %v: %s", harness.Patience, what)
		}
	}
}

// fetch returns what an address answers.
func fetch(place string) ([]byte, error) {
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get(place)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", place, resp.Status, text)
	}
	return text, err
}

// ask reads the JSON that Prometheus answers into to.
func (p *prometheus) ask(t *testing.T, place string, to any) {
	t.Helper()
	text, err := fetch(p.base + place)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// firing returns the names of the alerts that fire, by job.
func (p *prometheus) firing(t *testing.T) map[string][]string {
	t.Helper()
	var answer struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	p.ask(t, "/api/v1/alerts", &answer)
	all := map[string][]string{}
	for _, a := range answer.Data.Alerts {
		if job := a.Labels["job"]; a.State == "firing" {
			all[job] = append(all[job], a.Labels["alertname"])
		}
	}
	return unique(all)
}

// series is one series of an answer, as an instant or as a range.
type series struct {
	Metric map[string]string
	Value  []any
	Values [][]any
}

// number is the value of an instant.
func (s series) number() float64 {
	n, _ := strconv.ParseFloat(s.Value[1].(string), 64)
	return n
}

// query asks for an expression: now, or in steps since an instant.
func (p *prometheus) query(t *testing.T, expr string, since time.Time) []series {
	t.Helper()
	ask := url.Values{"query": {expr}}
	place := "/api/v1/query?"
	if !since.IsZero() {
		place = "/api/v1/query_range?"
		for name, at := range map[string]time.Time{"start": since, "end": time.Now()} {
			ask.Set(name, strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64))
		}
		ask.Set("step", "1")
	}
	var answer struct{ Data struct{ Result []series } }
	p.ask(t, place+ask.Encode(), &answer)
	return answer.Data.Result
}

// fired returns the names of the alerts that have ever fired, by job.
func (p *prometheus) fired(t *testing.T) map[string][]string {
	all := map[string][]string{}
	for _, s := range p.query(t, `count by (job, alertname) (max_over_time(ALERTS{alertstate="firing"}[1h]))`, time.Time{}) {
		all[s.Metric["job"]] = append(all[s.Metric["job"]], s.Metric["alertname"])
	}
	return unique(all)
}

func unique(all map[string][]string) map[string][]string {
	for job, names := range all {
		slices.Sort(names)
		all[job] = slices.Compact(names)
	}
	return all
}

// panel is one expression of the dashboard, for all jobs and elections.
type panel struct{ title, expr string }

func panels(t *testing.T) (all []panel) {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/grafana/elect.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	grafana := strings.NewReplacer("$job", ".+", "$election", ".+", "$group", ".+", "$fence", ".+", "$__range", "10m", "$__rate_interval", (4 * interval).String())
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all = append(all, panel{p.Title, grafana.Replace(target.Expr)})
		}
	}
	return all
}
