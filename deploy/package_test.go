package deploy

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

// TestPackages: the .deb and the .rpm that make package writes have the same files of root, with modes that the umask
// does not change: the program, its unit, a manual page for each of its verbs, and its completion.
func TestPackages(t *testing.T) {
	long.Test(t, "it builds the command, and what makes packages of it")
	harness.Need(t, "dpkg-deb", "dpkg")
	harness.Need(t, "rpm", "rpm")
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = ".."
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	pages, packages := filepath.Join(dir, "pages"), filepath.Join(dir, "packages")
	run("sh", "-c", `umask 077; exec make package VERSION=1.2.3 PAGES="$0" PACKAGES="$1"`, pages, packages)
	one := func(pattern string) string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(packages, pattern))
		if err != nil || len(found) != 1 {
			t.Fatalf("there are %q; want one %s", found, pattern)
		}
		return found[0]
	}

	want := []string{
		"drwxr-xr-x /etc/elect",
		"-rwxr-xr-x /usr/bin/elect",
		"-rw-r--r-- /usr/lib/systemd/system/elect@.service",
		"-rw-r--r-- /usr/lib/systemd/system/elect-postgres.service",
		"-rw-r--r-- /usr/lib/systemd/system/elect-redis.service",
		"-rw-r--r-- /usr/lib/sysusers.d/elect.conf",
		"-rw-r--r-- /usr/share/bash-completion/completions/elect",
		"-rw-r--r-- /usr/share/doc/elect/copyright",
		"-rw-r--r-- /usr/share/doc/elect/example.env",
		"-rw-r--r-- /usr/share/fish/vendor_completions.d/elect.fish",
		"-rw-r--r-- /usr/share/zsh/site-functions/_elect",
	}
	for _, page := range manual(run, filepath.Join(pages, "elect")) {
		want = append(want, "-rw-r--r-- /usr/share/man/man1/"+page)
	}
	slices.Sort(want)

	// A .deb also lists the directories that others own.
	deb, others := one("elect_1.2.3*_*.deb"), regexp.MustCompile(`^drwxr-xr-x /(etc|usr(/.*)?)?$`)
	check(t, deb, want, regexp.MustCompile(`(?m)^(\S+) root/root .* \.(/.*?)/?$`).FindAllStringSubmatch(run("dpkg-deb", "-c", deb), -1), others)
	if said := run("dpkg-deb", "-f", deb, "Package", "Version", "Maintainer"); !strings.Contains(said, "Package: elect\n") || !strings.Contains(said, "Version: 1.2.3\n") {
		t.Errorf("%s says of itself:\n%s", deb, said)
	}
	rpm := one("elect-1.2.3*.rpm")
	check(t, rpm, want, regexp.MustCompile(`(?m)^(\S+) +\d+ root +root .* (/.*)$`).FindAllStringSubmatch(run("rpm", "-qlvp", rpm), -1), others)
	if said := run("rpm", "-qp", "--qf", "%{NAME} %{VERSION} %{LICENSE}", rpm); !strings.HasSuffix(said, "elect 1.2.3 Apache-2.0") {
		t.Errorf("%s says of itself: %s", rpm, said)
	}
}

// check compares what a package has with what it should have.
func check(t *testing.T, name string, want []string, listed [][]string, others *regexp.Regexp) {
	t.Helper()
	var got []string
	for _, m := range listed {
		if line := fmt.Sprint(m[1], " ", m[2]); !others.MatchString(line) {
			got = append(got, line)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s has\n%s\nwant\n%s", filepath.Base(name), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// manual returns the names of the manual pages of a program: one for each verb that its help lists.
func manual(run func(string, ...string) string, program string, command ...string) []string {
	pages := []string{strings.Join(append([]string{"elect"}, command...), "-") + ".1"}
	help := run(program, append(slices.Clone(command), "--help")...)
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`).FindAllStringSubmatch(section(help), -1) {
		if m[1] != "help" {
			pages = append(pages, manual(run, program, append(slices.Clone(command), m[1])...)...)
		}
	}
	return pages
}

// section is what a help text says of verbs.
func section(help string) string {
	_, rest, _ := strings.Cut(help, "\nVerbs:\n")
	verbs, _, _ := strings.Cut(rest, "\n\n")
	return verbs
}
