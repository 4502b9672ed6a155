package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

// TestSameRun: for every protocol, a scenario has the same events and the same hash in the browser as on the command
// line. Each protocol is in crash, or else in the first scenario that has it.
func TestSameRun(t *testing.T) {
	long.Full(t, "it opens a browser")
	chromium(t)
	program := harness.Build(t, "../../lab/cmd/electlab")
	lab := func(out any, args ...string) {
		t.Helper()
		text, err := electlab(t, program, t.TempDir(), args...).Output()
		if err == nil {
			err = json.Unmarshal(text, out)
		}
		if err != nil {
			t.Fatalf("electlab %v: %v\n%s", args, err, text)
		}
	}
	var list struct {
		Protocols []struct{ Name string }
		Scenarios []struct {
			Name     string
			Expected map[string]string
		}
	}
	lab(&list, "sim", "list", "-o", "json")

	s := serve(t, http.Dir(write(t)))
	b := open(t, s.URL)
	b.must(chromedp.Navigate(s.URL + under))
	b.until(ready)
	for _, p := range list.Protocols {
		scenario := ""
		for _, of := range list.Scenarios {
			if _, ok := of.Expected[p.Name]; ok && (scenario == "" || of.Name == "crash") {
				scenario = of.Name
			}
		}
		if scenario == "" {
			t.Errorf("%s is in no scenario", p.Name)
			continue
		}
		var want struct {
			Events uint64
			Hash   string
		}
		lab(&want, "sim", "run", "--scenario", scenario, "--protocol", p.Name, "-o", "json")
		got := eval[string](b, fmt.Sprintf(`(async () => {
			let o = await elect.call("open", {protocol: %q, scenario: %q});
			while (!o.over) o = await elect.call("grow");
			return o.events + " " + o.hash;
		})()`, p.Name, scenario))
		if want := fmt.Sprintf("%d %s", want.Events, want.Hash); got != want {
			t.Errorf("%s, %s: events and hash are %q in the browser and %q on the command line", p.Name, scenario, got, want)
		} else {
			t.Logf("%s, %s: %s", p.Name, scenario, got)
		}
	}
}
