// Package teeth runs a package's tests against the mistakes that they are there for. It
// is for tests in builds with the tag "mutants".
package teeth

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/electd/elect/internal/mutation"
)

// Hunt makes each mistake in what drives a machine, or in a recipe, that a test of this package is to
// catch, in a process of its own, and fails t if that test passes, or fails without a
// mistake.
func Hunt(t *testing.T, pkg string) {
	if os.Getenv(mutation.Env) != "" {
		t.Skip("left out: this process makes a mistake itself")
	}
	run := func(t *testing.T, test, mistake string) (failed bool, out string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.v", "-test.timeout=2m")
		cmd.Env = append(os.Environ(), mutation.Env+"="+mistake)
		text, err := cmd.CombinedOutput()
		out = string(text)
		failed = strings.Contains(out, "\n--- FAIL: "+test+" (")
		if passed := strings.Contains(out, "\n--- PASS: "+test+" ("); passed == failed || failed == (err == nil) || strings.Contains(out, "panic:") {
			t.Fatalf("%s neither passes nor fails: %v\n%s", test, err, out)
		}
		return failed, out
	}
	whole := map[string]bool{}
	for _, d := range append(mutation.OfDriving(), mutation.OfRedis()...) {
		if d.Package != pkg {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			t.Log(d.Says)
			if !whole[d.Test] {
				if failed, out := run(t, d.Test, ""); failed {
					t.Fatalf("%s fails without a mistake:\n%s", d.Test, out)
				}
				whole[d.Test] = true
			}
			if failed, _ := run(t, d.Test, d.Name); !failed {
				t.Errorf("the mutant survives %s", d.Test)
			}
		})
	}
	if len(whole) == 0 {
		t.Errorf("no mistake is caught by a test of %s", pkg)
	}
}
