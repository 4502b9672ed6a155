package electtest_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Each mutant of the in-memory back end has one error, and the named case must report it. This
// shows what the suite detects.

const mutantEnv = "ELECTTEST_MUTANT"

// TestTeeth starts this binary again for each mutant, because a failing case would fail the test
// that runs it.
func TestTeeth(t *testing.T) {
	if os.Getenv(mutantEnv) != "" {
		t.Skip("this is the process of a mutant")
	}
	t.Run("control", func(t *testing.T) {
		t.Parallel()
		if out, err := runMutant(t, "control", "."); err != nil {
			t.Fatalf("the suite fails without a mutation: %v\n%s", err, out)
		}
	})
	for name, m := range mutants() {
		if name == "control" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := runMutant(t, name, "^"+m.fails+"$")
			if err == nil {
				t.Fatalf("the mutant survives the case %q", m.fails)
			}
			// An assertion of the suite about this error must report it, not a defect of the
			// mutant.
			line := regexp.MustCompile(`cases\w*\.go:\d+: .*(?:` + m.says + `)`)
			if !strings.Contains(out, "--- FAIL: TestMutant/"+strings.ReplaceAll(m.fails, " ", "_")) || !line.MatchString(out) {
				t.Errorf("the case %q does not say %q:\n%s", m.fails, m.says, out)
			}
		})
	}
}

func runMutant(t *testing.T, name, only string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0],
		"-test.run=^TestMutant$/"+strings.ReplaceAll(only, " ", "_"), "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), mutantEnv+"="+name)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if !strings.Contains(string(out), "=== RUN   TestMutant/") {
		t.Fatalf("no case ran: %v\n%s", err, out)
	}
	return string(out), err
}

// TestMutant runs the suite on one mutant, in a process that TestTeeth started.
func TestMutant(t *testing.T) {
	name := os.Getenv(mutantEnv)
	if name == "" {
		t.Skip("TestTeeth starts it, once for each mutant")
	}
	m, ok := mutants()[name]
	if !ok {
		t.Fatalf("no mutant is called %q", name)
	}
	m.run(t)
}

// Every case of the suite must have a mutant that names it.
func TestEveryCaseHasTeeth(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMutant$", "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), mutantEnv+"=control")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	caught := map[string]bool{}
	for _, m := range mutants() {
		caught[strings.ReplaceAll(m.fails, " ", "_")] = true
	}
	cases := regexp.MustCompile(`=== RUN   TestMutant/(\S+)`).FindAllStringSubmatch(string(out), -1)
	if len(cases) == 0 {
		t.Fatalf("no case ran:\n%s", out)
	}
	for _, c := range cases {
		if !caught[c[1]] {
			t.Error(fmt.Errorf("no mutant is caught by the case %q", c[1]))
		}
	}
}
