package main

import (
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/electd/elect"
	"github.com/electd/elect/peer"
)

// TestDeploy holds deploy to the command as it is: the verb and its flags exist, each variable is one that the verb
// reads, each URL of peers parses, and what stops a node waits longer than its grace.
func TestDeploy(t *testing.T) {
	const dir = "../../deploy"
	names := regexp.MustCompile(`ELECT_[A-Z_]+`)
	unit := read(t, filepath.Join(dir, "systemd/elect@.service"))
	unitGrace := runGrace(t, "elect@.service", strings.Fields(setting(t, "elect@.service", unit, "ExecStart"))[1:])
	if stop := durationOf(t, "elect@.service", setting(t, "elect@.service", unit, "TimeoutStopSec")); stop <= unitGrace {
		t.Errorf("elect@.service: TimeoutStopSec is %v; want more than --grace, which is %v", stop, unitGrace)
	}
	if want := setting(t, "elect@.service", unit, "RestartPreventExitStatus"); want != "64" {
		t.Errorf("elect@.service: RestartPreventExitStatus=%s; want 64, a wrong command line", want)
	}
	env := read(t, filepath.Join(dir, "systemd/example.env"))
	for _, name := range names.FindAllString(env, -1) {
		isVariable(t, "example.env", name)
	}
	peersParse(t, "example.env", setting(t, "example.env", env, "ELECT_ELECTION"), "n1")

	var pods []pod
	for _, file := range []string{"peers.yaml", "sidecar.yaml", "lease.yaml"} {
		pods = append(pods, podsOf(t, filepath.Join(dir, "kubernetes", file))...)
	}
	var electing int
	for _, pod := range pods {
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			if len(c.Args) == 0 {
				continue // the app beside a sidecar
			}
			electing++
			if grace := runGrace(t, c.Name, append([]string{"run"}, c.Args...)); time.Duration(pod.Grace)*time.Second <= grace {
				t.Errorf("%s: terminationGracePeriodSeconds is %d; want more than --grace, which is %v", c.Name, pod.Grace, grace)
			}
			for _, e := range c.Env {
				if strings.HasPrefix(e.Name, "ELECT_") {
					isVariable(t, c.Name, e.Name)
				}
				if e.Name == "ELECT_ELECTION" && strings.HasPrefix(e.Value, peerScheme) {
					peersParse(t, c.Name, e.Value, "scheduler-0")
				}
			}
		}
	}
	if electing != 3 {
		t.Errorf("%d containers in deploy/kubernetes run elect; want a peer, a sidecar and a candidate for a Lease", electing)
	}

	var entry, command []string
	for line := range strings.SplitSeq(read(t, filepath.Join(dir, "container/Containerfile")), "\n") {
		for _, name := range names.FindAllString(line, -1) {
			isVariable(t, "Containerfile", name)
		}
		for key, into := range map[string]*[]string{"ENTRYPOINT ": &entry, "CMD ": &command} {
			if list, ok := strings.CutPrefix(line, key); ok {
				if err := yaml.Unmarshal([]byte(list), into); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if len(entry) == 0 {
		t.Fatal("Containerfile: there is no ENTRYPOINT")
	}
	grace := runGrace(t, "Containerfile", append(entry[1:], command...))

	var compose struct {
		Services map[string]struct {
			Grace       string            `yaml:"stop_grace_period"`
			Environment map[string]string `yaml:"environment"`
		} `yaml:"services"`
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(dir, "container/compose.yaml"))), &compose); err != nil {
		t.Fatal(err)
	}
	if len(compose.Services) != 3 {
		t.Errorf("compose.yaml has %d services; want 3", len(compose.Services))
	}
	for id, s := range compose.Services {
		if stop := durationOf(t, id, s.Grace); stop <= grace {
			t.Errorf("compose.yaml: %s stops after %v; want more than --grace, which is %v", id, stop, grace)
		}
		for name := range s.Environment {
			isVariable(t, "compose.yaml", name)
		}
		if s.Environment["ELECT_ID"] != id {
			t.Errorf("compose.yaml: the service %s has the id %q; want its own name", id, s.Environment["ELECT_ID"])
		}
		peersParse(t, "compose.yaml", s.Environment["ELECT_ELECTION"], id)
	}
}

// container is what the test reads of a container in a pod.
type container struct {
	Name string
	Args []string
	Env  []struct{ Name, Value string }
}

// pod is what the test reads of a pod.
type pod struct {
	Grace          int         `yaml:"terminationGracePeriodSeconds"`
	InitContainers []container `yaml:"initContainers"`
	Containers     []container
}

// podsOf returns the templates of pods in a file.
func podsOf(t *testing.T, path string) []pod {
	t.Helper()
	var all []pod
	for d := yaml.NewDecoder(strings.NewReader(read(t, path))); ; {
		var document struct {
			Spec struct{ Template struct{ Spec *pod } }
		}
		err := d.Decode(&document)
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if p := document.Spec.Template.Spec; p != nil {
			all = append(all, *p)
		}
	}
}

// runGrace parses the arguments of elect run and returns its --grace.
func runGrace(t *testing.T, file string, args []string) time.Duration {
	t.Helper()
	cmd, rest, err := newRoot(elect.Openers{}).Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err != nil || cmd.Name() != "run" || cmd.Flags().ArgsLenAtDash() != 0 || cmd.Flags().NArg() == 0 {
		t.Fatalf("%s: elect %s: %v; want elect run FLAGS -- COMMAND", file, strings.Join(args, " "), err)
	}
	grace, err := cmd.Flags().GetDuration("grace")
	if err != nil {
		t.Fatal(err)
	}
	return grace
}

func isVariable(t *testing.T, file, name string) {
	t.Helper()
	cmd, _, err := newRoot(elect.Openers{}).Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, variable(f.Name)) })
	if !slices.Contains(known, name) {
		t.Errorf("%s: elect run does not read %s; want one of %v", file, name, known)
	}
}

func peersParse(t *testing.T, file, where, id string) {
	t.Helper()
	u, err := url.Parse(where)
	if err == nil {
		_, _, err = peer.ParseURL(u)
	}
	if err != nil {
		t.Errorf("%s: %s: %v", file, where, err)
	}
}

// setting is the value of the one line KEY=VALUE of a unit.
func setting(t *testing.T, unit, text, key string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^`+key+`=(.+)$`).FindAllStringSubmatch(text, -1)
	if len(found) != 1 {
		t.Fatalf("%s: %d lines %s=; want one", unit, len(found), key)
	}
	return found[0][1]
}

func durationOf(t *testing.T, file, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return d
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
